# SPDX-License-Identifier: Apache-2.0
"""Beside the papers: what each claims, what our results say of it, and what differs. A verdict is computed, never written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.report.labels import GUESSED, TASKS, TRAINED, times
from lab.report.results import Results
from lab.report.statistics import Value
from lab.report.tables import table

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


def grows(label: str, multiple: float) -> Measure:
    """Loss on the last tokens at a length above that at the trained one."""
    return Measure(f"`{label}` at {times(multiple)} − at 1x", lambda results: results.difference(last_loss(results, label, multiple), last_loss(results, label, 1)))


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


SMALL = "theirs are larger models trained on 10 to 1000 times as many tokens"
CLAIMS = (
    Claim(
        "ALiBi, figure 1 (Press, Smith, Lewis 2022)",
        "sinusoidal positions fail soon after the trained length",
        (grows("sinusoidal", 1.5), grows("sinusoidal", 2)),
        "WikiText-103 and 247M parameters there",
    ),
    Claim("ALiBi, figure 1", "rotary goes on a little longer than sinusoidal, then fails", (above("sinusoidal", "rotary", 2), grows("rotary", 4)), SMALL),
    Claim("ALiBi, figure 1", "T5's bias goes on further than rotary", (above("rotary", "t5", 2), above("rotary", "t5", 4)), "the same"),
    Claim(
        "ALiBi, figure 1",
        "ALiBi's loss falls, or stays, up to many times the length, and is below T5's there",
        (stays("alibi", 2), stays("alibi", 8), above("t5", "alibi", 8)),
        "they let windows slide over one text; our last tokens are the same at every length",
    ),
    Claim(
        "Kazemnejad and others 2023",
        "without positions (NoPE) a decoder answers at greater lengths better than with rotary, ALiBi or absolute positions",
        (finds("none", "rotary", 2), finds("none", "alibi", 2), finds("none", "sinusoidal", 2)),
        "their tasks are of reasoning at some tens of tokens; ours are of remembering inside of text",
    ),
    Claim(
        "KERPLE (Chi and others 2022)",
        "its logarithmic kernel is below ALiBi and T5 at many times the length",
        (above("alibi", "kerple", 16), above("t5", "kerple", 16)),
        "OpenWebText2, GitHub and ArXiv, 162M parameters there",
    ),
    Claim(
        "Sandwich (Chi and others 2023)",
        "is as good as ALiBi, and better than rotary, beyond the length",
        (above("alibi", "sandwich", 4, even=True), above("rotary", "sandwich", 4)),
        "OpenWebText2, GitHub and ArXiv there",
    ),
    Claim(
        "FIRE (Li and others 2024)",
        "is below ALiBi, KERPLE, T5 and rotary at four times the length",
        (above("alibi", "fire", 4), above("kerple", "fire", 4), above("t5", "fire", 4), above("rotary", "fire", 4)),
        "trained at 2048 tokens of C4 there; " + SMALL,
    ),
    Claim(
        "xPos (Sun and others 2022)",
        "decay in rotary makes it go on further: below rotary and ALiBi at two and four times the length",
        (above("rotary", "xpos", 2), above("rotary", "xpos", 4), above("alibi", "xpos", 4)),
        "they attend in blocks beyond the trained length (not here)",
    ),
    Claim(
        "YaRN, without fine-tuning (Peng and others 2023)",
        "NTK kinds are below linear interpolation, and YaRN is below both",
        (above("rotary, linear", "rotary, ntk", 4), above("rotary, ntk", "rotary, yarn", 4), above("rotary, linear", "rotary, yarn", 4)),
        "Llama 2 of 7B and 13B parameters there",
    ),
    Claim(
        "YaRN, tables 1 and 2",
        "after a short fine-tune YaRN is below linear interpolation",
        (above("rotary, linear", "rotary, yarn", 4, True), above("rotary, linear", "rotary, yarn", 8, True)),
        "400 steps at 64k tokens there",
    ),
    Claim(
        "LongRoPE (Ding and others 2024)",
        "searched factors are below YaRN, NTK and linear interpolation without fine-tuning, at eight times the length",
        (above("rotary, yarn", "rotary, longrope", 8), above("rotary, ntk", "rotary, longrope", 8), above("rotary, linear", "rotary, longrope", 8)),
        "Llama 2 and Mistral of 7B parameters there, a much longer search",
    ),
    Claim(
        "ReRoPE (Su 2023), Self-Extend (Jin and others 2024)",
        "distances that are never greater than those of training save rotary without training",
        (above("rotary", "rotary, rerope", 8), above("rotary", "rotary, self-extend", 8)),
        "models of 7B to 13B parameters there",
    ),
)


def lines(results: Results | None) -> list[str]:
    rows = []
    for claim in CLAIMS:
        values = [None if results is None else test.difference(results) for test in claim.tests]
        ours = "; ".join(f"{test.words}: {'–' if value is None else value.written(3, True)}" for test, value in zip(claim.tests, values))
        verdicts = [judged(test, value) for test, value in zip(claim.tests, values)]
        rows.append([claim.paper, claim.says, ours, together(verdicts), claim.differs])
    return table(["paper", "claim", "ours, above 0 where it holds", "", "what differs"], rows)[1:]  # words, not numbers: they may be broken
