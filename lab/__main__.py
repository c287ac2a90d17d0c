# SPDX-License-Identifier: Apache-2.0
"""The lab: models trained with each position encoding, measured at lengths they were not trained at. `python -m lab COMMAND --help` for each of

  run     trains and measures what is left of a preset's queue, a JSON file a run
  list    says what is done and what is left
  smoke   some steps of every encoding: times and kernels, captured steps beside launched ones
  cost    tokens per second of every encoding on a CPU or a GPU, a JSON file; --changes: of what is changed at evaluation
  report  tables and plots from the JSON files
  data    makes the store of tokens from packages
  --quick all of it in about a minute on a CPU
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

OUT = Path("out/lab")
RESULTS = Path(__file__).resolve().parent / "results"


def _parser(command: str, text: str) -> argparse.ArgumentParser:
    from lab.presets import PRESETS

    parser = argparse.ArgumentParser(prog=f"python -m lab {command}", description=text)
    parser.add_argument("--preset", choices=list(PRESETS), default="small", help="sizes of the models and runs (default small)")
    parser.add_argument("--data", help="folder of a store that `python -m lab data` made; the quick preset needs none")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results (default lab/results)")
    parser.add_argument("--only", nargs="+", metavar="ENCODING", help="these alone")
    parser.add_argument("--seeds", nargs="+", type=int, help="these alone")
    return parser


def _queue(given: argparse.Namespace) -> tuple:
    from lab.batches import Source
    from lab.presets import PRESETS
    from lab.queue import Queue, tasks_of

    preset = PRESETS[given.preset]
    if given.data is None and preset.name != "quick":
        raise SystemExit(f"lab: the preset {preset.name} needs --data FOLDER, a store that `python -m lab data` made")
    source = Source(given.data)
    if getattr(given, "steps", None):
        preset = replace(preset, steps=given.steps)
    return Queue(preset, source.store.hash, given.results, tasks_of(preset, given.only, given.seeds)), source


def _processes(lanes: int) -> int:
    return max(1, min(12, len(os.sched_getaffinity(0)) // lanes))


def run(words: list[str]) -> int:
    """Trains and measures what is left."""
    parser = _parser("run", "Trains and measures what is left of a queue.")
    parser.add_argument("--seconds", type=float, help="begin no run that would not end in so many")
    parser.add_argument("--steps", type=int, help="of training, instead of the preset's: a result of its own settings")
    parser.add_argument("--device", help="cuda or cpu (default: a GPU where there is one)")
    parser.add_argument("--checkpoints", type=Path, default=OUT / "checkpoints", help="folder of trainings that are under way")
    parser.add_argument("--checkpoint-steps", type=int, default=0, help="write one every so many steps (default: every minute)")
    parser.add_argument("--eager", action="store_true", help="launch each step piece by piece instead of as a CUDA graph; the same bits, in more time")
    parser.add_argument("--pack", type=Path, help="a tar.gz of all results, written anew after each run")
    parser.add_argument("--lanes", type=int, default=1, help="so many runs at once on the device (default 1)")
    parser.add_argument("--claims", type=Path, help=argparse.SUPPRESS)  # of a lane: where it finds what others do
    given = parser.parse_args(words)
    from lab import lanes

    if given.lanes < 1:
        raise SystemExit(f"lab: --lanes {given.lanes}, wanted 1 or more")
    if given.lanes > 1 and given.claims is None:
        return lanes.run(words, given.lanes)
    from lab.batches import Batches
    from lab.device import settled
    from lab.queue import packed
    from lab.run import Lab

    queue, source = _queue(given)
    queue.claims, queue.preset = lanes.Claims(given.claims), lanes.with_caps_for(queue.preset, given.lanes)
    device = settled(given.device)
    processes = 1 if queue.preset.name == "quick" else _processes(given.lanes)
    made = Lab(queue.preset, Batches(source, device, processes), device, given.checkpoints, given.checkpoint_steps, given.eager, given.lanes)
    queue.work(made, given.seconds, (lambda: packed(given.results, given.pack)) if given.pack else lambda: None)
    return 1 if queue.failed else 0


def listed(words: list[str]) -> int:
    """Says what is done and what is left."""
    from lab.queue import table

    print(table(_queue(_parser("list", "What is done and what is left.").parse_args(words))[0]))
    return 0


def smoke(words: list[str]) -> int:
    """Some steps of every encoding."""
    parser = _parser("smoke", "Some steps of every encoding: times and kernels.")
    parser.add_argument("--device", help="cuda or cpu (default: a GPU where there is one)")
    parser.add_argument("--profile", action="store_true", help="show where the time of rotary's steps goes")
    given = parser.parse_args(words)
    from lab.batches import Batches
    from lab.device import settled
    from lab.smoke import profiled
    from lab.smoke import smoke as looked

    queue, source = _queue(given)
    device = settled(given.device)
    batches = Batches(source, device, 1)
    failed = looked(queue.preset, batches, device, given.only)
    if given.profile:
        print(profiled(queue.preset, batches, device), flush=True)
    print(f"lab smoke: {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}", flush=True)
    return 1 if failed else 0


def cost(words: list[str]) -> int:
    """Tokens per second of every encoding, on a GPU or a CPU."""
    parser = argparse.ArgumentParser(prog="python -m lab cost", description="Tokens per second of training and decoding, beside rotary.")
    from lab.presets import PRESETS

    parser.add_argument("--preset", choices=list(PRESETS), default="small", help="whose model (default small)")
    parser.add_argument("--only", nargs="+", metavar="ENCODING", help="these alone, and rotary beside them")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where (default cpu, all its cores)")
    parser.add_argument("--rounds", type=int, help="how often each is measured (default: 3 on a CPU, 2 on a GPU)")
    parser.add_argument("--machine", help="the machine in words (default: what it says of itself)")
    parser.add_argument("--changes", action="store_true", help="instead, what reading a long text costs with what is changed at evaluation")
    parser.add_argument("--out", type=Path, help="the file (default in lab/results, cpu.json or gpu.json, with --changes cpu_prefill.json or gpu_prefill.json: the report shows these)")
    given = parser.parse_args(words)
    import torch

    from lab import prefill, prices
    from lab.queue import named
    from lab.results import write

    preset, device = PRESETS[given.preset], torch.device(given.device)
    if given.changes:
        found = prefill.measured(preset, prefill.settings_for(preset, device, given.rounds), device, given.only, given.machine)
        out = given.out or RESULTS / prefill.file_name(device)
    else:
        only = None if given.only is None else named(["rotary", *(name for name in given.only if name != "rotary")])
        found = prices.measured(preset, prices.settings_for(preset, device, given.rounds), device, only, given.machine)
        out = given.out or RESULTS / prices.file_name(device)
    write(out, found)
    print(f"lab: {out}: {len(found['rounds']) - 1} {'ways of reading' if given.changes else 'encodings'}, {found['seconds']:.0f} s, on {found['machine']}")
    return 0


def quick(words: list[str]) -> int:
    """Every encoding of the quick preset, then the report of it."""
    parser = argparse.ArgumentParser(prog="python -m lab --quick")
    parser.add_argument("--out", type=Path, default=OUT / "quick", help="folder of the results and the report (default out/lab/quick)")
    given = parser.parse_args(words)
    begin = time.monotonic()
    places = ["--results", str(given.out / "results"), "--checkpoints", str(given.out / "checkpoints")]
    failed = run(["--preset", "quick", "--device", "cpu", *places])
    failed = failed or report(["--results", str(given.out / "results"), "--out", str(given.out)])
    print(f"lab: --quick: {time.monotonic() - begin:.0f} s")
    return failed


def report(words: list[str]) -> int:
    """Tables and plots from the results."""
    from lab.report.build import main as made

    made(words)
    return 0


def data(words: list[str]) -> int:
    """Makes the store."""
    from lab.data.build import main as made

    made(words)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {"run": run, "list": listed, "smoke": smoke, "cost": cost, "report": report, "data": data, "--quick": quick}


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if not words or words[0] not in COMMANDS:
        print(__doc__)
        return 0 if words[:1] in ([], ["-h"], ["--help"]) else 2
    return COMMANDS[words[0]](words[1:])


if __name__ == "__main__":
    sys.exit(main())
