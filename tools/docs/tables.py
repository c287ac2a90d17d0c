#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/numerics.md from the library's own output: tools/docs/tables.py FOLDER. Nothing on them is typed in."""
import sys
from pathlib import Path

import phasor

POSITIONS = [10**i for i in range(8)]
MODELS = {
    "Llama 2 (base 10000)": phasor.Rotary(head_dim=128),
    "Llama 3.1 (base 500000, factor 8)": phasor.Rotary(head_dim=128, base=500000, scaling=phasor.Llama3Scaling(factor=8)),
    "YaRN (base 1000000, factor 4 from 32768)": phasor.Rotary(
        head_dim=128, base=1000000, scaling=phasor.YarnScaling(factor=4, original_length=32768)
    ),
}
PROFILES = ["exact", "hf", "vllm", "ggml"]


def number(value):
    return "not supported" if value is None else f"{value:.1e}"


def table(head, rows):
    lines = ["{.numbers}", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def profile_errors():
    """The largest error of a float32 cosine or sine, by whose arithmetic makes it."""
    parts = []
    for name, rope in MODELS.items():
        found = phasor.analysis.profile_errors(rope, POSITIONS)
        rows = [[f"{one.position:,}", *(number(getattr(one, profile)) for profile in PROFILES)] for one in found]
        parts.append(f"**{name}**\n\n" + table(["position", *(f"`{profile}`" for profile in PROFILES)], rows))
    return "\n\n".join(parts) + "\n"


def precision():
    """What 16 bits cost: the error of a score, by the dtype of the tensors."""
    rope = MODELS["Llama 3.1 (base 500000, factor 8)"]
    scores = {}
    for one in phasor.analysis.precision_report(rope, [1000, 100000, 1000000], 64):
        scores.setdefault((one.position, one.numerics), {})[one.dtype] = number(one.score)
    dtypes = ["f32", "f16", "bf16"]
    rows = [[f"{position:,}", f"`{profile}`", *(by_dtype[dtype] for dtype in dtypes)] for (position, profile), by_dtype in scores.items()]
    return table(["position", "profile", *dtypes], rows) + "\n"


MEASURED = {"unique": "unique", "independent_of_length": "independent of the length", "bounded": "bounded", "relative": "relative", "defined_beyond": "defined beyond"}


def properties():
    """What each added encoding is measured to be."""
    found = phasor.analysis.properties(64, 64)
    rows = [[name.replace("_", " "), *("yes" if getattr(one, field) else "no" for field in MEASURED)] for name, one in found.items()]
    return table(["encoding", *MEASURED.values()], rows) + "\n"


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for make in (profile_errors, precision, properties):
        (folder / f"{make.__name__}.md").write_text(make(), encoding="utf-8")
    print(f"docs: tables of numbers in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
