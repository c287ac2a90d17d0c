#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what `make bench-gpu` wrote as Markdown tables for docs/design: `table.py JSON...`.

Files of lists of {"case", "tokens", "us", "copy_us"} and, where a call is compared with its steps, "steps_us", become one table, a part for each. A cell
has the microseconds, the share of a copy of the same bytes in brackets, and, with steps, how many times as long they took. A file of attention_targets.py
and one of training.py is a table of its own.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from schemes import rows  # noqa: E402

TITLES = {
    "rotary_bench": "rotation, 32 + 8 heads of 128",
    "prepare_bench": "the step before attention",
    "operations_bench": "other operations",
    "gpu_peers": "peers",
    "decode_bench": "decoding, the kernel alone",
}


def read(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"table.py: {path}: {error}")


def checked(path, cases):
    for row in cases:
        if missing := {"case", "tokens", "us", "copy_us"} - row.keys():
            sys.exit(f"table.py: {path}: a row has no {', '.join(sorted(missing))}")
    return cases


def cell(row):
    if row is None:
        return ""
    steps = f", steps {row['steps_us'] / row['us']:.2f}x" if "steps_us" in row else ""
    return f"{row['us']:.2f} ({row['copy_us'] / row['us']:.3f}{steps})"


def part(title, rows, columns):
    """The lines of one file: a heading, then its cases in their order."""
    by_case = {}
    for row in rows:
        by_case.setdefault(row["case"], {})[row["tokens"]] = row
    lines = [f"| **{title}** |" + " |" * len(columns)]
    return lines + [f"| {case} | " + " | ".join(cell(found.get(c)) for c in columns) + " |" for case, found in by_case.items()]


def table(files):
    """files: (title, rows) of each; one without rows is left out."""
    columns = sorted({row["tokens"] for _, rows in files for row in rows})
    lines = ["| us (share of a copy's speed) | " + " | ".join(f"{c} token{'s' if c > 1 else ''}" for c in columns) + " |"]
    lines.append("|---|" + "---|" * len(columns))
    for title, rows in files:
        lines += part(title, rows, columns) if rows else []
    return lines


def of_attention(written):
    lines = [rows.line_of(rows.row_from(row)) for group in written["groups"] for row in group["rows"]]
    not_begun = [f"| {name} | | not run to its end: the time was over | | | | |" for name in written["not_begun"]]
    return [*rows.heading(), *lines, *not_begun]


def of_training(written):
    lines = ["| encoder | losses, first and last | difference (of noise) | ms a step, theirs | ours | times as fast | MiB, theirs | ours |", "|---|---|---|---|---|---|---|---|"]
    for name, found in written["models"].items():
        if "error" in found:
            lines.append(f"| {name} | ERROR: {found['error']} | | | | | | |")
        if "theirs" not in found:
            continue
        theirs, ours = found["theirs"], found["ours"]
        speed = f"{theirs['milliseconds']:.1f} | {ours['milliseconds']:.1f} | {theirs['milliseconds'] / ours['milliseconds']:.2f}"
        losses = f"{ours['losses'][0]:.4f} {ours['losses'][-1]:.4f} | {found['difference']:.1e} ({found['noise']:.1e})"
        lines.append(f"| {name} | {losses} | {speed} | {theirs['mebibytes']:.0f} | {ours['mebibytes']:.0f} |")
    return lines


def tables(files):
    """files: (path, what it holds). One table of all lists of cases, then one of each of the others."""
    lists = [(TITLES.get(Path(path).stem, Path(path).stem), checked(path, written)) for path, written in files if isinstance(written, list)]
    made = [table(lists)] if any(cases for _, cases in lists) else []
    for path, written in files:
        if not isinstance(written, list):
            made.append(of_attention(written) if "groups" in written else of_training(written))
    return made


def main():
    if len(sys.argv) < 2:
        sys.exit("table.py: which files? table.py JSON...")
    print("\n\n".join("\n".join(lines) for lines in tables([(path, read(path)) for path in sys.argv[1:]])))


if __name__ == "__main__":
    main()
