# SPDX-License-Identifier: Apache-2.0
"""The price of each encoding on a GPU and on a CPU, from the files that `python -m lab cost` wrote."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.report.labels import RUNS, in_order
from lab.report.tables import ABSENT, table

SCHEMA, AGAIN, GIB = 1, "rotary again", 2.0**30
NOTHING = ["Nothing measured yet."]
LAUNCHED = " ‡"
Round = dict[str, Any]
Reader = Callable[[Round], float | None]


def read(folder: Path, kind: str) -> dict[str, Any] | None:
    """The file of a "CPU" or a "GPU", or None where there is none."""
    path = folder / f"{kind.lower()}.json"
    if not path.is_file():
        return None
    found = json.loads(path.read_text())
    if found.get("schema") != SCHEMA or found.get("kind") != f"cost on a {kind}":
        raise ValueError(f"{path}: schema {found.get('schema')} of kind {found.get('kind')!r}, wanted {SCHEMA} of 'cost on a {kind}'")
    return found


def _cell(own: list[Round], base: list[Round], read_one: Reader, launched: str) -> str:
    """The median, and what it is of rotary's in the same round: the median of that and its range. What was launched has no share: the host's time
    beside the GPU's is no price of an encoding."""
    pairs = [(one, other) for one, other in zip(map(read_one, own), map(read_one, base)) if one is not None]
    if not pairs:
        return ABSENT
    shares = sorted(one / other for one, other in pairs if other is not None)
    shown = f"{statistics.median(one for one, _ in pairs):,.{0 if pairs[0][0] > 1e4 else 1}f}"
    if any(launched in one.get("launched", {}) for one in own):
        return shown + LAUNCHED
    return f"{shown} ({statistics.median(shares):.2f}; {shares[0]:.2f} to {shares[-1]:.2f})" if shares else shown


def _memory(own: list[Round], read_one: Reader) -> str:
    found = [number for one in own if (number := read_one(one)) is not None]
    return f"{statistics.median(found) / GIB:.2f}" if found else ABSENT


def _memory_in_words(counted: list[bool]) -> str:
    """Of training, then of decoding."""
    if not any(counted):
        return "Memory was not measured."
    return "GiB: what was taken over what was there before the model." + ("" if any(counted[1:]) else " Memory of decoding was not measured.")


def _about(found: dict[str, Any]) -> str:
    shape, commit = found["shape"], found["commit"][:12]
    model = f"{shape['layers']} layers of width {shape['width']}"
    if "threads" in found:
        return f"{model}, float32, {found['threads']} threads on {found['machine']}, kernels {found['kernels']}, commit `{commit}`."
    return f"{model}, {found['dtype']}, on {found['machine']}, PyTorch {found['versions']['torch']}, commit `{commit}`. Steps are replayed as CUDA graphs, of decoding too."


def lines(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return NOTHING
    rounds, settings = found["rounds"], found["settings"]
    keys, decoded = [str(one) for one in settings["keys"]], settings.get("decode_rows", settings["rows"])
    columns: list[tuple[str, Reader, Reader]] = [("training", lambda one: one["training"], lambda one: one.get("own_bytes"))]
    columns += [(at, lambda one, at=at: one["decoding"].get(at), lambda one, at=at: one.get("decoding_bytes", {}).get(at)) for at in keys]
    every = [one for own in rounds.values() for one in own]
    labels = [*in_order(set(rounds), RUNS), *([AGAIN] if AGAIN in rounds else [])]
    counted = [any(in_bytes(one) is not None for one in every) for _, _, in_bytes in columns]
    rows, head = [[label] for label in labels], ["tokens/s"]
    for (where, speed, in_bytes), with_memory in zip(columns, counted):
        what, short = (f"training, {settings['rows']} x {found['shape']['length']}", where) if where == "training" else (f"decoding, {decoded} x {where} keys", f"{where} keys")
        head += [what, *([f"{short}, GiB"] if with_memory else [])]
        for row in rows:
            own = rounds[row[0]]
            row += [_cell(own, rounds.get("rotary", []), speed, where), *([_memory(own, in_bytes)] if with_memory else [])]
    note = f"Medians of {settings['rounds']} rounds; in brackets: times that of rotary in the same round, median and range. `{AGAIN}` is the same encoding once more: what the machine is apart from itself."
    return [f"{_about(found)} {note} {_memory_in_words(counted)}", "", *table(head, rows), *_said(rounds, labels)]


def _said(rounds: dict[str, list[Round]], labels: list[str]) -> list[str]:
    """What could not be done, in the library's words and in PyTorch's."""
    refused = {f"- {label}, {at} keys: {words}" for label in labels for one in rounds[label] for at, words in one["refused"].items()}
    launched = {f"- {label}, {at}: {words}" for label in labels for one in rounds[label] for at, words in one.get("launched", {}).items()}
    said = ["", "What was not decoded, in the library's words:", "", *sorted(refused)] if refused else []
    return said + (["", f"{LAUNCHED.strip()}: launched piece by piece, because it could not be captured:", "", *sorted(launched)] if launched else [])
