# SPDX-License-Identifier: Apache-2.0
"""What was done with what: the set-up, the kernels, what is done and what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.report.labels import RUNS, in_order
from lab.report.results import Results, Row
from lab.report.tables import table

STORES = Path(__file__).resolve().parents[1] / "data" / "stores"


def setup(results: Results, *others: Results) -> list[str]:
    """Model, training, machine, data: a column for each preset. The store is that of the first one."""
    columns = [_facts(one) for one in (results, *others)]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    return [*table(["", *(one.preset for one in (results, *others))], rows), *_store(results.runs[0]["data"])]


def _facts(results: Results) -> dict[str, str]:
    run = results.runs[0]
    settings, shape = run["settings"], run["settings"]["shape"]
    trained = [one["trained"] for one in results.runs if one["trained"]]
    versions = sorted({", ".join(f"{name} {version}" for name, version in sorted(one.get("versions", {}).items())) for one in results.runs})
    parameters = sorted({one["parameters"] for one in results.runs if one.get("parameters")})
    facts = {
        "model": f"{shape['layers']} layers of width {shape['width']}, {shape['heads']} heads, {_span(parameters)} parameters",
        "training": f"{settings['steps']} steps of {settings['rows']} windows of {shape['length']} tokens ({_millions(trained)} tokens), {settings['dtype']}",
        "seeds": ", ".join(str(seed) for seed in sorted({one["seed"] for one in results.runs})),
        "device": ", ".join(sorted({one["device"] for one in results.runs})),
        "versions": "; ".join(versions),
        "commits": ", ".join(sorted({f"`{one['commit'][:12]}`" for one in results.runs})),
        "data": ", ".join(f"`{one[:12]}`" for one in sorted({one["data"] for one in results.runs})),
    }
    if results.others:
        facts["not shown"] = f"{results.others} runs with other settings or other data"
    return facts


def _span(parameters: list[int]) -> str:
    if not parameters:
        return "unknown"
    low, high = (f"{number / 1e6:.1f}M" for number in (parameters[0], parameters[-1]))
    return low if low == high else f"{low} to {high}"


def _millions(trained: list[Row]) -> str:
    return f"{trained[0]['tokens'] / 1e6:.1f}M" if trained else "no"


def _store(data: str) -> list[str]:
    """What the data are of, from the manifest that the build recorded."""
    path = STORES / f"{data[:12]}.json"
    if not path.is_file():
        return ["", f"No manifest of the data `{data[:12]}` is recorded (`python -m lab data --record` does)."]
    manifest: dict[str, Any] = json.loads(path.read_text())
    packages = ", ".join(f"{name} {version}" for name, version in sorted(manifest["packages"].items()))
    trained = ", ".join(f"{tokens / 1e6:.1f}M {kind}" for kind, tokens in manifest["trained"].items())
    shares = [one["in_training"] for one in manifest["held"]]
    kinds = [one["kind"] for one in manifest["held"]]
    held = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    names = ", ".join(one["name"].split(": ")[1] for one in manifest["held"])
    return [
        "",
        f"Packages: {packages}.",
        "",
        f"Tokens of text to train on: {manifest['shapes']['train'][0] / 1e6:.1f}M ({trained}). Held-out documents: {len(kinds)} ({held}) of "
        f"{manifest['shapes']['held'][1]} tokens: {names}. Of their runs of 50 tokens {100 * max(shares):.2f} % at most, {100 * sum(shares) / len(shares):.3f} % "
        f"on average, are in the training text; {manifest['dropped']['files']} of {manifest['dropped']['of']} training files shared too much and were left out.",
    ]


def paths(results: Results) -> list[str]:
    """Which kernels attention took, in the library's words."""
    encodings = in_order({run["encoding"] for run in results.runs}, RUNS)
    found: dict[str, list[str]] = {}
    for encoding in encodings:
        words = next((run["cost"]["attention_path"] for run in reversed(results.of(encoding)) if run["cost"].get("attention_path")), None)  # of the last seed
        if words:
            found.setdefault(" ".join(words.split()), []).append(encoding)
    lines = [f"- {', '.join(names)}: {words}" for words, names in found.items()]
    return ["What attention ran on in training, as `phasor.explain_attention` says:", "", *lines] if lines else []


def queue(every: dict[str, Results], seeds: dict[str, tuple[int, ...]]) -> list[str]:
    """Runs that are done and that are left, by preset."""
    rows, done, left = [], 0, 0
    for encoding in RUNS:
        cells = []
        for preset, wanted in seeds.items():
            runs = {run["seed"]: run for run in every[preset].of(encoding)} if preset in every else {}
            states = ["too slow" if seed in runs and runs[seed]["trained"] is None else "done" if seed in runs else "left" for seed in wanted]
            done, left = done + len(states) - states.count("left"), left + states.count("left")
            cells.append(", ".join(f"{seed} {state}" for seed, state in zip(wanted, states)))
        rows.append([encoding, *cells])
    slow = [f"- {run['encoding']}, seed {run['seed']}: {run['refused'][0]['message']}" for one in every.values() for run in one.runs if run["trained"] is None]
    return [f"{done} runs are done, {left} are left.", "", *table(["", *(f"{preset}, seeds" for preset in seeds)], rows), *([""] if slow else []), *slow]
