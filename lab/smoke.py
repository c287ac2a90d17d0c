# SPDX-License-Identifier: Apache-2.0
"""A first look at a GPU: some steps of every encoding, as graphs and launched, one evaluation as in training and one far beyond, and every change of
rotary; times and kernels of each. What fails is reported and does not stop the rest."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from lab import device as places
from lab.batches import Batches, Windows
from lab.changes import Changed
from lab.cost import Decoder, attention_path
from lab.data.store import Store
from lab.encodings import TRAINED
from lab.encodings.additive import hierarchical
from lab.encodings.changed import MAPS, SCALINGS
from lab.evaluation import Measured
from lab.identity import check
from lab.model import Model, begun
from lab.presets import Preset
from lab.progress import Progress
from lab.queue import WEIGHT, named
from lab.training.step import Plan
from lab.training.trainer import Trainer

STEPS, UNTIMED = 15, 5
FAR, DOCUMENTS = 16, 2  # times the trained length
DECODED = 8192  # keys in the caches
MOST_SECONDS = 6.0  # of the steps of one encoding
APART = 0.005  # nats: other roundings do less in so few steps, a batch or a rate that stands still does more


def _steps(model: Model, preset: Preset, device: torch.device, windows: Any, eager: bool = False) -> dict[str, Any]:
    """Seconds of a step; a slow encoding takes fewer of them."""
    trainer = Trainer(model, Plan.of(preset), device, eager)
    begin = since = time.monotonic()
    done = 0
    for step in range(min(STEPS, len(windows))):
        trainer.step(windows[step])
        if step + 1 == UNTIMED or time.monotonic() - begin > MOST_SECONDS / 2:
            places.waited(device)
            if time.monotonic() - begin > MOST_SECONDS:
                break
        if step + 1 == UNTIMED:
            since, done = time.monotonic(), step + 1
    places.waited(device)
    steps = trainer.done - done
    seconds = (time.monotonic() - since) / max(1, steps)
    losses = trainer.losses[: trainer.done].tolist()
    return {"a_step": seconds, "losses": losses, "not_captured": trainer.not_captured}


def compared(replayed: dict[str, Any], launched: dict[str, Any]) -> str:
    """What replaying a step gives beside launching it, in words; refused where they are not the same training."""
    if replayed["not_captured"] is not None:
        return f"NOT CAPTURED: {replayed['not_captured']}"
    each = [abs(one - other) for one, other in zip(replayed["losses"], launched["losses"])]
    if not all(one <= APART for one in each):  # one that is no number is not
        raise RuntimeError(f"losses of captured steps are {each} nats from those of launched ones, wanted the same bits, or {APART} at most")
    apart = max(each)
    return f"captured ({1e3 * launched['a_step']:.2f} ms launched; {'the same bits' if apart == 0 else f'{apart:.2g} nats apart'})"


def _how(name: str, preset: Preset, store: Store, device: torch.device, windows: Any, found: dict[str, Any]) -> str:
    if device.type != "cuda":
        return f"not captured: {found['not_captured']}"
    return compared(found, _steps(begun(name, 0, preset.shape, store.vocabulary).to(device), preset, device, windows, eager=True))


def _timed(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    places.waited(device)
    begin = time.monotonic()
    found = work()
    places.waited(device)
    return found, time.monotonic() - begin


def _evaluated(of: Measured, label: str, length: int, encoding: Any, told: list[str]) -> None:
    try:
        documents = of.store.long_documents(length, DOCUMENTS)
        of.losses(documents[:1], encoding)
        losses, seconds = _timed(lambda: of.losses(documents, encoding), of.device)
        told.append(f"{length}: {losses.mean():.3f} in {1e3 * seconds / DOCUMENTS:.1f} ms/doc")
    except Exception as error:
        told.append(f"{length}: REFUSED {type(error).__name__}: {str(error).splitlines()[0][:160]}")


def _one(name: str, preset: Preset, store: Store, device: torch.device, windows: Any, progress: Progress) -> Measured:
    check(name)
    model = begun(name, 0, preset.shape, store.vocabulary).to(device)
    places.forget_peak(device)
    found = _steps(model, preset, device, windows)
    rate = preset.tokens_a_step / found["a_step"]
    peak = (places.peak_bytes(device) or 0) / 2**30
    how, losses = _how(name, preset, store, device, windows, found), found["losses"]
    of, told = Measured(model, store, preset, device), []
    for length in (preset.shape.length, preset.length(FAR)):
        _evaluated(of, name, min(length, store.parts.held.shape[1] - 1), None, told)
    try:
        told.append(f"decode at {DECODED}: {1e3 * Decoder(model, preset, device, DECODED, 8).seconds(4):.2f} ms")
    except Exception as error:
        told.append(f"decode: REFUSED {type(error).__name__}: {str(error).splitlines()[0][:160]}")
    progress.clear()
    print(
        f"{name:20} {1e3 * found['a_step']:8.2f} ms/step {rate:9.0f} tokens/s {peak:5.1f} GiB  loss {losses[0]:.3f} -> {losses[-1]:.3f} "
        f"({len(losses)} steps)  {how}; {'; '.join(told)}\n{'':20} {attention_path(model, preset, device)}",
        flush=True,
    )
    return of


def _rotary_changes(of: Measured) -> None:
    changed, multiple = Changed(of), float(FAR)
    length = min(of.preset.length(multiple), of.store.parts.held.shape[1] - 1)
    for how in (*SCALINGS, *MAPS):
        told: list[str] = []
        _evaluated(of, how, length, changed.made(how, multiple), told)
        print(f"  rotary, {how:14} {told[0]}", flush=True)
    try:
        found, seconds = _timed(lambda: changed.made("longrope", 4.0), of.device)
        print(f"  rotary, longrope       search at 4x: {seconds:.2f} s, {of.preset.changes.evaluations} evaluations", flush=True)
    except Exception:
        traceback.print_exc()


def smoke(preset: Preset, batches: Batches, device: torch.device, only: list[str] | None = None) -> list[str]:
    """Every encoding; the names of those that failed."""
    store = batches.source.store
    windows, seconds = _timed(lambda: batches.of(Windows(0, 0, STEPS, preset.rows, preset.shape.length)), device)
    print(f"lab smoke: {places.device_name(device)}, {preset.name}, vocabulary {store.vocabulary}, data {store.hash[:12]}, batches {seconds:.1f} s", flush=True)
    failed, names, done = [], named(only) if only else list(TRAINED), 0.0
    progress = Progress(sum(WEIGHT.get(name, 1.0) for name in names))
    for name in names:
        progress.show(done, name)
        done += WEIGHT.get(name, 1.0)
        begin = time.monotonic()
        try:
            of = _one(name, preset, store, device, windows, progress)
            if name == "rotary":
                _rotary_changes(of)
            if name == "learned":
                told: list[str] = []
                length = min(preset.length(FAR), store.parts.held.shape[1] - 1)
                _evaluated(of, "hierarchical", length, hierarchical(of.model.encoding, length), told)
                print(f"  hierarchical           {told[0]}", flush=True)
        except Exception:
            failed.append(name)
            progress.clear()
            print(f"{name:20} FAILED after {time.monotonic() - begin:.1f} s\n{traceback.format_exc()}", flush=True)
    progress.show(progress.total, f"{len(names)} encodings")
    progress.end()
    return failed


def profiled(preset: Preset, batches: Batches, device: torch.device, name: str = "rotary") -> str:
    """Where the time of some steps goes, by PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    model = begun(name, 0, preset.shape, batches.source.store.vocabulary).to(device)
    trainer = Trainer(model, Plan.of(preset), device, eager=True)  # each launch with its operator
    windows = batches.of(Windows(0, 0, STEPS, preset.rows, preset.shape.length))
    for step in range(UNTIMED):
        trainer.step(windows[step])
    places.waited(device)
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    with profile(activities=kinds) as found:
        for step in range(UNTIMED, UNTIMED + 3):
            trainer.step(windows[step])
        places.waited(device)
    order = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
    return str(found.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=70))
