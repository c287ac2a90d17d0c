# SPDX-License-Identifier: Apache-2.0
"""Encodings that add a number to each score: ALiBi, T5, KERPLE, FIRE, Sandwich."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor
from lab.encodings.base import Encoding, PerLayer
from lab.presets import BIAS_RATE, FIRE_C, FIRE_EPSILON, FIRE_HIDDEN, T5_BUCKETS, Shape


class Fixed(Encoding):
    """A bias that learns nothing."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.spec = spec

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        return self.spec


class Bucketed(Encoding):
    """T5: one table for all layers. Its buckets end where training does, so that none is new beyond."""

    rate = BIAS_RATE

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(shape.heads, min(T5_BUCKETS, shape.length)))
        self.max_distance = shape.length

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        return phasor.T5(self.table, bidirectional=False, max_distance=self.max_distance)


class _Fire(torch.nn.Module):
    """FIRE of one layer: mlp(psi(distance) / psi(max(length, query position))), psi(x) = ln(c x + 1).

    Its threshold stays at the trained length (the paper lets it learn): so long as no query is beyond it, the bias is a function of the
    distance alone, which fast kernels have, with gradients. Beyond, the library's Fire computes it at every score.
    """

    def __init__(self, shape: Shape, hidden: int = FIRE_HIDDEN) -> None:
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(1, hidden), torch.nn.Linear(hidden, shape.heads)
        self.c = torch.nn.Parameter(torch.tensor(FIRE_C))
        self.length, self.epsilon = shape.length, FIRE_EPSILON

    def values(self, keys: int) -> Tensor:
        """(H, keys), the farthest first."""
        c = self.c.abs()
        distance = torch.arange(keys - 1, -1, -1, device=c.device, dtype=torch.float32)
        with torch.autocast(c.device.type, enabled=False):  # in float32, as the library's own
            at = torch.log1p(c * distance) / (torch.log1p(c * self.length) + self.epsilon)
            return self.out(torch.relu(self.hidden(at[:, None]))).T

    def forward(self, keys: int) -> Any:
        if keys <= self.length:
            return phasor.LearnedBias(self.values(keys).contiguous(), left=keys - 1, right=0)
        parts = (self.hidden.weight, self.hidden.bias, self.out.weight, self.out.bias)
        numbers = torch.cat([part.detach().reshape(-1) for part in parts]).double().cpu()
        mlp = phasor.Mlp(widths=(1, self.hidden.out_features, self.out.out_features), parameters=numbers.tolist())
        return phasor.Fire(mlp=mlp, c=abs(self.c.item()), length=float(self.length), epsilon=self.epsilon)


def alibi(shape: Shape) -> Encoding:
    return Fixed(phasor.Alibi())


def sandwich(shape: Shape) -> Encoding:
    return Fixed(phasor.Sandwich(heads=shape.heads))


def kerple(shape: Shape) -> Encoding:
    return _learning(PerLayer(shape.layers, lambda: phasor.nn.KerpleScheme(shape.heads)))


def fire(shape: Shape) -> Encoding:
    return _learning(PerLayer(shape.layers, lambda: _Fire(shape)))


def _learning(biases: Encoding) -> Encoding:
    biases.rate = BIAS_RATE
    return biases
