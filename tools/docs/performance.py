#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the tables of docs/performance.md from the design pages, from docs/benchmarks and from the JSON of `make bench`, if there is some: tools/docs/performance.py FOLDER."""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def place_of_table(lines, heading, first_cells):
    """Where the first table behind `heading` begins whose head begins with `first_cells`, and where it ends."""
    at = lines.index(heading)
    while cells_of(lines[at])[: len(first_cells)] != first_cells or not lines[at].startswith("|"):
        at += 1
    end = at
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return at, end


def table_after(page, heading, first_cells):
    """The rows of that table of a design page."""
    lines = (ROOT / "docs" / "design" / page).read_text(encoding="utf-8").splitlines()
    at, end = place_of_table(lines, heading, first_cells)
    return [cells_of(line) for line in lines[at:end] if not line.startswith("|---")]


def written_down(page, heading, first_cells):
    """The commits that wrote the rows of that table, in words. What is written and not committed yet has none."""
    path = ROOT / "docs" / "design" / page
    at, end = place_of_table(path.read_text(encoding="utf-8").splitlines(), heading, first_cells)
    blame = subprocess.run(["git", "blame", "-s", "--abbrev=6", f"-L{at + 3},{end}", str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    commits = sorted({line.split()[0].lstrip("^") for line in blame.stdout.splitlines()} - {"0000000"})
    return "written down in " + ", ".join(commits) if commits else "no history here to say in which commit"


def said(page, *words):
    """What is said here about machines and commits must stand on the page that the numbers are from."""
    text = (ROOT / "docs" / "design" / page).read_text(encoding="utf-8")
    assert all(word in text for word in words), f"docs/design/{page} no longer says {words}: look at tools/docs/performance.py"


def markdown(rows):
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["{.numbers}", head, "|" + "---|" * len(rows[0]), *body])


def columns(rows, chosen, names):
    """Some columns by their index, under other names; rows that have nothing in them are left out."""
    body = [[row[i] for i in chosen] for row in rows[1:]]
    return markdown([names, *(row for row in body if any(row[1:]))])


def plot(name, words):
    """A picture by tools/docs/performance_plots.py, the one of the theme."""
    one = "```{{image}} made/plots/{name}-{theme}.svg\n:class: only-{theme} plot\n:alt: {words}\n```\n"
    return "".join(one.format(name=name, theme=theme, words=words) for theme in ("light", "dark"))


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
            f"**NVIDIA H200** ({written_down('cuda.md', '## Measured', ['', '1 token'])}). Rotation of 32 + 8 heads of 128: microseconds per call by the number of tokens; "
            "in brackets the share of a copy of the same bytes.",
            "",
            plot("gpu-rotation", "Microseconds of a rotation by the number of tokens, beside a copy of the same bytes"),
            markdown([row for row in rotation if "before" not in row[0]]),
            "",
            f"Attention forward ({written_down('cuda.md', '## Hopper', ['', 'D128 full'])}), B 4, H 32, n 4096, bf16: TFLOP/s. In brackets: for plain its speed over cuDNN's, "
            "for biases their time over that of plain.",
            "",
            plot("gpu-attention", "TFLOP/s of attention forward by shape: cuDNN, plain attention here, and with a bias on every tile"),
            markdown(forward),
            "",
        ]
    )


def tables_of(files):
    """Each program's JSON by tools/bench_table.py."""
    parts = []
    for file in files:
        shown = subprocess.run([sys.executable, ROOT / "tools" / "bench_table.py", file], capture_output=True, text=True, check=True)
        parts.append(f"`{file.stem}`\n\n```text\n{shown.stdout}```\n")
    return "\n".join(parts)


def recorded():
    """What tools/docs/record_benchmarks.py kept, machine by machine: plots and numbers."""
    parts = []
    for folder in sorted(path for path in (ROOT / "docs" / "benchmarks").iterdir() if path.is_dir()):
        files = sorted(folder.glob("bench_*.json"))
        context = json.loads(files[0].read_text(encoding="utf-8"))["context"]
        parts += [
            f"**{context['machine']}**, target {context['target']}, commit {context['commit']}, {context['date']}. The programs of `make bench`; medians.",
            "",
            plot(f"{folder.name}-rotation", "Speed of rotations as a share of memcpy's, for tensors in L2, L3 and DRAM"),
            plot(f"{folder.name}-attention", "Time of attention with a scheme over that of plain attention"),
            tables_of(files),
        ]
    return "\n".join(parts)


def benchmarks():
    """What `make bench` left in out/."""
    found = sorted((ROOT / "out").glob("bench_*.json"))
    if not found:
        return "None were run in the checkout that this site was built from: `make bench` writes them, and the next `make docs` shows them here.\n"
    return tables_of(found)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("performance_cpu", cpu), ("performance_gpu", gpu), ("recorded", recorded), ("benchmarks", benchmarks)):
        (folder / f"{name}.md").write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
