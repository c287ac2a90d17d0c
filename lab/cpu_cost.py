# SPDX-License-Identifier: Apache-2.0
"""The price of each encoding on a CPU: tokens per second of training and of decoding, on all cores of the machine at hand. `python -m lab cost`.

Nothing is trained for its own sake, so no store is needed: windows are drawn. Every round has every encoding once, in an order of its own, and rotary
a second time: what those two are apart is what the machine is apart from itself.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

import phasor
from lab import results
from lab.cost import Decoder
from lab.encodings import TRAINED
from lab.model import begun
from lab.presets import Preset
from lab.progress import Progress
from lab.training.step import Plan
from lab.training.trainer import Trainer

SCHEMA = 1
CPU = torch.device("cpu")
AGAIN = "rotary again"
VOCABULARY = 8320  # as the stores have it
LONG_STEP = 20.0  # seconds: a step that takes so long is timed once, cold as it is
REFUSED = (ValueError, TypeError, NotImplementedError, RuntimeError)
Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    rounds: int = 3
    rows: int = 1  # windows in a step of training, sequences that are decoded
    keys: tuple[int, ...] = (512, 8192)  # in the caches that are decoded against
    decode_steps: int = 8


def order(names: Sequence[str], number: int) -> list[str]:
    """Of a round: begun elsewhere each time, so that no two always follow each other's heat."""
    begin = (7 * number) % len(names)
    return [*names[begin:], *names[:begin]]


def _training(name: str, preset: Preset, settings: Settings) -> tuple[Any, float]:
    """The model, and tokens per second of its second step."""
    model = begun(name, 0, preset.shape, VOCABULARY)
    trainer = Trainer(model, Plan.of(preset), CPU)
    tokens = torch.randint(VOCABULARY, (settings.rows, preset.shape.length + 1), generator=torch.Generator().manual_seed(0))
    seconds = 0.0
    for _ in range(2):
        begin = time.monotonic()
        trainer.step(tokens)
        seconds = time.monotonic() - begin
        if seconds > LONG_STEP:
            break
    trainer.release()
    return model, settings.rows * preset.shape.length / seconds


def one_round(label: str, preset: Preset, settings: Settings) -> Row:
    """Tokens per second: `training`, and by the number of keys; words where the library refuses."""
    model, rate = _training("rotary" if label == AGAIN else label, preset, settings)
    found: Row = {"training": rate, "decoding": {}, "refused": {}}
    for keys in settings.keys:
        try:
            seconds = Decoder(model, preset, CPU, keys, settings.rows).seconds(settings.decode_steps)
            found["decoding"][str(keys)] = settings.rows / seconds
        except REFUSED as error:
            found["refused"][str(keys)] = str(error).splitlines()[0]
    return found


def machine() -> str:
    """In words: the processor as it names itself, and how many of its cores there are."""
    cores, name = len(os.sched_getaffinity(0)), platform.processor() or platform.machine()
    if shutil.which("lscpu"):  # it knows names that an ARM processor has as numbers alone
        told = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}).stdout
        name = next((line.split(":", 1)[1].strip() for line in told.splitlines() if line.startswith("Model name:")), name)
    return f"{cores} cores, {name} ({platform.machine()})"


def measured(preset: Preset, settings: Settings, only: Sequence[str] | None = None, words: str | None = None) -> Row:
    """The whole of it, as it is kept."""
    preset = replace(preset, dtype="float32", rows=settings.rows)
    labels = [*(TRAINED if only is None else only), AGAIN]
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    phasor.set_num_threads(threads)
    begin, found = time.monotonic(), {label: [] for label in labels}
    progress = Progress(settings.rounds * len(labels))
    for number in range(settings.rounds):
        for done, label in enumerate(order(labels, number)):
            found[label].append(one_round(label, preset, settings))
            progress.show(number * len(labels) + done + 1, f"{label}, round {number + 1}")
    progress.end()
    head = {"schema": SCHEMA, "kind": "cost on a CPU", "commit": results.commit(), "versions": results.versions(), "machine": words or machine()}
    head |= {"threads": threads, "kernels": phasor.active_target(), "preset": preset.name, "shape": asdict(preset.shape), "settings": asdict(settings)}
    return head | {"rounds": found, "seconds": time.monotonic() - begin}


def command(parsed: Any, preset: Preset, told: Callable[[str], None] = print) -> int:
    """What `python -m lab cost` does."""
    from lab.queue import named

    settings = Settings(rounds=parsed.rounds)
    if preset.name == "quick":
        settings = replace(settings, keys=preset.decode_lengths, decode_steps=1)
    found = measured(preset, settings, None if parsed.only is None else named(parsed.only), parsed.machine)
    results.write(parsed.out, found)
    told(f"lab: {parsed.out}: {len(found['rounds']) - 1} encodings, {found['seconds']:.0f} s, on {found['machine']}")
    return 0
