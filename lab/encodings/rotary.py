# SPDX-License-Identifier: Apache-2.0
"""Rotary encodings: queries and keys are rotated before attention, which then is plain. And xPos."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor
from lab.encodings.base import Encoding
from lab.presets import XPOS_GAMMA, Shape


class Rotated(Encoding):
    """Rotary encoding, scaled or not. Of each `one_in` layers the last does without, as Llama 4's of four. Fields are those of phasor.Rotary."""

    def __init__(self, shape: Shape, one_in: int = 0, first: int = 0, **fields: Any) -> None:
        super().__init__()
        self.module = phasor.nn.Rotary(shape.head_dim, **fields)
        self.one_in, self.first = one_in, first

    def rotates(self, layer: int) -> bool:
        return not self.one_in or (layer + 1) % self.one_in != 0

    def rotate(self, q: Tensor, k: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        return self.module(q, k, self.positions) if self.rotates(layer) else (q, k)

    def scale(self, layer: int, head_dim: int) -> float:
        return super().scale(layer, head_dim) * (self.module.rope.softmax_scale if self.rotates(layer) else 1.0)


class Xpos(Encoding):
    """Rotary with a decay: q times zeta^(position / base), k times zeta^(-position / base), base being the trained length.

    Positions are counted from the middle, which no product of q and k notices, so that powers stay far from the ends of what
    floating point holds. (phasor.Xpos does it inside attention at any position, by the general kernels.)
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.module, self.base = phasor.nn.Rotary(shape.head_dim), float(shape.length)
        pairs = shape.head_dim // 2
        zeta = (torch.arange(pairs, dtype=torch.float64) / pairs + XPOS_GAMMA) / (1 + XPOS_GAMMA)
        self.register_buffer("log_zeta", zeta.log().repeat(2), persistent=False)

    def gains(self, tokens: int, middle: float) -> Tensor:
        """(T, 1, D) in float32, of queries; those of keys are their reciprocals."""
        at = torch.arange(tokens, device=self.log_zeta.device, dtype=torch.float64) + self.first - middle
        return torch.exp(at[:, None] / self.base * self.log_zeta.double()).float()[:, None]

    def rotate(self, q: Tensor, k: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        gains = self.gains(q.shape[1], self.first + k.shape[1] / 2 if self.anchor is None else self.anchor)
        q, k = self.module(q, k, self.positions)
        return (q * gains).to(q.dtype), (k / gains).to(k.dtype)


def adjacent_rows(weight: Tensor, head_dim: int) -> Tensor:
    """Rows of q's or k's projection (heads x D, width), ordered so that rotating neighbours is what rotating halves was before."""
    halves = weight.unflatten(0, (-1, 2, head_dim // 2))  # (H, 2, D / 2, width)
    return halves.transpose(1, 2).flatten(0, 2)
