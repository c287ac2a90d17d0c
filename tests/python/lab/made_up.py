# SPDX-License-Identifier: Apache-2.0
"""Results that no model gave, with numbers that are easy to find again: for tests of the report, written to their own folders alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.report.labels import CHANGED, PROFILES, RUNS, TASKS

LENGTH = 512
MULTIPLES = (0.5, 1, 1.5, 2, 4, 8, 16, 32, 64)
SLOPE = {label: 0.02 + 0.03 * number for number, label in enumerate((*RUNS, "hierarchical", *CHANGED))}


def loss(label: str, multiple: float, seed: int) -> float:
    """Grows with the length, each label by its own slope; seeds are 0.01 apart."""
    return round(3 + SLOPE[label] * max(0.0, multiple - 1) ** 0.5 + 0.01 * seed, 6)


def measured(label: str, multiple: float, seed: int, tuned: bool = False) -> dict[str, Any]:
    whole = loss(label, multiple, seed) - (0.5 if tuned else 0)
    bins = [loss(label, max(multiple * (number + 1) / 64, 0.5), seed) for number in range(64)]
    row = {"label": label, "multiple": multiple, "length": round(LENGTH * multiple), "tuned": tuned, "documents": 8}
    return {**row, "loss": whole + 0.1, "last": whole, "by_position": bins}


def rows(label: str, seed: int, multiples: tuple[float, ...]) -> dict[str, list[dict[str, Any]]]:
    slope = SLOPE[label]
    parts = {"word": 0.1, "copy": None}
    language = [{"label": label, "multiple": one, "length": round(LENGTH * one), "loss": 1.7 + slope * one, "over": slope * one, "parts": parts} for one in multiples]
    found = {"label": label, "examples": 8, "loss": 0.1}
    retrieval = [
        found | {"task": task, "length": round(LENGTH * one), "distance": round(LENGTH * one * share), "accuracy": max(0.0, 1 - slope * one)}
        for task in TASKS
        for one in multiples
        for share in (0.1, 0.9)
        if one in (1, 4, 16)
    ]
    return {"measured": [measured(label, one, seed) for one in multiples], "language": language, "retrieval": retrieval}


def result(encoding: str, seed: int, preset: str = "small", data: str = "d" * 64) -> dict[str, Any]:
    """A run as lab.run writes it."""
    found = rows(encoding, seed, MULTIPLES if encoding != "learned" else (0.5, 1))
    refused = []
    if encoding == "learned":
        found = {name: some + rows("hierarchical", seed, MULTIPLES)[name] for name, some in found.items()}
        refused = [{"label": "learned", "length": round(LENGTH * one), "message": f"lookup_add: the table has {LENGTH} rows"} for one in MULTIPLES[2:]]
    numerics = []
    if encoding == "rotary":
        for label in CHANGED:
            found = {name: some + rows(label, seed, MULTIPLES[3:])[name] for name, some in found.items()}
        found["measured"] += [measured(f"rotary, {how}", one, seed, True) for how in ("linear", "yarn") for one in (1, 2, 4, 8)]
        numerics = [
            {"label": label, "length": LENGTH * one, "shift": shift, "loss": 3.0, "last": 3 + 0.001 * number + 1e-9 * shift, "passkey_accuracy": 0.5}
            for number, label in enumerate(PROFILES)
            for one in (1, 64)
            for shift in (0, 1_000_000)
        ]
    shape = {"width": 512, "heads": 8, "layers": 8, "length": LENGTH}
    settings = {"name": preset, "shape": shape, "steps": 600, "rows": 64, "dtype": "bfloat16", "rate": 1e-3, "warmup": 150, "decay": 0.1, "seeds": [0, 1, 2], "changes": {"tune_steps": 40, "tune_factor": 4}}
    trained: dict[str, Any] = {"tokens": 19_660_800, "steps": 600, "seconds": 20.0, "tokens_per_second": 1e6 / (1 + SLOPE[encoding]), "peak_bytes": 2**32}
    trained |= {"curve": [[10, 5.0]], "final_loss": 3.0}
    head = {"schema": 1, "preset": preset, "encoding": encoding, "seed": seed, "commit": "c" * 40, "data": data, "settings": settings}
    about = {"versions": {"torch": "2.11"}, "device": "a GPU that is made up", "parameters": 30_000_000, "seconds": 30.0}
    return {**head, **about, "trained": trained, **found, "numerics": numerics, "cost": {"attention_path": "plain words"}, "refused": refused}


def write(folder: Path, seeds: tuple[int, ...] = (0, 1, 2), encodings: tuple[str, ...] = RUNS, preset: str = "small") -> Path:
    """A folder of results."""
    (folder / preset).mkdir(parents=True, exist_ok=True)
    for encoding in encodings:
        for seed in seeds:
            (folder / preset / f"{encoding.replace(' ', '-')}-{seed}.json").write_text(json.dumps(result(encoding, seed, preset)))
    return folder


def prices(folder: Path) -> None:
    """What `python -m lab cost` writes on both: rotary at 100 tokens a second, slower by 10 each round, and the others at their shares of it."""
    share = {label: 1.0 if label == "rotary" else 1 / (1 + SLOPE[label]) for label in RUNS} | {"rotary again": 0.98}
    rounds = {
        label: [{"training": 100 * of - 10 * number * of, "decoding": {"512": 50 * of}, "refused": {"8192": "too far"} if label == "learned" else {}} for number in range(3)]
        for label, of in share.items()
    }
    head = {"schema": 1, "kind": "cost on a CPU", "commit": "c" * 40, "machine": "2 cores that are made up", "threads": 2, "kernels": "NEON"}
    shape = {"width": 512, "heads": 8, "layers": 8, "length": LENGTH}
    settings = {"rounds": 3, "rows": 1, "keys": [512, 8192], "decode_steps": 8}
    rest = {"shape": shape, "settings": settings, "rounds": rounds}
    (folder / "cpu.json").write_text(json.dumps({**head, **rest}))
    for label, own in rounds.items():
        for one in own:
            one |= {"own_bytes": 3 * 2**30, "decoding_bytes": {"512": 2**29}, "launched": {"training": "RuntimeError: it waits"} if label == "cope" else {}}
    head |= {"kind": "cost on a GPU", "machine": "a GPU that is made up", "dtype": "bfloat16", "versions": {"torch": "2.11"}}
    del head["threads"], head["kernels"]
    (folder / "gpu.json").write_text(json.dumps({**head, **rest, "settings": settings | {"rows": 16, "decode_rows": 8}}))


def prefill(folder: Path, kind: str) -> None:
    """What `python -m lab cost --changes` writes."""
    rounds = {"rotary": [100.0, 90.0, 80.0], "rotary, rerope": [50.0, 45.0, 20.0], "rotary again": [100.0, 90.0, 80.0]}
    head = {"schema": 1, "kind": f"prefill on a {kind}", "commit": "c" * 40, "machine": f"a {kind} that is made up", "versions": {"torch": "2.11"}}
    head |= {"threads": 2, "kernels": "NEON"} if kind == "CPU" else {"dtype": "bfloat16"}
    rest = {"shape": {"width": 512, "heads": 8, "layers": 8, "length": 512}, "settings": {"rounds": 3, "multiple": 8, "times": 1}, "rounds": rounds}
    (folder / f"{kind.lower()}_prefill.json").write_text(json.dumps(head | rest))
