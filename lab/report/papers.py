# SPDX-License-Identifier: Apache-2.0
"""How a claim of a paper is held against our results (claims.py has the claims). A verdict is computed, never written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.report.labels import GUESSED, TASKS, TRAINED, times
from lab.report.losses import FIRST_FULL, Numbers, end_loss, last_loss
from lab.report.results import Results
from lab.report.statistics import Value

CLEAR = 0.01  # nats (or a share of answers): a smaller difference is none
AT_THE_END = "end"  # claims.py says on the page what that is
HOLDS, FAILS, SAME, MISSING = "holds", "does not hold", "no clear difference", "not measured yet"
NO_STANDARD = "says nothing: what it is compared with fails here"


@dataclass(frozen=True)
class Claim:
    """`tests` are differences that the claim says are above 0, each with its words. Where `premise` does not hold, they say nothing of the claim."""

    paper: str
    says: str
    tests: tuple[Measure, ...]
    differs: str
    read: str = "from memory"  # where in the paper the claim was read
    premise: Measure | None = None


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


def _loss(results: Results, label: str, multiple: float, tuned: bool, end: bool, beside: float) -> Numbers:
    return end_loss(results, label, multiple, tuned, (beside,)) if end else last_loss(results, label, multiple, tuned)


def above(higher: str, lower: str, multiple: float, tuned: bool = False, even: bool = False, end: bool = False) -> Measure:
    """The loss of one label above that of another at a length; of its end alone where the paper reads tokens that have all of a window before them."""
    words = f"`{higher}` − `{lower}` at {times(multiple)}{', both fine-tuned' if tuned else ''}{', ' + AT_THE_END if end else ''}"
    return Measure(words, lambda results: results.difference(*(_loss(results, label, multiple, tuned, end, multiple) for label in (higher, lower))), even)


def grows(label: str, multiple: float, over: float = 1, tuned: bool = False) -> Measure:
    """Loss at a length above that at another one, the trained one unless said. What stands before the last 512 tokens at the trained length is not what
    stands before them at any other, so there only the end is compared."""
    words = f"`{label}` at {times(multiple)} − at {times(over)}{', fine-tuned' if tuned else ''}{'' if over >= FIRST_FULL else ', ' + AT_THE_END}"
    return Measure(words, _between(label, multiple, label, over, tuned))


def falls(label: str, multiple: float) -> Measure:
    """The other way round, from the trained length on: a longer text is read better."""
    return Measure(f"`{label}` at 1x − at {times(multiple)}, {AT_THE_END}", _between(label, 1, label, multiple))


def stays(label: str, multiple: float) -> Measure:
    """The same, with as much as is no clear difference allowed for."""
    return Measure(f"`{label}` at 1x − at {times(multiple)}, {AT_THE_END}", _between(label, 1, label, multiple), True)


def worse(label: str, multiple: float, of: str) -> Measure:
    """A changed model at a length above what the model itself has at its own."""
    return Measure(f"`{label}` at {times(multiple)} − `{of}` at 1x, {AT_THE_END}", _between(label, multiple, of, 1))


def no_worse(label: str, multiple: float, of: str, tuned: bool = False) -> Measure:
    """The other way round, with as much as is no clear difference allowed for; `tuned` is the label alone."""
    words = f"`{of}` at 1x − `{label}` at {times(multiple)}{', fine-tuned' if tuned else ''}, {AT_THE_END}"
    return Measure(words, _between(of, 1, label, multiple, other_tuned=tuned), True)


def _between(label: str, multiple: float, other: str, over: float, tuned: bool = False, other_tuned: bool | None = None) -> Callable[[Results], Value | None]:
    """Two lengths; of the end, where one of them is not so long that the last 512 tokens have as much before them as they do elsewhere."""
    end, other_tuned = min(multiple, over) < FIRST_FULL, tuned if other_tuned is None else other_tuned

    def difference(results: Results) -> Value | None:
        return results.difference(_loss(results, label, multiple, tuned, end, over), _loss(results, other, over, other_tuned, end, multiple))

    return difference


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
