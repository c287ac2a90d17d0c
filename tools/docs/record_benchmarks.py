#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps what `make bench` measured for the page about performance: tools/docs/record_benchmarks.py NAME "MACHINE IN WORDS" writes docs/benchmarks/NAME/*.json
from out/bench_*.json. Medians of the repetitions, in the form of Google Benchmark, so that tools/bench_table.py reads them too."""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import bench_table  # noqa: E402

FIELDS = {"ns": "real_time", "rate": "bytes_per_second", "items": "items_per_second"}


def rounded(value):
    """Four digits: more are noise."""
    return float(f"{value:.4g}")


def compact(file, context):
    """One program's medians as text, a line for each."""
    found, runs = bench_table.medians(file)
    head = {**context, "date": found["date"][:10], "target": found["target"], "version": found["version"]}
    rows = [{"run_name": name, **{FIELDS[key]: rounded(value) for key, value in run.items() if value}} for name, run in sorted(runs.items())]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    return f'{{"context": {json.dumps(head)},\n "benchmarks": [\n{lines}\n]}}\n'


MEASURED = ["src", "include", "bench", "cmake", "CMakeLists.txt"]


def git(*arguments):
    return subprocess.run(["git", *arguments, "--", *MEASURED], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def commit():
    """The last one that changed what is measured; sources that no commit has say so."""
    return git("log", "-1", "--format=%h") + ("-dirty" if git("status", "--porcelain") else "")


def main(name, machine):
    files = sorted((ROOT / "out").glob("bench_*.json"))
    if not files:
        sys.exit("out/ has no bench_*.json, wanted what `make bench` writes")
    folder = ROOT / "docs" / "benchmarks" / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / file.name).write_text(compact(file, {"machine": machine, "commit": commit()}), encoding="utf-8")
    print(f"docs: {len(files)} programs in {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit('usage: tools/docs/record_benchmarks.py NAME "MACHINE IN WORDS"')
    main(*sys.argv[1:])
