# SPDX-License-Identifier: Apache-2.0
"""Tables of Markdown, and what stands in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lab.report.labels import times
from lab.report.results import Results
from lab.report.statistics import seeds_in_words

ABSENT, FEWER = "–", " †"


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
        return value.written(digits) + (FEWER if section == "measured" and fewer(results, label, length) else "")
    if results.rows(section, label, length=length, **where):
        return "not finite"
    message = results.refused(label, length)
    return ABSENT if message is None else "too slow" if message.startswith("time:") else "refused"


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
    """The words of what was refused, once a label."""
    found = [(label, results.refused(label)) for label in labels]
    lines = [f"- {label}: {message}" for label, message in found if message is not None]
    return ["", "What could not be measured, in the library's words or the lab's:", "", *lines] if lines else []


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
