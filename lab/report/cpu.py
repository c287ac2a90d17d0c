# SPDX-License-Identifier: Apache-2.0
"""The price of each encoding on a CPU, from the file that `python -m lab cost` wrote."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.report.labels import RUNS, in_order
from lab.report.tables import ABSENT, table

FILE, SCHEMA, AGAIN = "cpu.json", 1, "rotary again"
NOTHING = ["Nothing measured yet."]
Round = dict[str, Any]


def read(folder: Path) -> dict[str, Any] | None:
    """The file, or None where there is none."""
    path = folder / FILE
    if not path.is_file():
        return None
    found = json.loads(path.read_text())
    if found.get("schema") != SCHEMA or found.get("kind") != "cost on a CPU":
        raise ValueError(f"{path}: schema {found.get('schema')} of kind {found.get('kind')!r}, wanted {SCHEMA} of 'cost on a CPU'")
    return found


def _cell(own: list[Round], base: list[Round], read_one: Callable[[Round], float | None]) -> str:
    """The median, and what it is of rotary's in the same round: the median of that and its range."""
    pairs = [(one, other) for one, other in zip(map(read_one, own), map(read_one, base)) if one is not None]
    if not pairs:
        return ABSENT
    shares = sorted(one / other for one, other in pairs if other is not None)
    shown = f"{statistics.median(one for one, _ in pairs):,.1f}"
    return f"{shown} ({statistics.median(shares):.2f}; {shares[0]:.2f} to {shares[-1]:.2f})" if shares else shown


def lines(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return NOTHING
    rounds, settings, shape = found["rounds"], found["settings"], found["shape"]
    keys = [str(one) for one in settings["keys"]]
    readers: list[Callable[[Round], float | None]] = [lambda one: one["training"], *(lambda one, at=at: one["decoding"].get(at) for at in keys)]
    labels = [*in_order(set(rounds), RUNS), *([AGAIN] if AGAIN in rounds else [])]
    rows = [[label, *(_cell(rounds[label], rounds.get("rotary", []), read_one) for read_one in readers)] for label in labels]
    head = ["tokens/s", f"training, {settings['rows']} x {shape['length']}", *(f"decoding, {settings['rows']} x {at} keys" for at in keys)]
    about = f"{shape['layers']} layers of width {shape['width']}, float32, {found['threads']} threads on {found['machine']}, kernels {found['kernels']}, commit `{found['commit'][:12]}`"
    note = f"Medians of {settings['rounds']} rounds; in brackets: times that of rotary in the same round, median and range. `{AGAIN}` is the same encoding once more: what the machine is apart from itself."
    refused = {f"- {label}, {at} keys: {words}" for label in labels for one in rounds[label] for at, words in one["refused"].items()}
    said = ["", "What was not decoded, in the library's words:", "", *sorted(refused)] if refused else []
    return [f"{about}. {note}", "", *table(head, rows), *said]
