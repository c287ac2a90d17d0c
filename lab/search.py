# SPDX-License-Identifier: Apache-2.0
"""LongRoPE's factors for one trained model and one length, by phasor.search, on documents apart from the test's."""

from __future__ import annotations

from typing import Any

import phasor
import phasor.search
from lab.encodings.rotary import Rotated
from lab.evaluation import Measured
from lab.presets import SEARCHED_DOCUMENTS

# A small evolution: the paper's has 64 individuals and 40 iterations.
EVOLUTION = {"population": 16, "parents": 8, "mutations": 4, "crossovers": 4, "iterations": 8}


def longrope(of: Measured, factor: float) -> Any:
    """The scaling with the least loss on the search's documents of `factor` times the trained length."""
    shape, length = of.preset.shape, of.preset.length(factor)
    apart = of.store.long_documents(length, len(of.store.parts.held))[-SEARCHED_DOCUMENTS:]
    apart = apart[: max(1, min(SEARCHED_DOCUMENTS, of.preset.changes.search_tokens // length))]

    def loss(spec: phasor.RotarySpec) -> float:
        return float(of.losses(apart, Rotated(shape, scaling=spec.scaling)).mean())

    found = phasor.search.longrope(
        loss, phasor.RotarySpec(shape.head_dim), factor, shape.length, evaluations=of.preset.changes.evaluations, **EVOLUTION
    )
    return found.spec.scaling
