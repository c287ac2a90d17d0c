# SPDX-License-Identifier: Apache-2.0
"""One layer of a tiny model in float64, with all scores in memory: what every formula works on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """One layer of a tiny model: tokens (T, W), projections (W, W), and what the encoding has learned, by name."""

    x: Array
    wq: Array
    wk: Array
    wv: Array
    heads: int
    length: int  # of training
    layer: int
    learned: dict[str, Array]
    factor: float = 1.0  # of the length, for what is changed at evaluation
    factors: tuple[float, ...] = ()  # LongRoPE's

    @property
    def width(self) -> int:
        return self.wq.shape[0] // self.heads

    @property
    def away(self) -> Array:
        """Query minus key, (T, T)."""
        at = np.arange(len(self.x))
        return at[:, None] - at[None, :]

    def of(self, name: str) -> Array:
        """What the encoding has learned in this layer."""
        return self.learned[f"layers.{self.layer}.{name}"]

    def projected(self, weight: Array, x: Array | None = None) -> Array:
        """(T, H, D)."""
        x = self.x if x is None else x
        return (x @ weight.T).reshape(len(x), self.heads, -1)


def weighted(case: Case, scores: Array) -> Array:
    """Weights (H, T, T) of scores under a causal mask."""
    scores = np.where(case.away >= 0, scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def attended(case: Case, scores: Array, x: Array | None = None) -> Array:
    return np.einsum("hij,jhd->ihd", weighted(case, scores), case.projected(case.wv, x))


def products(case: Case, x: Array | None = None) -> Array:
    """q . k, (H, T, T)."""
    return np.einsum("ihd,jhd->hij", case.projected(case.wq, x), case.projected(case.wk, x))


def plain(case: Case, x: Array | None = None) -> Array:
    return attended(case, products(case, x) / math.sqrt(case.width), x)


def biased(case: Case, bias: Array) -> Array:
    return attended(case, products(case) / math.sqrt(case.width) + bias)
