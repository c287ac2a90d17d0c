# SPDX-License-Identifier: Apache-2.0
"""Attention with a scheme in plain PyTorch, by the formulas of the papers and with all scores in memory: what the lab is checked against."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import phasor


def _alibi_slopes(heads: int) -> Tensor:
    """Of a power of two of heads: 2^(-8/H), 2^(-16/H), ..."""
    return torch.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)])


def _t5_bucket(distance: int, buckets: int, max_distance: int) -> int:
    """Of a key at or behind its query: half of the buckets for a distance each, the others in equal ratios."""
    exact = buckets // 2
    if distance < exact:
        return distance
    ratio = math.log(distance / exact) / math.log(max_distance / exact)
    return min(exact + int(ratio * (buckets - exact)), buckets - 1)


def _shaw_rows(tokens: int, scheme: phasor.Shaw) -> Tensor:
    """The row of every query and key, (T, T): by key - query, clipped."""
    at = torch.arange(tokens)
    return (at[None, :] - at[:, None]).clamp(-scheme.left, scheme.right) + scheme.left


def attention(q: Tensor, k: Tensor, v: Tensor, scheme: Any = None, causal: bool = False, scale: float | None = None) -> Tensor:
    """(B, T, H, D) in and out; every scheme is for keys at or behind their queries."""
    tokens, heads, width = q.shape[1:]
    scale = 1 / math.sqrt(width) if scale is None else scale
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    at = torch.arange(tokens)
    if isinstance(scheme, phasor.Alibi):
        scores = scores - _alibi_slopes(heads)[:, None, None] * (at[:, None] - at[None, :])
    elif isinstance(scheme, phasor.T5):
        assert not scheme.bidirectional
        buckets = scheme.table.shape[1]
        of = torch.tensor([_t5_bucket(distance, buckets, scheme.max_distance) for distance in range(tokens)])
        scores = scores + scheme.table[:, of[(at[:, None] - at[None, :]).clamp(min=0)]]
    elif isinstance(scheme, phasor.Shaw):
        rows = _shaw_rows(tokens, scheme)
        scores = scores + torch.gather(torch.einsum("bihd,rd->bhir", q, scheme.keys), 3, rows.expand(*scores.shape)) * scale
    if causal:
        scores = scores.masked_fill(at[None, :] > at[:, None], -math.inf)
    weights = scores.softmax(dim=-1)
    out = torch.einsum("bhij,bjhd->bihd", weights, v)
    if isinstance(scheme, phasor.Shaw) and scheme.values is not None:
        summed = torch.zeros(*weights.shape[:3], scheme.left + scheme.right + 1)
        summed = summed.scatter_add(3, _shaw_rows(tokens, scheme).expand(*weights.shape), weights)
        out = out + torch.einsum("bhir,rd->bihd", summed, scheme.values)
    return out
