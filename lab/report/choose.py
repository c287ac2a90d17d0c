# SPDX-License-Identifier: Apache-2.0
"""What to choose when: for each need who is best in the results, and who is not clearly worse."""

from __future__ import annotations

from collections.abc import Callable

from lab.report.labels import CHANGED, TRAINED, in_order, times
from lab.report.papers import CLEAR, Numbers, found_answers, last_loss
from lab.report.results import Results
from lab.report.statistics import Value, value_of
from lab.report.tables import table

LENGTHS = (4, 16, 64)
NAMED = 6
CONTROLS = ("rotary adjacent", "rotary bf16 tables")  # the same encoding in another order or rounding: no choice of its own


def row(results: Results, need: str, labels: list[str], read: Callable[[str], Numbers], shown: Callable[[Value], str]) -> list[str]:
    """`read` gives what is to be small, seed by seed."""
    numbers = {label: found for label in labels if label not in CONTROLS and (found := read(label))}
    if not numbers:
        return []
    ranked = sorted(numbers, key=lambda label: value_of(list(numbers[label].values())).mean)
    best, near = ranked[0], []
    for label in ranked[1:]:
        behind = results.difference(numbers[label], numbers[best])
        if behind is not None and behind.mean <= max(CLEAR, behind.half or 0.0):
            near.append(label)
    others = ", ".join(f"`{label}`" for label in near[:NAMED]) + (f" and {len(near) - NAMED} more" if len(near) > NAMED else "")
    seeds = ", one seed" if len(numbers[best]) == 1 else ""
    return [need, f"`{best}` ({shown(value_of(list(numbers[best].values())))}{seeds})", others or "nobody"]


def lines(results: Results) -> list[str]:
    measured, asked = results.labels("measured"), results.labels("retrieval")
    trained, changed = in_order(measured, TRAINED), in_order(measured, CHANGED)

    def loss(need: str, labels: list[str], multiple: float, tuned: bool = False) -> list[str]:
        return row(results, need, labels, lambda label: last_loss(results, label, multiple, tuned), Value.written)

    def answers(need: str, labels: list[str], multiple: float) -> list[str]:
        length = round(multiple * results.length)
        return row(
            results,
            need,
            labels,
            lambda label: {seed: -share for seed, share in found_answers(results, label, length).items()},
            lambda value: f"{abs(100 * value.mean):.0f} % of the answers",
        )

    rows = [loss("to train, and to read at the same length", trained, 1)]
    rows += [loss(f"to train, and to read at {times(multiple)} as it is", trained, multiple) for multiple in LENGTHS]
    rows += [loss(f"a rotary model that is there, read at {times(multiple)}", ["rotary", *changed], multiple) for multiple in LENGTHS]
    rows += [loss("the same, after a short fine-tune, at 4x", changed, 4, True)]
    rows += [answers(f"to train, and to find what was said far back, at {times(multiple)}", in_order(asked, TRAINED), multiple) for multiple in (1, *LENGTHS)]
    rows += [answers(f"a rotary model that is there, to find what was said far back, at {times(multiple)}", in_order(asked, ("rotary", *CHANGED)), multiple) for multiple in (4, 16)]
    return table(["need", "best here", "not clearly worse"], [one for one in rows if one])[1:]
