# SPDX-License-Identifier: Apache-2.0
"""A mean over seeds with its interval, and how it is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

# Student's t for 95 % of both sides, by the number of seeds less one.
LEAST = 3  # seeds: with two the interval is 12.7 times their error, wider than anything that is compared
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class Value:
    """`half` is half of the interval of 95 %; None of fewer than LEAST seeds. `ends` are the least and the greatest of a seed."""

    mean: float
    half: float | None
    seeds: int
    ends: tuple[float, float] | None = field(default=None, compare=False)

    def written(self, digits: int = 3, sign: bool = False) -> str:
        mean = round(self.mean, digits) + 0.0  # never -0
        shown = f"{mean:{'+' if sign and mean else ''}.{digits}f}"
        return shown if self.half is None else f"{shown} ± {self.half:.{digits}f}"

    def percent(self) -> str:
        """Of a share. What some seeds learn and others do not has no interval around a mean, so the ends are shown where they differ."""
        mean, *ends = (f"{100 * one:.0f}" for one in (self.mean, *(self.ends or ())))
        return mean if len(set(ends)) < 2 else f"{mean} ({ends[0]}–{ends[1]})"


def value_of(numbers: Sequence[float]) -> Value:
    """Of one number a seed."""
    count, ends = len(numbers), (min(numbers), max(numbers))
    mean = math.fsum(numbers) / count
    if count < LEAST:
        return Value(mean, None, count, ends)
    deviation = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (count - 1))
    return Value(mean, T95[min(count - 1, len(T95)) - 1] * deviation / math.sqrt(count), count, ends)


def seeds_in_words(least: int, most: int, shares: bool = False) -> str:
    """What an interval is of, or that there is none; of shares (`Value.percent`) what stands in brackets."""
    if most <= 1:
        return "one seed" if shares else "one seed, so no interval is known"
    some = f"{least} to {most} seeds" if least != most else f"{most} seeds"
    if shares:
        return f"means of {some}, in brackets the least and the most of a seed"
    if most < LEAST:
        return f"means of {some}, too few for an interval"
    return f"means of {some}, ± 95 % by Student's t" + (f"; a number without ± is of fewer than {LEAST}" if least < LEAST else "")
