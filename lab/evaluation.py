# SPDX-License-Identifier: Apache-2.0
"""Loss of a trained model on long documents: by length, by position, on the last tokens; and on the generated language, whose floor is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from lab import device as places
from lab.data.store import Store
from lab.encodings import Encoding
from lab.model import LOGITS_AT_ONCE, Model
from lab.presets import LAST, SEARCHED_DOCUMENTS, Preset

Row = dict[str, Any]
TOKENS_AT_ONCE = 65536
BINS = 64
REFUSED = (ValueError, TypeError, NotImplementedError, torch.cuda.OutOfMemoryError)  # what says why a label cannot be measured


@dataclass
class Measured:
    """A model with its place and what is left out as too slow."""

    model: Model
    store: Store
    preset: Preset
    device: torch.device
    refused: list[Row] = field(default_factory=list)
    _pace: dict[str, tuple[int, float]] = field(default_factory=dict)  # by label: the last length, and seconds of a document there
    _spent: dict[tuple[str, str], float] = field(default_factory=dict)  # by section and label: seconds

    @torch.no_grad()
    def losses(self, tokens: np.ndarray, encoding: Encoding | None = None) -> np.ndarray:
        """Nats of every token but the first of each row, (N, T) for (N, T + 1)."""
        length = tokens.shape[1] - 1
        found = []
        self.model.eval()
        for some in torch.from_numpy(tokens).split(max(1, TOKENS_AT_ONCE // length)):
            some = some.to(self.device)
            with places.arithmetic(self.device, self.preset.dtype):
                hidden = self.model(some[:, :-1], encoding).flatten(0, 1)
                pieces = zip(hidden.split(LOGITS_AT_ONCE), some[:, 1:].flatten().split(LOGITS_AT_ONCE))
                losses = torch.cat([self.model.losses(*piece) for piece in pieces])
            found.append(losses.reshape(-1, length))
        return torch.cat(found).float().cpu().numpy()

    def documents(self, length: int) -> int:
        """How many of the store's are measured at a length: as many as the preset's tokens are, and no less than at the greatest length."""
        there = len(self.store.parts.held) - SEARCHED_DOCUMENTS
        least = self.preset.test_tokens // self.preset.length(max(self.preset.multiples))
        return max(1, min(there, self.preset.documents, max(least, self.preset.test_tokens // length)))

    def affordable(self, label: str, length: int, documents: int) -> None:
        """Refuses what would take longer than its cap, as the last length foretells: attention grows with the square. All documents or none: who is
        measured on fewer is not measured on the same text."""
        if label not in self._pace:
            return
        before, seconds = self._pace[label]
        needed, cap = documents * seconds * (length / before) ** 2, self.preset.caps.measuring
        if needed > cap:
            raise ValueError(f"time: {documents} documents of {length} tokens would take about {needed:.1f} s, the cap is {cap:g} s")

    def timed(self, label: str, length: int, documents: int, work: Callable[[], Any]) -> Any:
        """What `work` gives; its time is kept for the next length."""
        if label not in self._pace:
            work()  # the first call of a label loads its kernels
            places.waited(self.device)
        begin = time.monotonic()
        found = work()
        places.waited(self.device)
        self._pace[label] = (length, (time.monotonic() - begin) / documents)
        return found

    def tried(self, section: str, label: str, length: int, work: Callable[[], Row]) -> list[Row]:
        """A row, or none and the reason among what was refused."""
        spent, cap, begin = self._spent.get((section, label), 0.0), self.preset.caps.section, time.monotonic()
        try:
            if spent > cap:
                raise ValueError(f"time: {section} of this label took {spent:.0f} s, the cap is {cap:g} s")
            found = work()
            places.waited(self.device)
            self._spent[section, label] = spent + time.monotonic() - begin
            return [found]
        except REFUSED as error:
            row = {"label": label, "length": length, "message": str(error).splitlines()[0]}
            if row not in self.refused:
                self.refused.append(row)
            return []


def row_of(losses: np.ndarray) -> Row:
    """Of losses (N, T): the mean, the last tokens' mean, and that of each of 64 equal parts of the positions."""
    pieces = np.array_split(losses.astype(np.float64), min(BINS, losses.shape[1]), axis=1)
    return {
        "documents": len(losses),
        "loss": float(losses.mean(dtype=np.float64)),
        "last": float(losses[:, -LAST:].mean(dtype=np.float64)),
        "by_position": [round(float(piece.mean()), 5) for piece in pieces],
    }


def on_documents(of: Measured, label: str, multiple: float, make: Callable[[], Encoding | None], tuned: bool = False) -> list[Row]:
    """The row of a label at a length; `make` gives its encoding, None the model's own."""
    length = of.preset.length(multiple)

    def work() -> Row:
        count = of.documents(length)
        of.affordable(label, length, count)
        encoding = make()
        losses = of.timed(label, length, count, lambda: of.losses(of.store.long_documents(length, count), encoding))
        return {"label": label, "multiple": multiple, "length": length, "tuned": tuned, **row_of(losses)}

    return of.tried("measured", label, length, work)


def on_language(of: Measured, label: str, multiple: float, make: Callable[[], Encoding | None]) -> list[Row]:
    """Loss on the generated language, and what of it is over its floor, by part."""
    length, held = of.preset.length(multiple), of.store.parts.language_held
    if length >= held.shape[1]:
        return []

    def work() -> Row:
        count = min(len(held), max(1, of.preset.language_tokens // length))
        documents = of.store.language(length, count)
        losses = of.losses(documents.tokens, make())
        over, part = losses - documents.surprisal[:, 1:], documents.part[:, 1:]
        parts = {name: float(over[part == i].mean()) if (part == i).any() else None for i, name in enumerate(of.store.language_parts)}
        return {"label": label, "multiple": multiple, "length": length, "loss": float(losses.mean()), "over": float(over.mean()), "parts": parts}

    return of.tried("language", label, length, work)
