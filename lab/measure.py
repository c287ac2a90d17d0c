# SPDX-License-Identifier: Apache-2.0
"""One run: a model trained with one encoding from one seed, and the loss of all that can be made of it at every length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

import phasor
import phasor.search
from lab import corpus
from lab.encodings import EVOLVED, MAPS, SCALINGS, SEARCHED, TRAINED, Encoding, Mapped, Rotated, Shape, extended, longrope
from lab.model import Model

# Of the evolution of LongRoPE's factors: some 60 evaluations a length.
EVOLUTION = {"population": 16, "parents": 8, "mutations": 4, "crossovers": 4, "iterations": 6}
TEST_SEED, SEARCH_SEED, BINS_A_LENGTH = 1_000_001, 1_000_002, 2
Row = dict[str, Any]
Step = Callable[[], None]  # called once for every step of training


@dataclass(frozen=True)
class Settings:
    """What all runs share."""

    shape: Shape = field(default_factory=Shape)
    steps: int = 1200
    batch: int = 16
    rate: float = 5e-3
    warmup: int = 100
    multiples: tuple[float, ...] = (1, 1.5, 2, 8)
    test_tokens: int = 32768  # at every length

    def length(self, multiple: float) -> int:
        return round(self.shape.length * multiple)

    def test(self, multiple: float, seed: int = TEST_SEED, share: int = 1) -> corpus.Documents:
        """Documents that no training sees, the same for all; one token more than the length, as each predicts the next."""
        length = self.length(multiple)
        return corpus.documents(self.test_tokens // length // share, length + 1, (seed, length), near=self.shape.length)


def trained(name: str, seed: int, settings: Settings, step_done: Step) -> Model:
    """The same documents in the same order for every encoding of a seed."""
    torch.manual_seed(seed)
    shape = settings.shape
    model = Model(shape, corpus.VOCABULARY, Encoding())
    model.encoding = TRAINED[name](shape)  # after the rest, which so begins alike for all
    tokens = torch.from_numpy(corpus.documents(settings.steps * settings.batch, shape.length + 1, (seed,), shape.length).tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.01)
    for step, batch in enumerate(tokens.split(settings.batch)):
        falling = 0.05 + 0.95 * (1 + math.cos(math.pi * step / settings.steps)) / 2
        optimizer.param_groups[0]["lr"] = settings.rate * min(1, (step + 1) / settings.warmup) * falling
        optimizer.zero_grad()
        _losses(model, batch).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step_done()
    return model


def _losses(model: Model, tokens: Tensor, encoding: Encoding | None = None) -> Tensor:
    """Nats of every token but the first, (B, T - 1)."""
    return torch.nn.functional.cross_entropy(model(tokens[:, :-1], encoding).transpose(1, 2), tokens[:, 1:], reduction="none")


@torch.no_grad()
def _loss(model: Model, encoding: Encoding, documents: corpus.Documents) -> np.ndarray:
    rows = max(1, 4096 // documents.tokens.shape[1])
    return np.concatenate([_losses(model, part, encoding).numpy() for part in torch.from_numpy(documents.tokens).split(rows)])


def measured(model: Model, encoding: Encoding, documents: corpus.Documents, settings: Settings) -> Row:
    """Loss, what of it is over the floor, and where: by part of the language and by position. Or the library's words why not."""
    try:
        loss = _loss(model, encoding, documents)
    except ValueError as refused:
        return {"error": str(refused)}
    over, part = loss - documents.surprisal[:, 1:], documents.part[:, 1:]
    bins = max(1, over.shape[1] * BINS_A_LENGTH // settings.shape.length)
    return {
        "loss": float(loss.mean()),
        "over": float(over.mean()),
        "parts": {name: float(over[part == i].mean()) if (part == i).any() else None for i, name in enumerate(corpus.PARTS)},
        "by_position": [float(piece.mean()) for piece in np.array_split(over, bins, axis=1)],
    }


def _searched(model: Model, factor: float, settings: Settings) -> tuple[Encoding, int]:
    """LongRoPE's factors come from a search; ours is over how many pairs keep their speed, on documents apart from the test's."""
    shape = settings.shape
    apart = settings.test(factor, SEARCH_SEED, share=4)
    candidates = [Rotated(shape, longrope(kept, factor, shape)) for kept in range(shape.head_dim // 2 + 1)]
    kept = int(np.argmin([_loss(model, one, apart).mean() for one in candidates]))
    return candidates[kept], kept


def _evolved(model: Model, factor: float, settings: Settings) -> tuple[Encoding, list[float]]:
    """The paper's own search, small: a factor for each pair by evolution, on documents apart from the test's."""
    shape = settings.shape
    if factor == 1:  # the trained length: nothing to search for
        plain = longrope(shape.head_dim // 2, factor, shape)
        return Rotated(shape, plain), list(plain.long_factors)
    apart = settings.test(factor, SEARCH_SEED, share=4)

    def loss(spec: phasor.RotarySpec) -> float:
        return float(_loss(model, Rotated(shape, spec.scaling), apart).mean())

    found = phasor.search.longrope(loss, phasor.RotarySpec(shape.head_dim), factor, shape.length, **EVOLUTION).spec.scaling
    return Rotated(shape, found), list(found.long_factors)


def encodings_of(name: str) -> list[str]:
    """What one trained model is measured with: itself, and what needs no training of its own."""
    if name == "learned":
        return ["learned", "hierarchical"]
    return ["rotary", *(f"rotary, {how}" for how in (*SCALINGS, SEARCHED, EVOLVED, *MAPS))] if name == "rotary" else [name]


def _encoding(model: Model, label: str, multiple: float, settings: Settings) -> tuple[Encoding, Row]:
    if label == "hierarchical":
        return extended(model.encoding, settings.length(multiple)), {}
    how, shape = label.partition(", ")[2], settings.shape
    if not how:
        return model.encoding, {}
    if how == SEARCHED:
        found, kept = _searched(model, multiple, settings)
        return found, {"pairs_kept": kept}
    if how == EVOLVED:
        found, factors = _evolved(model, multiple, settings)
        return found, {"factors": factors}
    return Mapped(shape, MAPS[how](multiple, shape)) if how in MAPS else Rotated(shape, SCALINGS[how](multiple, shape)), {}


def run(name: str, seed: int, settings: Settings, step_done: Step = lambda: None) -> list[Row]:
    """A row for every encoding and length."""
    torch.set_num_threads(1)  # the same numbers whatever the cores, and a run a core
    model = trained(name, seed, settings, step_done)
    rows = []
    for multiple in settings.multiples:
        documents = settings.test(multiple)
        for label in encodings_of(name):
            encoding, notes = _encoding(model, label, multiple, settings)
            rows.append({"encoding": label, "seed": seed, "multiple": multiple, **notes, **measured(model, encoding, documents, settings)})
    return rows
