# SPDX-License-Identifier: Apache-2.0
"""The numbers in the page's own words are held to what gives them (said.py has the words, readings.py what reads): result files, or the code that the
runs are made with. `problems` says which of them the page has otherwise, and which nothing gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.report.page import outside
from lab.report.results import Results

NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|\bT5\b|\bLlama [34]\b|\b(?:b?float)(?:16|32)\b|\b(?:0\.5|1|1\.5|2|4|8|16|32|64)x\b|\bH200\b")
NUMBER = re.compile(r"[+-]?\d(?:[\d.,]*\d)?")


@dataclass(frozen=True)
class World:
    """All that the page is made of: results by folder, and prices."""

    every: dict[str, Results]
    gpu: dict[str, Any]
    cpu_prices: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Results:
        try:
            return self.every[name]
        except KeyError:
            raise AttributeError(name) from None


Reader = Callable[[World], Any]


@dataclass(frozen=True)
class Said:
    """Words of the page: `text` with a value in the place of each {}, as `values` give them."""

    text: str
    values: tuple[Reader, ...] = ()
    holds: Reader | None = None  # whether what the words say without a number is so


def said(text: str, *values: Reader, holds: Reader | None = None) -> Said:
    return Said(text, values, holds)


@dataclass(frozen=True)
class Given:
    """A sentence as the results give it, and whether what it says besides is so."""

    text: str
    holds: bool


def given(every: Iterable[Said], world: World) -> list[Given]:
    """A sentence with a number of its own is a mistake: no file would give that one."""
    found = []
    for one in every:
        if NUMBER.search(NAMES.sub("", one.text.replace("{}", ""))):
            raise ValueError(f"said: {one.text!r} has a number of its own, wanted {{}} and what gives it")
        found.append(Given(one.text.format(*(value(world) for value in one.values)), one.holds is None or bool(one.holds(world))))
    return found


def untrue(page: str, sentences: Iterable[Given]) -> list[str]:
    """Which of these sentences a page has otherwise, or has though they are not so."""
    words, found = " ".join(outside(page).split()), []
    for one in sentences:
        if one.text not in words:
            found.append(f"does not say {one.text!r}")
        if not one.holds:
            found.append(f"says {one.text!r}, which the results do not give")
    return found


def problems(page: str, sentences: Sequence[Given]) -> list[str]:
    """What is wrong with the words of a page; nothing where all is well."""
    found, left = untrue(page, sentences), " ".join(outside(page).split())
    for one in sentences:
        left = left.replace(one.text, " ; ")
    left = NAMES.sub("", left)
    return found + [f"has the number {match[0]}, which nothing gives: {left[max(0, match.start() - 40) : match.end() + 20]!r}" for match in NUMBER.finditer(left)]
