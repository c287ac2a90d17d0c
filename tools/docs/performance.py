#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the tables of docs/performance.md from the design pages and from the JSON of `make bench`, if there is some: tools/docs/performance.py FOLDER."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_after(page, heading, first_cells):
    """The lines of the first table behind `heading` whose head begins with `first_cells`."""
    lines = (ROOT / "docs" / "design" / page).read_text(encoding="utf-8").splitlines()
    at = lines.index(heading)
    while cells_of(lines[at])[: len(first_cells)] != first_cells or not lines[at].startswith("|"):
        at += 1
    end = at
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return [cells_of(line) for line in lines[at:end] if not line.startswith("|---")]


def said(page, *words):
    """What is said here about machines and commits must stand on the page that the numbers are from."""
    text = (ROOT / "docs" / "design" / page).read_text(encoding="utf-8")
    assert all(word in text for word in words), f"docs/design/{page} no longer says {words}: look at tools/docs/performance.py"


def markdown(rows):
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def columns(rows, chosen, names):
    """Some columns by their index, under other names; rows that have nothing in them are left out."""
    body = [[row[i] for i in chosen] for row in rows[1:]]
    return markdown([names, *(row for row in body if any(row[1:]))])


def cpu():
    said("performance.md", "Neoverse-N1 at 2.5 GHz", "16 cores, g++ 13", "48d6c2d")
    neon = table_after("performance.md", "## NEON before and after, and what was asked", ["", "before"])
    x86 = table_after("performance.md", "## x86 before and after", ["", "AVX-512 before"])
    return "\n".join(
        [
            "**Neoverse-N1 at 2.5 GHz** (aarch64, NEON), 32 + 8 heads of 128; other programs ran beside. The newer of the two checkouts compared there.",
            "",
            columns(neon, [0, 2], ["", "measured"]),
            "",
            "**x86-64 with AVX-512 and AMX**, one of 16 cores, g++ 13, commit 48d6c2d; a shared machine: a difference of a tenth is none. `*`: no undisturbed round.",
            "",
            columns(x86, [0, 2, 4], ["", "AVX-512", "AVX2"]),
            "",
        ]
    )


def gpu():
    said("cuda.md", "H200", "B 4, H 32, n 4096, bf16")
    rotation = table_after("cuda.md", "## Measured", ["", "1 token"])
    forward = table_after("cuda.md", "## Hopper", ["", "D128 full"])
    return "\n".join(
        [
            "**NVIDIA H200.** Rotation of 32 + 8 heads of 128: microseconds per call by the number of tokens; in brackets the share of a copy of the same bytes.",
            "",
            markdown([row for row in rotation if "before" not in row[0]]),
            "",
            "Attention forward, B 4, H 32, n 4096, bf16: TFLOP/s. In brackets: for plain its speed over cuDNN's, for biases their time over that of plain.",
            "",
            markdown(forward),
            "",
        ]
    )


def benchmarks():
    """What `make bench` left in out/, by tools/bench_table.py, with its commit."""
    found = sorted((ROOT / "out").glob("bench_*.json"))
    if not found:
        return "None were run in the checkout that this site was built from: `make bench` writes them, and the next `make docs` shows them here.\n"
    parts = []
    for file in found:
        shown = subprocess.run([sys.executable, ROOT / "tools" / "bench_table.py", file], capture_output=True, text=True, check=True)
        parts.append(f"**{file.stem}**\n\n```text\n{shown.stdout}```\n")
    return "\n".join(parts)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("performance_cpu", cpu), ("performance_gpu", gpu), ("benchmarks", benchmarks)):
        (folder / f"{name}.md").write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
