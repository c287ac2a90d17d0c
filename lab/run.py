# SPDX-License-Identifier: Apache-2.0
"""One run: a model trained with one encoding from one seed, and all that is measured of it, as one result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lab import device as places
from lab import results
from lab.batches import Batches, Windows
from lab.changes import measured_changes, measured_tuned
from lab.cost import attention_path
from lab.encodings import Encoding
from lab.encodings.additive import hierarchical
from lab.evaluation import Measured, on_documents, on_language
from lab.identity import check
from lab.model import Model, begun
from lab.numerics import on_profiles
from lab.presets import Preset
from lab.retrieval import on_tasks
from lab.training.checkpoint import Checkpoint
from lab.training.step import Plan
from lab.training.trainer import TooSlow, Trainer, trained

Told = Callable[[str, float], None]  # what is done now, and the share of the run that is done before it
TRAINING = 0.6  # of a run's time, for the progress bar


@dataclass
class Lab:
    """What all runs of a process share."""

    preset: Preset
    batches: Batches
    device: torch.device
    checkpoints: Path | None = None
    checkpoint_steps: int = 0
    eager: bool = False  # steps launched piece by piece, where they could be captured
    lanes: int = 1  # so many runs share the device: times of this one are not its own

    def checkpoint(self, encoding: str, seed: int) -> Checkpoint | None:
        if self.checkpoints is None:
            return None
        # Who began by graphs does not go on without, nor the other way round: whatever a GPU's libraries do, a resumed run has the bits of a whole one.
        key = [results.deciding(results.settings_of(self.preset)), self.batches.source.store.hash, encoding, seed, "eager" if self.eager else "captured"]
        return Checkpoint(self.checkpoints / f"{self.preset.name}-{encoding.replace(' ', '-')}-{seed}.pt", repr(key), steps=self.checkpoint_steps)


def run(lab: Lab, encoding: str, seed: int, told: Told = lambda what, share: None) -> dict[str, Any]:
    """The result of a run; a training that is too slow gives one that says so."""
    check(encoding)
    begin, preset, store = time.monotonic(), lab.preset, lab.batches.source.store
    result: dict[str, Any] = {
        "schema": results.SCHEMA,
        "preset": preset.name,
        "encoding": encoding,
        "seed": seed,
        "commit": results.commit(),
        "data": store.hash,
        "settings": results.settings_of(preset),
        "versions": results.versions(),
        "device": places.device_name(lab.device),
        "lanes": lab.lanes,
    }
    model = begun(encoding, seed, preset.shape, store.vocabulary).to(lab.device)
    result["parameters"] = sum(one.numel() for one in model.parameters())
    windows = lab.batches.of(Windows(seed, 0, preset.steps, preset.rows, preset.shape.length))
    checkpoint = lab.checkpoint(encoding, seed)
    empty: dict[str, Any] = {"trained": None, "measured": [], "language": [], "retrieval": [], "numerics": [], "cost": {}}
    try:
        shown = lambda done: told("trains", TRAINING * done / preset.steps)  # noqa: E731
        result["trained"] = trained(Trainer(model, Plan.of(preset), lab.device, lab.eager), windows, checkpoint, shown)
    except TooSlow as slow:
        path = {"attention_path": attention_path(model, preset, lab.device)}
        refused = [{"label": encoding, "length": preset.shape.length, "message": str(slow)}]
        return {**result, **empty, "cost": path, "refused": refused, "seconds": time.monotonic() - begin}
    result |= {**empty, "trained": result["trained"], **measured(lab, model, encoding, seed, told)}
    if checkpoint is not None:
        checkpoint.remove()
    return results.finite({**result, "seconds": time.monotonic() - begin})


def measured(lab: Lab, model: Model, encoding: str, seed: int, told: Told) -> dict[str, Any]:
    """All rows of a trained model."""
    of = Measured(model, lab.batches.source.store, lab.preset, lab.device)
    rows = _own(of, encoding, lambda multiple: None, lambda what: told(what, TRAINING))
    if encoding == "learned":
        longer = _own(of, "hierarchical", lambda multiple: hierarchical(model.encoding, lab.preset.length(multiple)), lambda what: told(what, 0.8))
        rows = {name: rows[name] + longer[name] for name in rows}
    if encoding == "rotary":
        changes = measured_changes(of, lambda what: told(what, 0.8))
        changed = changes.pop("scalings")
        rows = {name: rows[name] + changes.pop(name) for name in rows} | changes
        rows["measured"] += measured_tuned(of, changed, lab.batches, seed, lambda what: told(what, 0.9), lab.eager)
        told("numerics", 0.95)
        rows["numerics"] = on_profiles(of)
    return {**rows, "cost": {"attention_path": attention_path(model, lab.preset, lab.device)}, "refused": of.refused}


def _own(of: Measured, label: str, make: Callable[[float], Encoding | None], told: Callable[[str], None]) -> dict[str, Any]:
    """Rows of one label at every length."""
    rows: dict[str, Any] = {"measured": [], "language": [], "retrieval": []}
    for multiple in of.preset.multiples:
        told(f"{label} at {multiple:g}x")
        rows["measured"] += on_documents(of, label, multiple, lambda: make(multiple))
        rows["language"] += on_language(of, label, multiple, lambda: make(multiple))
    settings = of.preset.retrieval
    told(f"{label}, retrieval")
    rows["retrieval"] = on_tasks(of, label, make, settings.multiples, settings.shares)
    return rows
