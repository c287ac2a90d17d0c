# SPDX-License-Identifier: Apache-2.0
"""What to choose when: for each need who is best in the results, and who is near. Of losses near is who is not clearly worse. A share of answers has no
interval that means anything, because a seed learns a task or does not: there near is whom no seed leaves far behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.report.labels import CHANGED, CONTROLS, TRAINED, in_order, times
from lab.report.papers import CLEAR, Numbers, found_answers, last_loss
from lab.report.results import Results
from lab.report.statistics import Value, value_of
from lab.report.tables import mark, table

LENGTHS = (4, 16, 64)
NAMED = 6
BEHIND = 0.15  # of all answers: who is further behind the best one with any seed is not near


@dataclass(frozen=True)
class Kind:
    """Of numbers: whether the least is the best, how a value is shown, and what is said of one who is near the best; None of one who is not."""

    least: bool
    shown: Callable[[Value], str]
    near: Callable[[Results, Numbers, Numbers], str | None]


def _not_clearly_worse(results: Results, one: Numbers, best: Numbers) -> str | None:
    """Who scatters is not clearly worse soon, so it is said whether every seed is."""
    behind = results.difference(one, best)
    if behind is None or behind.mean > max(CLEAR, behind.half or 0.0):
        return None
    return " (behind with every seed)" if behind.ends is not None and behind.ends[0] > CLEAR else ""


def _never_far_behind(results: Results, one: Numbers, best: Numbers) -> str | None:
    return "" if set(best) <= set(one) and all(best[seed] - one[seed] <= BEHIND for seed in best) else None


def _answers(value: Value) -> str:
    mean, *ends = (f"{100 * one:.0f}" for one in (value.mean, *(value.ends or ())))
    return f"{mean} % of the answers" + (f", {ends[0]} to {ends[1]}" if len(set(ends)) > 1 else "")


LOSS = Kind(True, Value.written, _not_clearly_worse)
ANSWERS = Kind(False, _answers, _never_far_behind)


def row(results: Results, need: str, labels: list[str], kind: Kind, read: Callable[[str], Numbers]) -> list[str]:
    """Who is best, and who is near; nothing where nothing is measured."""
    numbers = {label: found for label in labels if label not in CONTROLS and (found := read(label))}
    if not numbers:
        return []
    values = {label: value_of(list(found.values())) for label, found in numbers.items()}
    best, *others = sorted(values, key=lambda label: values[label].mean if kind.least else -values[label].mean)
    said_of = {label: kind.near(results, numbers[label], numbers[best]) for label in others}
    near = [f"`{label}`{words}" for label, words in said_of.items() if words is not None]
    said = ", ".join(near[:NAMED]) + (f" and {len(near) - NAMED} more" if len(near) > NAMED else "")
    seeds = ", one seed" if len(numbers[best]) == 1 else mark(values[best], max(len(found) for found in numbers.values()))
    return [need, f"`{best}` ({kind.shown(values[best])}{seeds})", said or "nobody"]


def lines(results: Results) -> list[str]:
    measured, asked = results.labels("measured"), results.labels("retrieval")
    trained, changed = in_order(measured, TRAINED), in_order(measured, CHANGED)

    def loss(need: str, labels: list[str], multiple: float, tuned: bool = False) -> list[str]:
        return row(results, need, labels, LOSS, lambda label: last_loss(results, label, multiple, tuned))

    def answers(need: str, labels: list[str], multiple: float) -> list[str]:
        return row(results, need, labels, ANSWERS, lambda label: found_answers(results, label, round(multiple * results.length)))

    rows = [loss("to train, and to read at the same length", trained, 1)]
    rows += [loss(f"to train, and to read at {times(multiple)} as it is", trained, multiple) for multiple in LENGTHS]
    rows += [loss(f"a rotary model that is there, read at {times(multiple)}", ["rotary", *changed], multiple) for multiple in LENGTHS]
    rows += [loss("the same, after a short fine-tune, at 4x", changed, 4, True)]
    rows += [answers(f"to train, and to find what was said far back, at {times(multiple)}", in_order(asked, TRAINED), multiple) for multiple in (1, *LENGTHS)]
    rows += [answers(f"a rotary model that is there, to find what was said far back, at {times(multiple)}", in_order(asked, ("rotary", *CHANGED)), multiple) for multiple in (4, 16)]
    rule = f"Losses are of the last 512 tokens: near is who is within {CLEAR:g} of the best, or within the interval of the difference. Of answers stand the mean, the least and the most of a seed: "
    rule += f"near is who is never more than {round(100 * BEHIND)} points of a hundred behind the best with the same seed, so who fails with one seed is not."
    return [rule, "", *table(["need", "best here", "near"], [one for one in rows if one])[1:]]
