# SPDX-License-Identifier: Apache-2.0
"""Rotary encoding at distances that a map shows instead of the true ones: ReRoPE, leaky ReRoPE, Self-Extend, dual chunk attention.

phasor.Rope(rotary, map=...) does this inside one call of attention, by the general kernels. Here it is done as engines do it: queries and keys are
rotated for each pass of the map (phasor.positions), each pass is a plain call of attention, and merge_attention makes them one. So 32768 tokens take
milliseconds on a GPU; tests hold both ways against each other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor
from lab.encodings.base import Encoding
from lab.presets import Shape

Part = tuple[Tensor, Tensor]  # outputs and lse


class Mapped(Encoding):
    """Two passes: near keys at their own distances, far ones at those of the map."""

    def __init__(self, shape: Shape, map: Any) -> None:
        super().__init__()
        self.module, self.map = phasor.nn.Rotary(shape.head_dim), map
        self._positions: dict[Any, Tensor] = {}  # by pass, side, number of tokens and device

    def turned(self, x: Tensor, pass_: int, side: str) -> Tensor:
        """x rotated for a pass."""
        key = (pass_, side, x.shape[1], x.device)
        if key not in self._positions:
            at = phasor.positions.pass_positions(self.map, pass_, side, range(x.shape[1]))
            self._positions[key] = torch.from_numpy(at).to(x.device)
        return self.module(x, None, self._positions[key])

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        window, tokens = self.map.window, q.shape[1]
        near = self._part(self.turned(q, 0, "queries"), self.turned(k, 0, "keys"), v, causal=True, window=window - 1)
        if tokens <= window:
            return near[0]
        # A query sees far keys from `window` behind it on: causal attention of queries that lack the first `window` and keys that lack the last.
        behind = tokens - window
        far_q, far_k = self.turned(q, 1, "queries")[:, window:], self.turned(k, 1, "keys")[:, :behind]
        far = self._part(far_q, far_k, v[:, :behind], causal=True)
        merged, _ = phasor.merge_attention([(near[0][:, window:].contiguous(), near[1][:, window:].contiguous()), far])
        return torch.cat([near[0][:, :window], merged], dim=1)

    @staticmethod
    def _part(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Part:
        return phasor.attention(q, k, v, return_lse=True, **options)


class DualChunked(Mapped):
    """Three passes: a query's own chunk, the one before it, all chunks before that."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        size, tokens = self.map.chunk - self.map.local, q.shape[1]
        queries = [self.turned(q, pass_, "queries") for pass_ in range(3)]
        keys = self.turned(k, 0, "keys")  # alike in all passes
        out = []
        for begin in range(0, tokens, size):
            own, before = slice(begin, min(begin + size, tokens)), slice(max(0, begin - size), begin)
            parts = [self._part(queries[0][:, own], keys[:, own], v[:, own], causal=True)]
            if begin >= size:
                parts.append(self._part(queries[1][:, own], keys[:, before], v[:, before]))
            if begin >= 2 * size:
                far = slice(0, begin - size)
                parts.append(self._part(queries[2][:, own], keys[:, far], v[:, far]))
            out.append(phasor.merge_attention(parts)[0] if len(parts) > 1 else parts[0][0])
        return torch.cat(out, dim=1)
