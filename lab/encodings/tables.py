# SPDX-License-Identifier: Apache-2.0
"""Encodings whose tables meet queries, keys or values: Shaw, Transformer-XL, DeBERTa, CoPE. Tables have the dtype of q, which fast kernels want."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor
from lab.encodings.base import Encoding, PerLayer
from lab.presets import COPE_POSITIONS, DEBERTA_BUCKETS, SHAW_CLIP, Shape


class Shaw(Encoding):
    """Vectors for keys (and values) by distance, the same beyond `clip`, tables of its own in every layer."""

    def __init__(self, shape: Shape, values: bool, clip: int = SHAW_CLIP) -> None:
        super().__init__()
        self.clip = clip
        self.keys = torch.nn.Parameter(torch.randn(shape.layers, clip + 1, shape.head_dim) * 0.02)
        self.values = torch.nn.Parameter(torch.randn(shape.layers, clip + 1, shape.head_dim) * 0.02) if values else None

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        values = None if self.values is None else self.values[layer].to(q.dtype)
        return phasor.Shaw(self.keys[layer].to(q.dtype), values, left=self.clip, right=0)


class TransformerXL(PerLayer):
    """Projected sinusoids of distances, u and v of its own in every layer. Under a causal mask there are no distances below 0."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.layers, lambda: phasor.nn.TransformerXLScheme(shape.heads, shape.head_dim))

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        module = self.layers[layer]
        return phasor.TransformerXL(module.rows(1, keys).to(q.dtype), keys - 1, module.u, module.v)


class Deberta(PerLayer):
    """c2p and p2c, by log buckets that end where training does."""

    def __init__(self, shape: Shape) -> None:
        buckets = min(DEBERTA_BUCKETS, shape.length // 2)
        super().__init__(
            shape.layers, lambda: phasor.nn.DebertaScheme(shape.heads, shape.head_dim, buckets=buckets, max_distance=shape.length)
        )

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        found = self.layers[layer]()
        return phasor.Deberta(found.keys.to(q.dtype), found.queries.to(q.dtype), found.buckets, found.max_distance)

    def scale(self, layer: int, head_dim: int) -> float:
        return self.layers[layer].scale


class Cope(Encoding):
    """Contextual positions: at most so many of them, as in its paper's language models."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(shape.layers, min(COPE_POSITIONS, shape.length), shape.head_dim) * 0.02)

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        return phasor.Cope(self.table[layer].to(q.dtype), gate_scale=q.shape[-1] ** -0.5)
