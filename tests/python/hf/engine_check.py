#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs examples/engine on a device beside the CPU over what engine_peer.py recorded: the tokens must be transformers', and what each step makes
within rounding of the CPU's. Says where a difference begins. Needs Python alone.

engine_check.py FOLDER DEVICE PROGRAM [PROGRAM_IN_C]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Float32 in another order, through all layers and the keys of earlier steps: some hundred roundings of 6e-8. A wrong page, position or weight is of order 1.
ROUNDING = 1e-4
# What is made before any attention has the CPU's bits: products and norms in its order, Phasor's rotation.
BITWISE = {(0, 0, "q"), (0, 0, "keys"), (0, 0, "values")}


class Line(NamedTuple):
    """Numbers that a step makes; the layer is -1 where they are of none."""

    step: int
    layer: int
    name: str
    values: list[float]

    @property
    def words(self) -> str:
        return f"step {self.step}, " + (f"layer {self.layer}, " if self.layer >= 0 else "") + self.name


def lines_of(trace: Path) -> Iterator[Line]:
    for text in trace.read_text().splitlines():
        head, _, numbers = text.partition(":")
        step, layer, name = head.split()
        yield Line(int(step), int(layer), name, [float(number) for number in numbers.split()])


def off(a: Line, b: Line) -> float:
    """The largest difference as a part of the largest magnitude; infinite where they are not the same numbers of the same thing."""
    if a[:3] != b[:3] or len(a.values) != len(b.values):
        return float("inf")
    worst = max(abs(x - y) if x == x and y == y else float("inf") for x, y in zip(a.values, b.values))
    return worst / max(max(map(abs, b.values)), 1e-30)


def differences(traces: tuple[Path, Path], same_tokens: int) -> Iterator[str]:
    """What is wrong with the first trace by the second. Beyond the steps that had the same tokens before them nothing is comparable."""
    told = False
    for mine, cpu in zip(*map(lines_of, traces), strict=True):
        share = off(mine, cpu)
        exact = mine[:3] in BITWISE
        if mine.name == "logits":
            print(f"    step {mine.step}: logits differ by {share:.2e} of the largest")
        if not told and mine.step <= same_tokens and (share > 0 if exact else not share <= ROUNDING):
            at = max(range(min(len(mine.values), len(cpu.values))), key=lambda i: abs(mine.values[i] - cpu.values[i]), default=0)
            yield (
                f"begins at {mine.words}: {share:.3e} of the largest, wanted {'the same bits' if exact else ROUNDING}; "
                f"number {at} of {len(cpu.values)} is {mine.values[at]!r}, the CPU's {cpu.values[at]!r}"
            )
            told = True


def run(program: str, options: list[str], folder: Path, case: dict[str, Any]) -> list[int]:
    numbers = [case["new"], case["context"], case["keep"], *case["prompt"]]
    done = subprocess.run([program, *options, str(folder / case["model"]), *map(str, numbers)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()}")
    return [int(token) for token in done.stdout.split()]


def same(a: list[int], b: list[int]) -> int:
    """How many tokens at the beginning are the same."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check(folder: Path, device: str, program: str, case: dict[str, Any]) -> Iterator[str]:
    """What is wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        traces = Path(scratch) / "device", Path(scratch) / "cpu"
        made = run(program, ["--device", device, "--trace", str(traces[0])], folder, case)
        cpu = run(program, ["--device", "cpu", "--trace", str(traces[1])], folder, case)
        if made != case["tokens"]:
            yield f"token {same(made, case['tokens'])} is the first that is not transformers': {made}, wanted {case['tokens']}"
        if cpu != case["tokens"]:
            yield f"on the CPU token {same(cpu, case['tokens'])} is the first that is not transformers'"
        yield from differences(traces, same(made, cpu))


def main() -> int:
    folder, device, program, *in_c = sys.argv[1:]
    failed = 0
    for case in json.loads((Path(folder) / "cases.json").read_text()):
        print(f"{case['name']}:", flush=True)
        wrong = []
        try:
            wrong += check(Path(folder), device, program, case)
            for other in in_c:
                if run(other, ["--device", device], Path(folder), case) != case["tokens"]:
                    wrong.append("the engine in C makes other tokens")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            wrong.append(str(error))
        failed += bool(wrong)
        print("\n".join(f"  FAIL: {text}" for text in wrong) if wrong else "  pass", flush=True)
    print(f"{'FAIL' if failed else 'PASS'}: the engine on {device}: {failed} cases differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
