# SPDX-License-Identifier: Apache-2.0
"""Measures one contender in this process and prints its rows as JSON: contender.py NAME THREADS ROUNDS CASES."""

from __future__ import annotations

import importlib
import json
import os
import sys

NAME, THREADS, ROUNDS, CASES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
# Before any library starts its threads: some have no switch of their own, and all obey the cores they are given.
os.environ["OMP_NUM_THREADS"] = str(THREADS)
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-THREADS:])

import torch  # noqa: E402
from harness import Case, measure  # noqa: E402


def main() -> None:
    torch.set_num_threads(THREADS)
    contender = importlib.import_module(f"contenders.{NAME}")
    rows = []
    for case_name in CASES:
        tokens, dtype = case_name.split(":")
        case = Case(int(tokens), dtype, THREADS)
        contestants = contender.contestants(case)
        if contestants:
            rows += measure(case, contestants, ROUNDS)
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
