# SPDX-License-Identifier: Apache-2.0
"""Every way of telling positions as one small object: what it does to the tokens, to queries and keys, and to the scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import phasor


@dataclass(frozen=True)
class Shape:
    """Of the model: what encodings need to know. `length` is that of training."""

    width: int = 64
    heads: int = 4
    layers: int = 2
    length: int = 64

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


class Encoding(torch.nn.Module):
    """No encoding at all; the others change what they need to."""

    def add(self, x: Tensor) -> Tensor:
        """Tokens (B, T, width) before the first layer."""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, T, H, D) of any layer."""
        return q, k

    def scheme(self, layer: int) -> Any:
        """What phasor.attention gets."""
        return None

    @property
    def softmax_scale(self) -> float:
        """A factor on the attention's own scale."""
        return 1.0


class Added(Encoding):
    """A module that adds to the tokens."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def add(self, x: Tensor) -> Tensor:
        return self.module(x)


class Rotated(Encoding):
    """Rotary encoding, scaled or not."""

    def __init__(self, shape: Shape, scaling: Any = None) -> None:
        super().__init__()
        self.module = phasor.nn.Rotary(shape.head_dim, scaling=scaling)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.module(q, k)

    @property
    def softmax_scale(self) -> float:
        return self.module.rope.softmax_scale


class Mapped(Encoding):
    """Rotary encoding inside attention, at distances that a map shows instead of the true ones."""

    def __init__(self, shape: Shape, map: Any) -> None:
        super().__init__()
        self.rope = phasor.Rope(phasor.Rotary(shape.head_dim), map=map)

    def scheme(self, layer: int) -> Any:
        return self.rope


class Biased(Encoding):
    """ALiBi, with the slopes of its paper."""

    def scheme(self, layer: int) -> Any:
        return phasor.Alibi()


class Bucketed(Encoding):
    """T5: one table for all layers. Its buckets end where training does, so that none is new beyond."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(shape.heads, min(32, shape.length)))
        self.max_distance = shape.length

    def scheme(self, layer: int) -> Any:
        return phasor.T5(self.table, bidirectional=False, max_distance=self.max_distance)


class Clipped(Encoding):
    """Shaw: vectors for keys and values by distance, the same beyond 16, tables of its own in every layer."""

    def __init__(self, shape: Shape, clip: int = 16) -> None:
        super().__init__()
        self.clip = clip
        self.keys = torch.nn.Parameter(torch.randn(shape.layers, clip + 1, shape.head_dim) * 0.02)
        self.values = torch.nn.Parameter(torch.randn(shape.layers, clip + 1, shape.head_dim) * 0.02)

    def scheme(self, layer: int) -> Any:
        return phasor.Shaw(self.keys[layer], self.values[layer], left=self.clip, right=0)


TRAINED: dict[str, Callable[[Shape], Encoding]] = {
    "none": lambda shape: Encoding(),
    "sinusoidal": lambda shape: Added(phasor.nn.Sinusoidal(shape.width)),
    "learned": lambda shape: Added(phasor.nn.Learned(shape.length, shape.width)),
    "shaw": Clipped,
    "t5": Bucketed,
    "alibi": lambda shape: Biased(),
    "rotary": Rotated,
}

# What a trained rotary model is given for documents of `factor` times its length, without further training.
SCALINGS: dict[str, Callable[[float, Shape], Any]] = {
    "linear": lambda factor, shape: phasor.LinearScaling(factor),
    "ntk": lambda factor, shape: phasor.NtkScaling(factor),
    "ntk dynamic": lambda factor, shape: phasor.DynamicNtkScaling(2, shape.length, round(factor * shape.length)),
    "ntk fixed": lambda factor, shape: phasor.NtkMixedScaling(factor),
    "ntk mixed": lambda factor, shape: phasor.NtkMixedScaling(factor, mixed_exponent=0.625),
    "yarn": lambda factor, shape: phasor.YarnScaling(factor, shape.length),
    "llama3": lambda factor, shape: phasor.Llama3Scaling(factor, original_length=shape.length),
}
SEARCHED, EVOLVED = "longrope", "longrope evolved"


def _squeeze(factor: float) -> float:
    """By how much distances over half the trained length go into the other half."""
    return 2 * factor - 1


MAPS: dict[str, Callable[[float, Shape], Any]] = {
    "rerope": lambda factor, shape: phasor.positions.ReRope(shape.length // 2),
    "leaky rerope": lambda factor, shape: phasor.positions.LeakyReRope(shape.length // 2, _squeeze(factor)),
    "self-extend": lambda factor, shape: phasor.positions.SelfExtend(shape.length // 2, math.ceil(_squeeze(factor))),
    "dual chunk": lambda factor, shape: phasor.positions.DualChunk(shape.length, shape.length // 4),
}


def longrope(kept: int, factor: float, shape: Shape) -> phasor.LongRopeScaling:
    """The `kept` fastest pairs turn as they did, the others `factor` times slower."""
    pairs = shape.head_dim // 2
    return phasor.LongRopeScaling(
        short_factors=(1.0,) * pairs,
        long_factors=(1.0,) * kept + (factor,) * (pairs - kept),
        original_length=shape.length,
        factor=factor,
        length=round(factor * shape.length),
    )


def extended(encoding: Added, length: int) -> Encoding:
    """A learned table, longer by Su's hierarchical decomposition. Its own rows stay, bit for bit: training it is training the table."""
    return Added(phasor.nn.Learned.from_table(encoding.module.weight, length=length))
