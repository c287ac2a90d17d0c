# SPDX-License-Identifier: Apache-2.0
"""Tables of Markdown, and what stands in a cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from lab.report.labels import times
from lab.report.results import SLOW, Results
from lab.report.statistics import Value, seeds_in_words

ABSENT, FEWER = "–", " †"
MARK = re.compile(r" \[\d+\]")  # of a number that fewer seeds gave than others have


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines, the columns one below the other. Numbers stay on one line on the site."""
    cells = [list(head), *map(list, rows)]
    if len(cells) == 1:
        return ["Nothing measured yet."]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    return ["{.numbers}", lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def cell(results: Results, section: str, label: str, key: str, length: int, digits: int = 3, **where: Any) -> str:
    """A mean with its interval, or why there is none."""
    value = results.value(section, label, key, length=length, **where)
    if value is not None:
        return value.written(digits) + mark(value, results.most(section)) + (FEWER if section == "measured" and fewer(results, label, length) else "")
    return "not finite" if results.rows(section, label, length=length, **where) else missing(results, label, length)


def mark(value: Value, most: int) -> str:
    """[n] behind a number of n seeds, where others have more."""
    return f" [{value.seeds}]" if value.seeds < most else ""


def mark_in_words(cells: Iterable[str]) -> str:
    """What the marks in some cells say, or nothing."""
    found = sorted({match[0].strip() for cell in cells for match in MARK.finditer(cell)})
    return f"; {', '.join(found)}: of so many seeds alone" if found else ""


def missing(results: Results, label: str, length: int) -> str:
    """What stands where a label has no number at a length."""
    message = results.refused(label, length)
    return ABSENT if message is None else "too slow" if message.startswith(SLOW) else "refused"


def fewer(results: Results, label: str, length: int) -> bool:
    """Whether a label was so slow that it read fewer documents of a length than others."""
    own = [row["documents"] for _, row in results.rows("measured", label, length=length)]
    return min(own) < max(row["documents"] for other in results.labels("measured") for _, row in results.rows("measured", other, length=length))


def by_length(results: Results, section: str, labels: Sequence[str], key: str, **where: Any) -> list[str]:
    """A row a label, a column a multiple of the trained length."""
    multiples = results.seen(section, "multiple", labels)
    rows = [[label, *(cell(results, section, label, key, round(one * results.length), **where) for one in multiples)] for label in labels]
    return table(["", *map(times, multiples)], [row for row in rows if set(row[1:]) != {ABSENT}])


def refusals(results: Results, labels: Sequence[str]) -> list[str]:
    """Where each label was refused, with which seeds, and the words of the first time: the library's and the lab's."""
    lines = []
    for label in labels:
        by_kind: dict[bool, list[tuple[int, list[int], str]]] = {}
        for length, seeds in results.lengths_refused(label):
            message = results.refused(label, length, seeds[0]) or ""
            by_kind.setdefault(message.startswith(SLOW), []).append((length, seeds, message))
        lines += [f"- {label} at {', '.join(_where(results, label, *one[:2]) for one in found)}: {found[0][2]}" for found in by_kind.values()]
    return ["", "What could not be measured, in the library's words or the lab's:", "", *lines] if lines else []


def _where(results: Results, label: str, length: int, seeds: list[int]) -> str:
    """A length, and with which seeds where it was not with all."""
    others = [run["seed"] for run in results.runs if any(row["label"] == label for row in run["measured"]) and run["seed"] not in seeds]
    return times(length / results.length) + (f" (seed{'s' * (len(seeds) > 1)} {' and '.join(map(str, seeds))})" if others else "")


def counted(results: Results, labels: Sequence[str], section: str = "measured", shares: bool = False) -> str:
    """How many seeds there are."""
    counts = [len({seed for seed, _ in results.rows(section, label)}) for label in labels]
    counts = [count for count in counts if count]
    return seeds_in_words(min(counts), max(counts), shares) if counts else "nothing measured yet"


def documents_line(results: Results, labels: Sequence[str]) -> str:
    """How many documents each length was measured on: time allows fewer of the longest."""
    most: dict[float, int] = {}
    for label in labels:
        for _, row in results.rows("measured", label, tuned=False):
            most[row["multiple"]] = max(most.get(row["multiple"], 0), row["documents"])
    return ", ".join(f"{times(multiple)} {count}" for multiple, count in sorted(most.items()))
