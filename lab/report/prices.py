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
# Files are never edited by hand, and this one names the commit at which its session began; its kernels were built at a later one (lab/results/README.md).
BUILT_AT = {"d17279a95cd8c2ffa33951bd8ee7449b9cb50943": "9d1131874360"}
Round = dict[str, Any]
Reader = Callable[[Round], float | None]


def read(folder: Path, kind: str, what: str = "cost") -> dict[str, Any] | None:
    """The file of a "CPU" or a "GPU", or None where there is none. What is measured is the "cost" of encodings, or the "prefill" with what is changed."""
    path = folder / f"{kind.lower()}{'' if what == 'cost' else f'_{what}'}.json"
    if not path.is_file():
        return None
    found = json.loads(path.read_text())
    if found.get("schema") != SCHEMA or found.get("kind") != f"{what} on a {kind}":
        raise ValueError(f"{path}: schema {found.get('schema')} of kind {found.get('kind')!r}, wanted {SCHEMA} of '{what} on a {kind}'")
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


def changes(folder: Path) -> list[str]:
    """Tokens per second of reading a long text, with what is changed at evaluation: of both kinds of machine where both were measured."""
    there = [found for kind in ("GPU", "CPU") if (found := read(folder, kind, "prefill")) is not None]
    labels = list(dict.fromkeys(label for found in there for label in found["rounds"]))
    head, rows = ["tokens/s"], [[label] for label in labels]
    for found in there:
        settings, rounds = found["settings"], found["rounds"]
        head.append(f"{found['kind'].split()[-1]}, {settings['multiple'] * found['shape']['length']} tokens")
        for row in rows:
            row.append(_cell([{"read": one} for one in rounds.get(row[0], [])], [{"read": one} for one in rounds["rotary"]], lambda one: one["read"], ""))
    about = [f"- {found['kind'].split()[-1]}: {_about(found)} Medians of {found['settings']['rounds']} rounds." for found in there]
    note = f"Tokens per second of reading one text at once; in brackets: times that of rotary in the same round, median and range. `{AGAIN}` is the same once more."
    return [note, "", *about, "", *table(head, rows)] if there else NOTHING


def _memory(own: list[Round], read_one: Reader) -> str:
    found = [number for one in own if (number := read_one(one)) is not None]
    return f"{statistics.median(found) / GIB:.2f}" if found else ABSENT


def _memory_in_words(counted: list[bool]) -> str:
    """Of training, then of decoding."""
    if not any(counted):
        return "Memory was not measured."
    return "GiB: what was taken over what was there before the model." + ("" if any(counted[1:]) else " Memory of decoding was not measured.")


def _about(found: dict[str, Any]) -> str:
    shape, commit = found["shape"], commits(found)
    model = f"{shape['layers']} layers of width {shape['width']}"
    if "threads" in found:
        return f"{model}, float32, {found['threads']} threads on {found['machine']}, kernels {found['kernels']}, {commit}."
    return f"{model}, {found['dtype']}, on {found['machine']}, PyTorch {found['versions']['torch']}, {commit}."


def commits(found: dict[str, Any]) -> str:
    """The commit that a file names, and that of its kernels where it was another."""
    built = BUILT_AT.get(found["commit"])
    return f"commit `{found['commit'][:12]}`" + ("" if built is None else f", kernels built at `{built}`")


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
    replayed = "" if "threads" in found else " Steps are replayed as CUDA graphs, of decoding too."
    return [f"{_about(found)}{replayed} {note} {_memory_in_words(counted)}", "", *table(head, rows), *_said(rounds, labels), *_paths(found.get("attention_path", {}))]


def _paths(words: dict[str, str]) -> list[str]:
    """What attention ran on in training, where the file says it: the first ones do not."""
    by_words: dict[str, list[str]] = {}
    for label in in_order(set(words), RUNS):
        by_words.setdefault(words[label], []).append(label)
    found = [f"- {', '.join(names)}: {path}" for path, names in by_words.items()]
    return ["", "What attention ran on in training here, as `phasor.explain_attention` says:", "", *found] if found else []


def _said(rounds: dict[str, list[Round]], labels: list[str]) -> list[str]:
    """What could not be done, in the library's words and in PyTorch's."""
    refused = {f"- {label}, {at} keys: {words}" for label in labels for one in rounds[label] for at, words in one["refused"].items()}
    launched = {f"- {label}, {at}: {words}" for label in labels for one in rounds[label] for at, words in one.get("launched", {}).items()}
    said = ["", "What was not decoded, in the library's words:", "", *sorted(refused)] if refused else []
    return said + (["", f"{LAUNCHED.strip()}: launched piece by piece, because it could not be captured:", "", *sorted(launched)] if launched else [])
