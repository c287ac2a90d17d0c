# SPDX-License-Identifier: Apache-2.0
"""All that a trained rotary model is measured with besides itself: scalings, maps, searched factors, and short fine-tunes at the new length."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lab.batches import TUNE_STEP, Batches, Windows
from lab.encodings import Encoding
from lab.encodings.changed import LONGROPE, MAPS, SCALINGS, TUNED, rotary_changed
from lab.encodings.rotary import Rotated
from lab.evaluation import Measured, Row, on_documents, on_language
from lab.presets import TUNE_SLOWER
from lab.retrieval import on_tasks
from lab.search import longrope
from lab.training.step import Plan
from lab.training.trainer import Trainer, trained

TASK_MULTIPLES, TASK_SHARES = (4, 16), (0.5,)  # of labels that are no training of their own


class Changed:
    """Encodings by name and multiple; searched factors are found once a length."""

    def __init__(self, of: Measured) -> None:
        self.of = of
        self._searched: dict[float, Any] = {}

    def scaling(self, how: str, multiple: float) -> Any:
        if how != LONGROPE:
            return SCALINGS[how](multiple, self.of.preset.shape)
        if multiple not in self._searched:
            self._searched[multiple] = longrope(self.of, multiple)
        return self._searched[multiple]

    def made(self, how: str, multiple: float) -> Encoding:
        if how in MAPS:
            return rotary_changed(how, multiple, self.of.preset.shape)
        return Rotated(self.of.preset.shape, scaling=self.scaling(how, multiple))

    def factors(self) -> dict[str, list[float]]:
        return {f"{multiple:g}": list(one.long_factors) for multiple, one in self._searched.items()}


def measured_changes(of: Measured, step_done: Callable[[str], None]) -> dict[str, Any]:
    """Rows of `measured`, `language` and `retrieval` for every change, and the factors that were found."""
    changed, multiples = Changed(of), of.preset.changes.multiples
    rows: dict[str, Any] = {"measured": [], "language": [], "retrieval": []}
    for how in (*SCALINGS, LONGROPE, *MAPS):
        label = f"rotary, {how}"
        step_done(label)
        for multiple in ((1, *multiples) if how in MAPS else multiples):
            rows["measured"] += on_documents(of, label, multiple, lambda: changed.made(how, multiple))
            rows["language"] += on_language(of, label, multiple, lambda: changed.made(how, multiple))
        tasks = tuple(one for one in TASK_MULTIPLES if one in multiples)
        rows["retrieval"] += on_tasks(of, label, lambda multiple: changed.made(how, multiple), tasks, TASK_SHARES)
    return {**rows, "longrope_factors": changed.factors(), "scalings": changed}


def measured_tuned(of: Measured, changed: Changed, batches: Batches, seed: int, step_done: Callable[[str], None], eager: bool = False) -> list[Row]:
    """Rows after a short fine-tune at some times the length, with the scaling for it, as the papers do."""
    settings, preset = of.preset.changes, of.preset
    rows: list[Row] = []
    windows = Windows(seed, TUNE_STEP, settings.tune_steps, max(1, preset.rows // settings.tune_factor), preset.length(settings.tune_factor))
    for how in TUNED:
        label = f"rotary, {how}"
        step_done(f"{label}, tuned")
        model = copy.deepcopy(of.model)
        model.encoding = Rotated(preset.shape, scaling=changed.scaling(how, settings.tune_factor))
        plan = Plan(settings.tune_steps, preset.rate / TUNE_SLOWER, max(1, settings.tune_steps // 10), preset.decay, preset.dtype, preset.caps.training)
        trained(Trainer(model, plan, of.device, eager), batches.of(windows))
        after = Measured(model, of.store, preset, of.device, of.refused)
        for multiple in settings.tune_multiples:
            rows += on_documents(after, label, multiple, lambda: None, tuned=True)
    return rows
