# SPDX-License-Identifier: Apache-2.0
"""The price of each encoding: tokens per second and memory of training and of decoding, on the GPU or on all cores of the machine at hand.
`python -m lab cost`.

Nothing is trained for its own sake, so no store is needed: windows are drawn. Every round has every encoding once, in an order of its own, and rotary
a second time: what those two are apart is what the machine is apart from itself. On a GPU steps are replayed as CUDA graphs, of decoding too: launched
one by one they would tell the price of launching. Memory of a GPU is what PyTorch allocates in every round, of a CPU what a process takes, once a label.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import platform
import random
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

import phasor
from lab import device as places
from lab import results
from lab.cost import Decoder, attention_path
from lab.encodings import TRAINED
from lab.model import Model, begun
from lab.presets import Preset
from lab.progress import Progress
from lab.training.captured import Graphs
from lab.training.step import Plan
from lab.training.trainer import Trainer

SCHEMA = 1
AGAIN = "rotary again"
VOCABULARY = 8320  # as the stores have it
LONG_STEP = 20.0  # seconds: a step that takes so long is timed once, cold as it is
MOST_SECONDS = 2.0  # of all steps that are timed together
MEMORY_STEPS = 2  # of training and of decoding, where memory is asked for: the second has all that every later one has
REFUSED = (ValueError, TypeError, NotImplementedError, RuntimeError)
Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Defaults are a CPU's."""

    rounds: int = 3
    rows: int = 1  # windows in a step of training
    steps: int = 1  # of training that are timed, fewer where they are slow
    decode_rows: int = 1  # sequences that are decoded
    keys: tuple[int, ...] = (512, 8192)  # in the caches that are decoded against
    decode_steps: int = 8


ON_GPU = Settings(rounds=2, rows=16, steps=40, decode_rows=8, keys=(512, 8192, 32768), decode_steps=40)
QUICK = Settings(keys=(32, 64), decode_steps=1)


def settings_for(preset: Preset, device: torch.device, rounds: int | None = None) -> Settings:
    settings = QUICK if preset.name == "quick" else replace(ON_GPU, rows=preset.rows) if device.type == "cuda" else Settings()
    return settings if rounds is None else replace(settings, rounds=rounds)


def order(names: Sequence[str], number: int) -> list[str]:
    """Of a round: another one each time, so that no two always follow each other's heat."""
    return random.Random(number).sample(names, len(names))


def _times(wanted: int, seconds: float) -> int:
    """How many steps are timed, where one takes so long."""
    return max(1, min(wanted, int(MOST_SECONDS / seconds)))


def _waited_step(trainer: Trainer, tokens: Tensor, times: int = 1) -> float:
    """Seconds of so many steps together."""
    begin = time.monotonic()
    for _ in range(times):
        trainer.step(tokens)
    places.waited(trainer.device)
    return time.monotonic() - begin


def _training(model: Model, preset: Preset, settings: Settings, device: torch.device) -> Row:
    """Tokens per second of warm steps."""
    trainer = Trainer(model, replace(Plan.of(preset), steps=settings.steps + 2), device)
    tokens = torch.randint(VOCABULARY, (settings.rows, preset.shape.length + 1), generator=torch.Generator().manual_seed(0)).to(device)
    places.forget_peak(device)
    seconds = _waited_step(trainer, tokens)
    if seconds <= LONG_STEP:
        if settings.steps > 1:
            seconds = _waited_step(trainer, tokens)
        times = _times(settings.steps, seconds)
        seconds = _waited_step(trainer, tokens, times) / times
    trainer.release()
    return {"training": settings.rows * preset.shape.length / seconds, "peak": places.peak_bytes(device), "not_captured": trainer.not_captured}


def _decoding(model: Model, preset: Preset, settings: Settings, device: torch.device, keys: int) -> Row:
    gc.collect()  # what was trained with is gone, and so are caches of before
    places.forget_peak(device)
    decoder = Decoder(model, preset, device, keys, settings.decode_rows)
    work, launched = (decoder.step, None) if device.type != "cuda" else decoder.captured(Graphs(device))
    seconds = decoder.seconds(1, work)
    if settings.decode_steps > 1:
        seconds = decoder.seconds(_times(settings.decode_steps, seconds), work)
    return {"rate": settings.decode_rows / seconds, "launched": launched, "peak": places.peak_bytes(device)}


def one_round(label: str, preset: Preset, settings: Settings, device: torch.device) -> Row:
    """Tokens per second: `training`, and by the number of keys; words where the library refuses, where a step is launched instead of replayed, and of the
    kernels that attention takes in training."""
    before = places.used_bytes(device)
    model = begun("rotary" if label == AGAIN else label, 0, preset.shape, VOCABULARY).to(device)
    found: Row = {**_training(model, preset, settings, device), "decoding": {}, "launched": {}, "refused": {}}
    peak, waits = found.pop("peak"), found.pop("not_captured")
    if device.type == "cuda":
        found |= {"own_bytes": peak - before, "decoding_bytes": {}, "launched": {} if waits is None else {"training": waits}}
    for keys in settings.keys:
        try:
            one = _decoding(model, preset, settings, device, keys)
        except REFUSED as error:
            found["refused"][str(keys)] = str(error).splitlines()[0]
            continue
        found["decoding"][str(keys)] = one["rate"]
        if device.type == "cuda":
            found["decoding_bytes"][str(keys)] = one["peak"] - before
        if one["launched"] is not None:
            found["launched"][str(keys)] = one["launched"]
    return found | {"attention_path": attention_path(model, preset, device)}


def machine() -> str:
    """In words: the processor as it names itself, and how many of its cores there are."""
    cores, name = len(os.sched_getaffinity(0)), platform.processor() or platform.machine()
    if shutil.which("lscpu"):  # it knows names that an ARM processor has as numbers alone
        told = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}).stdout
        name = next((line.split(":", 1)[1].strip() for line in told.splitlines() if line.startswith("Model name:")), name)
    return f"{cores} cores, {name} ({platform.machine()})"


def head(what: str, preset: Preset, device: torch.device, words: str | None) -> tuple[Row, Preset]:
    """What every file of prices begins with, and the preset in the device's arithmetic: a CPU computes in float32, on all its cores."""
    found: Row = {"schema": SCHEMA, "kind": what, "commit": results.commit(), "versions": results.versions()}
    if device.type == "cuda":
        return found | {"machine": words or places.device_name(device), "dtype": preset.dtype}, preset
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    phasor.set_num_threads(threads)
    return found | {"machine": words or machine(), "threads": threads, "kernels": phasor.active_target()}, replace(preset, dtype="float32")


def measured(preset: Preset, settings: Settings, device: torch.device, only: Sequence[str] | None = None, words: str | None = None) -> Row:
    """The whole of it, as it is kept. `attention_path` is of these very kernels: results of trainings have their own, of older ones."""
    begins, preset = head(f"cost on a {kind(device)}", replace(preset, rows=settings.rows), device, words)
    begin, paths = time.monotonic(), {}
    found = _rounds(preset, settings, device, [*(TRAINED if only is None else only), AGAIN])
    for label, own in found.items():
        paths[label] = [one.pop("attention_path") for one in own][0]
    rest = {"preset": preset.name, "shape": asdict(preset.shape), "settings": asdict(settings), "rounds": found}
    return begins | rest | {"attention_path": paths, "seconds": time.monotonic() - begin}


def _rounds(preset: Preset, settings: Settings, device: torch.device, labels: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {label: [] for label in labels}
    progress = Progress(settings.rounds * len(labels))
    for number in range(settings.rounds):
        for done, label in enumerate(order(labels, number)):
            taken = memory_on_a_cpu(label, preset, settings, torch.get_num_threads()) if number == 0 and device.type == "cpu" else {}
            found[label].append(one_round(label, preset, settings, device) | taken)
            gc.collect()  # a graph and its model go in a circle, and would count as the next one's memory
            progress.show(number * len(labels) + done + 1, f"{label}, round {number + 1}")
    progress.end()
    return found


def memory_on_a_cpu(label: str, preset: Preset, settings: Settings, threads: int) -> Row:
    """In a process of its own, so that nothing is in it that others left: what training takes over what was there before the model (`own_bytes`), and
    decoding by the number of keys (`decoding_bytes`: the model's numbers and the caches are in it). Nothing where nobody can tell."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(memory_here, label, preset, settings, threads).result()


def memory_here(label: str, preset: Preset, settings: Settings, threads: int) -> Row:
    """The same in this process. Decoding comes first: what training leaves behind is greater."""
    torch.set_num_threads(threads)
    phasor.set_num_threads(threads)
    places.forget_most_resident()
    before = places.resident()
    if before is None:
        return {}
    model = begun("rotary" if label == AGAIN else label, 0, preset.shape, VOCABULARY)
    decoding = {str(one): most - before for one in settings.keys if (most := _most_of_decoding(model, preset, settings, one)) is not None}
    places.forget_most_resident()
    trainer = Trainer(model, replace(Plan.of(preset), steps=MEMORY_STEPS), torch.device("cpu"))
    for _ in range(MEMORY_STEPS):
        trainer.step(torch.zeros(settings.rows, preset.shape.length + 1, dtype=torch.int64))
    return {"own_bytes": (places.most_resident() or before) - before, "decoding_bytes": decoding}


def _most_of_decoding(model: Model, preset: Preset, settings: Settings, keys: int) -> int | None:
    """None where the library refuses."""
    places.forget_most_resident()
    try:
        decoder = Decoder(model, preset, torch.device("cpu"), keys, settings.decode_rows)
        for _ in range(MEMORY_STEPS):
            decoder.step()
    except REFUSED:
        return None
    return places.most_resident()


def kind(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "CPU"


def file_name(device: torch.device) -> str:
    return f"{kind(device).lower()}.json"
