#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what `make bench-gpu` wrote as one Markdown table for docs/design/cuda.md: `table.py JSON...`, a part for each file.

A file is a list of {"case", "tokens", "us", "copy_us"} and, where a call is compared with its steps, "steps_us". A cell has the microseconds,
the share of a copy of the same bytes in brackets, and, with steps, how many times as long they took.
"""
import json
import sys
from pathlib import Path

TITLES = {
    "rotary_bench": "rotation, 32 + 8 heads of 128",
    "prepare_bench": "the step before attention",
    "operations_bench": "other operations",
    "gpu_peers": "peers",
}


def rows_of(path):
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"table.py: {path}: {error}")
    for row in rows:
        if missing := {"case", "tokens", "us", "copy_us"} - row.keys():
            sys.exit(f"table.py: {path}: a row has no {', '.join(sorted(missing))}")
    return rows


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


def main():
    if len(sys.argv) < 2:
        sys.exit("table.py: which files? table.py JSON...")
    print("\n".join(table([(TITLES.get(Path(path).stem, Path(path).stem), rows_of(path)) for path in sys.argv[1:]])))


if __name__ == "__main__":
    main()
