#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test of this folder without pytest, one after the other: python tests/python/gpu/run.py [words in their names...].

Prints a table, with what could not be run and why, and writes it as JSON to $OUT (./out). `pytest tests/python/gpu/gpu_*.py` runs them too.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))


def tests() -> Iterator[tuple[str, Callable[[], None]]]:
    """(file and name, function), in the order of the files."""
    for file in sorted(FOLDER.glob("gpu_*.py")):
        module = importlib.import_module(file.stem)
        for name, thing in list(vars(module).items()):  # a compiler may add to it
            if name.startswith("test_") and callable(thing):
                yield f"{file.stem}: {name.removeprefix('test_')}", thing


def result_of(test: Callable[[], None]) -> tuple[str, str]:
    """pass, FAIL or NOT RUN, and why."""
    from cases import NotRun

    try:
        test()
    except NotRun as why:
        return "NOT RUN", str(why)
    except Exception as error:  # noqa: BLE001  a test that fails must not end the others
        traceback.print_exc()
        return "FAIL", f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]
    return "pass", ""


def main() -> int:
    import torch

    import phasor
    from cases import DEVICE

    where = torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU: a rehearsal"
    print(f"phasor {phasor.__version__} from {phasor._core.__file__}, PyTorch {torch.__version__}, on {where}", flush=True)
    rows = []
    for name, test in tests():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        begin = time.perf_counter()
        outcome, why = result_of(test)
        rows.append({"test": name, "result": outcome, "why": why, "seconds": round(time.perf_counter() - begin, 2)})
        print(f"{outcome:8}{rows[-1]['seconds']:7.2f} s  {name}{': ' + why if why else ''}", flush=True)
    import gpu_speed

    for name, us in gpu_speed.FIGURES.items():
        target = gpu_speed.TARGETS.get(name)
        print(f"{us:8.2f} us  {name}" + (f" ({'OVER' if us > target else 'within'} the target of {target} us)" if target else ""))
    out = Path(os.environ.get("OUT", "out"))
    out.mkdir(exist_ok=True)
    (out / "gpu_python.json").write_text(json.dumps({"device": where, "tests": rows, "microseconds": gpu_speed.FIGURES}, indent=1))
    counts = {kind: sum(row["result"] == kind for row in rows) for kind in ("pass", "FAIL", "NOT RUN")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return counts["FAIL"]


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
