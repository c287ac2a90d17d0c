# SPDX-License-Identifier: Apache-2.0
"""Trains one small model with every position encoding, measures each at longer lengths, and writes a table, a plot and JSON into out/."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

import phasor
from lab import corpus, report
from lab.encodings import TRAINED, Shape
from lab.measure import Settings
from lab.runs import run_all

QUICK = Settings(Shape(width=32, heads=4, layers=2, length=32), steps=30, batch=16, warmup=5, test_tokens=2048)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller model, some steps: seconds, to see that all works")
    parser.add_argument("--steps", type=int, help=f"of training (default {Settings().steps})")
    parser.add_argument("--seeds", type=int, help="runs of every encoding (default 3; with --quick 1)")
    parser.add_argument("--only", nargs="+", choices=list(TRAINED), default=list(TRAINED), help="train these alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: the cores; 1: none but this one)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of lab.json, lab.md and lab.png (default out)")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    given = arguments(words)
    settings = QUICK if given.quick else Settings()
    settings = settings if given.steps is None else replace(settings, steps=given.steps)
    seeds = list(range((1 if given.quick else 3) if given.seeds is None else given.seeds))
    begun = time.monotonic()
    rows = run_all([(name, seed, settings) for seed in seeds for name in given.only], given.jobs)
    result = {
        "settings": asdict(settings),
        "seeds": seeds,
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "phasor": phasor.__version__},
        "seconds": round(time.monotonic() - begun, 1),
        "uniform": math.log(corpus.VOCABULARY),
        "floor": {f"{multiple:g}": float(settings.test(multiple).surprisal[:, 1:].mean()) for multiple in settings.multiples},
        "summary": report.summary(rows),
        "runs": rows,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "lab.json").write_text(json.dumps(result, indent=1))
    (given.out / "lab.md").write_text(report.text(result))
    report.draw(result, given.out / "lab.png")
    print(report.text(result))
    print(f"{given.out}/lab.json, lab.md, lab.png; {result['seconds']} s")


if __name__ == "__main__":
    main()
