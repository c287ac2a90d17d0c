# SPDX-License-Identifier: Apache-2.0
"""Runs every contender in a process of its own, prints what each reaches as a fraction of `copy_` in its own process, and the targets."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONTENDERS = ["phasor_package", "transformers_eager", "torch_compile", "onnxruntime_op", "rotary_embedding_torch_op", "jax_jit", "phasor_jax", "mlx_rope"]
CASES = ["2048:f32", "2048:bf16", "2048:f16", "1:f32", "1:bf16", "1:f16"]
Row = dict[str, object]


def run_contender(name: str, threads: int, rounds: int) -> list[Row]:
    command = [sys.executable, str(HERE / "contender.py"), name, str(threads), str(rounds), ",".join(CASES)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: failed\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def find(rows: list[Row], label: str, case: str, threads: int) -> Row | None:
    tokens, dtype = case.split(":")
    for row in rows:
        if (row["label"], row["tokens"], row["dtype"], row["threads"]) == (label, int(tokens), dtype, threads):
            return row
    return None


def counted(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT REACHED"


def cell(row: Row | None, prefill: bool) -> str:
    if row is None:
        return "-"
    return f"{row['fraction']:.3f} ({row['us'] / 1e3:.2f} ms)" if prefill else f"{row['us']:.1f} us"


def print_table(rows: list[Row], threads: int) -> None:
    print(f"\n{counted(threads)}; 32 query and 8 key heads of 128; prefill is 2048 tokens: share of the speed of copy_ (time); medians")
    print(f"{'':46}" + "".join(f"{('prefill ' if c[0] == '2' else 'one token ') + c.split(':')[1]:>22}" for c in CASES))
    labels = list(dict.fromkeys(str(r["label"]) for r in rows if r["threads"] == threads))
    for label in labels:
        cells = [cell(find(rows, label, case, threads), case[0] == "2") for case in CASES]
        print(f"{label:46}" + "".join(f"{c:>22}" for c in cells))


def fraction_targets(rows: list[Row], threads: int) -> list[tuple[str, float, float]]:
    """(what, reached, wanted), larger is better."""
    found = []
    ours = {case: find(rows, "phasor in place", case, threads) for case in CASES}
    for case, wanted in (("2048:f32", 1.0), ("2048:bf16", 0.32), ("2048:f16", 0.32)):
        if ours[case]:
            found.append((f"prefill {case[5:]} in place, of copy_", ours[case]["fraction"], wanted))
    for peer, case, wanted in (
        ("transformers eager, tables made in the call", "2048:f32", 10.0),
        ("transformers eager, tables made in the call", "2048:bf16", 12.0),
        ("torch.compile, tables given", "2048:f32", 5.0),
        ("onnxruntime RotaryEmbedding, bound tensors", "2048:f32", 4.0),
    ):
        theirs = find(rows, peer, case, threads)
        if theirs and ours[case]:
            found.append((f"prefill {case[5:]}, times {peer}", ours[case]["fraction"] / theirs["fraction"], wanted))
    return found


def print_targets(rows: list[Row], threads: int) -> None:
    print(f"\ntargets, {counted(threads)} (set on a Neoverse-N1 core; ratios are between fractions of copy_)")
    for what, reached, wanted in fraction_targets(rows, threads):
        print(f"  {what:70}{reached:8.2f}  wanted {wanted:5.2f}  {verdict(reached >= wanted)}")
    for label, wanted in (
        ("phasor in place", 3.0),
        ("phasor registered operator, in place", 8.0),
        ("phasor functional, gradient recorded", 30.0),
    ):
        row = find(rows, label, "1:f32", threads)
        if row:
            print(f"  {'one token f32, ' + label + ', us':70}{row['us']:8.2f}  at most {wanted:4.1f}  {verdict(row['us'] <= wanted)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--out", type=Path, default=Path("out/bench_python.json"))
    arguments = parser.parse_args()
    rows: list[Row] = []
    for threads in arguments.threads:
        for name in arguments.only:
            print(f"bench-python: {name}, {counted(threads)}", file=sys.stderr, flush=True)
            found = run_contender(name, threads, arguments.rounds)
            # Every process has its own copy_; the table shows that of the first.
            rows += [r for r in found if r["label"] != "copy_" or not find(rows, "copy_", f"{r['tokens']}:{r['dtype']}", threads)]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"machine": platform.machine(), "python": platform.python_version(), "rows": rows}, indent=1))
    for threads in arguments.threads:
        print_table(rows, threads)
        print_targets(rows, threads)


if __name__ == "__main__":
    main()
