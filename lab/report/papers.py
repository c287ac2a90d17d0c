# SPDX-License-Identifier: Apache-2.0
"""How a claim of a paper is held against our results (claims.py has the claims). A verdict is computed, never written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.report.labels import GUESSED, TASKS, TRAINED, times
from lab.report.results import Results
from lab.report.statistics import Value

CLEAR = 0.01  # nats (or a share of answers): a smaller difference is none
HOLDS, FAILS, SAME, MISSING = "holds", "does not hold", "no clear difference", "not measured yet"
Numbers = dict[int, float]


@dataclass(frozen=True)
class Claim:
    """`tests` are differences that the claim says are above 0, each with its words."""

    paper: str
    says: str
    tests: tuple[Measure, ...]
    differs: str
    read: str = "from memory"  # where in the paper the claim was read


@dataclass(frozen=True)
class Measure:
    words: str
    difference: Callable[[Results], Value | None]
    even: bool = False  # whether no clear difference is enough


def verdict(value: Value) -> str:
    """Clear of 0 by CLEAR, and by the interval where there is one."""
    margin = max(CLEAR, value.half or 0.0)
    return HOLDS if value.mean > margin else FAILS if value.mean < -margin else SAME


def judged(test: Measure, value: Value | None) -> str:
    found = MISSING if value is None else verdict(value)
    return HOLDS if test.even and found == SAME else found


def together(verdicts: list[str]) -> str:
    """Of a claim with several tests."""
    if all(one == MISSING for one in verdicts):
        return MISSING
    if MISSING in verdicts:
        return f"{together([one for one in verdicts if one != MISSING])} (in part not measured yet)"
    kinds = set(verdicts)
    return kinds.pop() if len(kinds) == 1 else "holds in part" if HOLDS in kinds else FAILS if FAILS in kinds else SAME


def last_loss(results: Results, label: str, multiple: float, tuned: bool = False) -> Numbers:
    """A scaling by 1 is no scaling."""
    found = results.numbers("measured", label, "last", multiple=multiple, tuned=tuned)
    return found or (last_loss(results, "rotary", multiple) if label.startswith("rotary, ") and multiple <= 1 and not tuned else {})


def above(higher: str, lower: str, multiple: float, tuned: bool = False, even: bool = False) -> Measure:
    """The loss of one label above that of another at a length."""
    words = f"`{higher}` − `{lower}` at {times(multiple)}{', both fine-tuned' if tuned else ''}"
    return Measure(words, lambda results: results.difference(last_loss(results, higher, multiple, tuned), last_loss(results, lower, multiple, tuned)), even)


def grows(label: str, multiple: float, over: float = 1, tuned: bool = False) -> Measure:
    """Loss on the last tokens at a length above that at another one, the trained one unless said."""
    words = f"`{label}` at {times(multiple)} − at {times(over)}{', fine-tuned' if tuned else ''}"
    return Measure(words, lambda results: results.difference(last_loss(results, label, multiple, tuned), last_loss(results, label, over, tuned)))


def stays(label: str, multiple: float) -> Measure:
    """The other way round, with as much as is no clear difference allowed for."""
    return Measure(f"`{label}` at 1x − at {times(multiple)}", lambda results: results.difference(last_loss(results, label, 1), last_loss(results, label, multiple)), True)


def finds(better: str, worse: str, multiple: float) -> Measure:
    """Right answers of all tasks together."""

    def difference(results: Results) -> Value | None:
        return results.difference(*(found_answers(results, label, round(multiple * results.length)) for label in (better, worse)))

    return Measure(f"answers of `{better}` − `{worse}` at {times(multiple)}", difference)


def found_answers(results: Results, label: str, length: int) -> Numbers:
    """The share of right answers over all tasks. Where nobody learned to answer there is nothing to compare, and shares of a hundredth are chance."""
    if not any(share > GUESSED for trained in TRAINED for share in _answers(results, trained, results.length).values()):
        return {}
    return _answers(results, label, length)


def _answers(results: Results, label: str, length: int) -> Numbers:
    by_task = [results.numbers("retrieval", label, "accuracy", task=task, length=length) for task in TASKS]
    by_task = [one for one in by_task if one]
    seeds = set.intersection(*(set(one) for one in by_task)) if by_task else set()
    return {seed: sum(one[seed] for one in by_task) / len(by_task) for seed in seeds}
