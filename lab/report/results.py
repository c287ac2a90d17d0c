# SPDX-License-Identifier: Apache-2.0
"""Result files, read once: rows by label, one a seed, and why a row is not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.report.statistics import Value, value_of

Row = dict[str, Any]
SCHEMA = 1
SLOW = "time:"  # how the lab's own refusals begin
SECTIONS = ("measured", "language", "retrieval", "numerics")
KEYS = ("schema", "preset", "encoding", "seed", "commit", "data", "settings", "device", "trained", *SECTIONS, "cost", "refused")


def tokens_in_a_bin(row: Row) -> int:
    """Of by_position. All bins are alike where the length is a multiple of their number, as those of every preset are."""
    return int(row["length"]) // len(row["by_position"])


@dataclass
class Results:
    """Runs of one folder that can be compared: the same settings and the same data."""

    preset: str
    runs: list[Row]
    others: int = 0  # runs of this preset with other settings or data, which are not shown
    _rows: dict[tuple[str, str], list[tuple[int, Row]]] = field(default_factory=dict)
    _bins: dict[float, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for run in self.runs:
            for section in SECTIONS:
                for row in run[section]:
                    self._rows.setdefault((section, row["label"]), []).append((run["seed"], row))
            for row in run["measured"]:
                self._bins.setdefault(row["multiple"], set()).add(tokens_in_a_bin(row))

    @property
    def length(self) -> int:
        """That of training."""
        return int(self.runs[0]["settings"]["shape"]["length"])

    def bins(self, multiple: float) -> set[int]:
        """Tokens in a bin of by_position at a length; nothing of one that was not measured."""
        return self._bins.get(multiple, set())

    def labels(self, section: str) -> set[str]:
        return {label for of, label in self._rows if of == section}

    def rows(self, section: str, label: str, **where: Any) -> list[tuple[int, Row]]:
        """Seed and row of all that have these fields."""
        return [(seed, row) for seed, row in self._rows.get((section, label), []) if all(row.get(key) == value for key, value in where.items())]

    def numbers(self, section: str, label: str, key: str, **where: Any) -> dict[int, float]:
        """By seed; several rows of a seed are averaged, what is not finite is left out."""
        found: dict[int, list[float]] = {}
        for seed, row in self.rows(section, label, **where):
            if row.get(key) is not None:
                found.setdefault(seed, []).append(float(row[key]))
        return {seed: sum(some) / len(some) for seed, some in sorted(found.items())}

    def value(self, section: str, label: str, key: str, **where: Any) -> Value | None:
        numbers = self.numbers(section, label, key, **where)
        return value_of(list(numbers.values())) if numbers else None

    def difference(self, one: dict[int, float], other: dict[int, float]) -> Value | None:
        """one - other, seed by seed: both began alike and read the same."""
        both = sorted(one.keys() & other.keys())
        return value_of([one[seed] - other[seed] for seed in both]) if both else None

    def over_runs(self, encoding: str, read: Callable[[Row], float | None]) -> Value | None:
        """Of what stands once in a run."""
        found = [number for run in self.of(encoding) if (number := read(run)) is not None]
        return value_of(found) if found else None

    def of(self, encoding: str) -> list[Row]:
        return sorted((run for run in self.runs if run["encoding"] == encoding), key=lambda run: run["seed"])

    def most(self, section: str) -> int:
        """How many seeds those have who have the most."""
        return max((len({seed for seed, _ in rows}) for (of, _), rows in self._rows.items() if of == section), default=0)

    def refused(self, label: str, length: int, seed: int | None = None) -> str | None:
        """The words with which a label was refused at a length, of one seed or of any; what the library says, before what the lab says of time."""
        found = [str(row["message"]) for run in self.runs if seed in (None, run["seed"]) for row in run["refused"] if (row["label"], row["length"]) == (label, length)]
        return next((message for message in found if not message.startswith(SLOW)), found[0] if found else None)

    def lengths_refused(self, label: str) -> list[tuple[int, list[int]]]:
        """Lengths at which a label was refused and has no loss with some seeds, and these seeds."""
        at: dict[int, list[int]] = {}
        for run in sorted(self.runs, key=lambda one: one["seed"]):
            there = {row["length"] for row in run["measured"] if row["label"] == label and not row["tuned"]}
            for length in sorted({row["length"] for row in run["refused"] if row["label"] == label} - there):
                at.setdefault(length, []).append(run["seed"])
        return sorted(at.items())

    def seen(self, section: str, key: str, labels: Iterable[str] | None = None) -> list[Any]:
        """All values of a field, in order."""
        return sorted({row[key] for (of, label), rows in self._rows.items() if of == section and (labels is None or label in labels) for _, row in rows})


def read(path: Path) -> Row:
    """A result, or an error that says what is wrong with the file."""
    try:
        found = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: is no JSON ({error})") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema {found.get('schema') if isinstance(found, dict) else None}, wanted {SCHEMA}")
    missing = [key for key in KEYS if key not in found]
    if missing:
        raise ValueError(f"{path}: has no {', '.join(missing)}, which a result has")
    return found


def comparable(run: Row) -> str:
    """What two runs share whose numbers can stand side by side: data and settings, but for the caps, which only say what was left out."""
    settings = {key: value for key, value in run["settings"].items() if key != "caps"}
    return json.dumps([run["data"], settings], sort_keys=True)


def read_all(folder: Path) -> dict[str, Results]:
    """By folder: a preset's, or one that keeps runs of earlier settings. Of several settings or data those are shown that most runs have; ties go to
    those read last."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        run = read(path)
        groups.setdefault(path.parent.name, {}).setdefault(comparable(run), []).append(run)
    found = {}
    for preset, by_key in groups.items():
        shown = max(sorted(by_key), key=lambda key: len(by_key[key]))
        found[preset] = Results(preset, by_key[shown], sum(map(len, by_key.values())) - len(by_key[shown]))
    return found
