# SPDX-License-Identifier: Apache-2.0
"""The schemes of the table: what phasor is told, and the formula that the paper has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import phasor
from schemes.problem import Scheme, Size, Tensors, key_minus_query

# EXTENT and FEATURES are Inkling's. A short sequence, in a rehearsal, has shorter ones, so that there are distances beyond.
SHAW_CLIP, DEBERTA_CLIP, EXTENT, FEATURES = 64, 256, 1024, 16


def normal(size: Size, generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, device=size.device, generator=generator).to(dtype)


# ---- Functions of the distance ----


def t5_diagonal(t: Tensors, size: Size) -> Tensor:
    buckets = phasor.t5_buckets(np.arange(size.tokens - 1, -size.tokens, -1))  # of query - key
    return t["table"][:, torch.from_numpy(buckets).to(size.device)]


def alibi_slopes(size: Size, generator: torch.Generator) -> Tensors:
    del generator
    return {"slopes": 2.0 ** (-8.0 * torch.arange(1, size.heads + 1, device=size.device) / size.heads)}


def alibi_diagonal(t: Tensors, size: Size) -> Tensor:
    return -t["slopes"][:, None] * torch.arange(1 - size.tokens, size.tokens, device=size.device).abs()


PLAIN = Scheme("plain")
T5 = Scheme(
    "T5",
    tensors=lambda size, generator: {"table": normal(size, generator, size.heads, 32, dtype=torch.float32)},
    ours=lambda t: phasor.T5(t["table"]),
    diagonal=t5_diagonal,
)
UNCLIPPED = Scheme(
    "unclipped bias",
    tensors=lambda size, generator: {"table": normal(size, generator, size.heads, 2 * size.tokens - 1, dtype=torch.float32)},
    ours=lambda t: phasor.LearnedBias(t["table"], t["table"].shape[1] // 2, t["table"].shape[1] // 2),
    diagonal=lambda t, size: t["table"],
)
ALIBI = Scheme("ALiBi", alibi_slopes, lambda t: phasor.Alibi(), diagonal=alibi_diagonal, fixed=("slopes",))
ALIBI_SKIP = replace(ALIBI, name="ALiBi, certified skip", options={"skip": True})


# ---- Tables by distance ----


def by_clip(products: Tensor, clip: int, size: Size) -> Tensor:
    """(..., queries, keys) of (..., queries, 2 clip + 1): the product with the row of the clipped key - query."""
    rows = key_minus_query(size.tokens, size.device).clamp(-clip, clip) + clip
    return products.gather(-1, rows.expand(*products.shape[:-1], -1))


def by_shift(products: Tensor) -> Tensor:
    """(..., n, n) of (..., n, 2 n - 1), whose row for query i and key j is n - 1 - i + j: a view with another stride (Transformer-XL's rel_shift)."""
    n = products.shape[-2]
    return products.flatten(-2)[..., n - 1 : -1].unflatten(-1, (n, -1))[..., :n] if n > 1 else products


def met_by_queries(q: Tensor, rows: Tensor, size: Size) -> Tensor:
    return by_clip(q @ rows.transpose(-1, -2) * size.scale, rows.shape[-2] // 2, size)


def met_by_keys(k: Tensor, rows: Tensor, size: Size) -> Tensor:
    """The row is that of key - query, too; seen from the key the distance has the other sign."""
    return by_clip(k @ rows.flip(-2).transpose(-1, -2) * size.scale, rows.shape[-2] // 2, size).transpose(-1, -2)


def sums_by_row(weights: Tensor, t: Tensors) -> Tensor:
    """What values get of a table: the sum of the weights of a row's distances, times the row."""
    values = t["values"]
    clip, tokens = values.shape[-2] // 2, weights.shape[-1]
    rows = key_minus_query(tokens, str(weights.device)).clamp(-clip, clip) + clip
    sums = weights.new_zeros(*weights.shape[:-1], values.shape[-2]).scatter_add(-1, rows.expand(weights.shape), weights)
    return sums @ values


def clipped_rows(clip: int, *names: str) -> Any:
    def made(size: Size, generator: torch.Generator) -> Tensors:
        count = 2 * min(clip, size.tokens // 4) + 1
        return {name: normal(size, generator, size.heads, count, size.width) for name in names}

    return made


def xl_tensors(size: Size, generator: torch.Generator) -> Tensors:
    """Rows in phasor's order, the farthest key behind first; u meets keys, w (the paper's v) meets rows."""
    vectors = {name: normal(size, generator, size.heads, size.width) for name in ("u", "w")}
    return {"rows": normal(size, generator, size.heads, 2 * size.tokens - 1, size.width), **vectors}


def xl_added(q: Tensor, k: Tensor, t: Tensors, size: Size) -> Tensor:
    by_key = t["u"][:, None] @ k.transpose(-1, -2)
    by_row = (q + t["w"][:, None]) @ t["rows"].transpose(-1, -2)
    return (by_key + by_shift(by_row)) * size.scale


SHAW = Scheme("Shaw K", clipped_rows(SHAW_CLIP, "keys"), lambda t: phasor.Shaw(t["keys"]), lambda q, k, t, size: met_by_queries(q, t["keys"], size))
SHAW_KV = Scheme(
    "Shaw K + V", clipped_rows(SHAW_CLIP, "keys", "values"), lambda t: phasor.Shaw(t["keys"], t["values"]), SHAW.added, to_outputs=sums_by_row
)
TRANSFORMER_XL = Scheme(
    "Transformer-XL",
    xl_tensors,
    lambda t: phasor.TransformerXL(t["rows"].transpose(0, 1), t["rows"].shape[1] // 2, t["u"], t["w"]),
    xl_added,
)
DEBERTA = Scheme(
    "DeBERTa",
    clipped_rows(DEBERTA_CLIP, "c2p", "p2c"),
    lambda t: [phasor.TableTerm(side, t[name], t[name].shape[1] // 2, t[name].shape[1] // 2) for side, name in (("query", "c2p"), ("key", "p2c"))],
    lambda q, k, t, size: met_by_queries(q, t["c2p"], size) + met_by_keys(k, t["p2c"], size),
)


# ---- Features of their own (Inkling) ----


def inkling_tensors(size: Size, generator: torch.Generator, extent: int) -> Tensors:
    features = normal(size, generator, size.heads, size.batch, size.tokens, FEATURES)
    return {"features": features, "table": normal(size, generator, FEATURES, extent)}


def inkling_added(q: Tensor, k: Tensor, t: Tensors, size: Size) -> Tensor:
    extent = t["table"].shape[1]
    back = -key_minus_query(size.tokens, size.device)
    products = (t["features"].transpose(0, 1) @ t["table"]).gather(-1, back.clamp(0, extent - 1).expand(size.batch, size.heads, -1, -1))
    return products.masked_fill((back < 0) | (back >= extent), 0)


def inkling(name: str, extent: int | None) -> Scheme:
    """Rows for `extent` distances; None: for all that there are."""
    return Scheme(
        name,
        lambda size, generator: inkling_tensors(size, generator, min(extent, size.tokens // 2) if extent else size.tokens),
        lambda t: phasor.Inkling(t["features"].permute(1, 2, 0, 3), t["table"]),
        inkling_added,
        of_all_heads=("table",),
    )


INKLING, INKLING_ALL = inkling("Inkling", EXTENT), inkling("Inkling, rows for all", None)


# ---- Rotation inside of attention ----


def turned(x: Tensor, first: int = 0) -> Tensor:
    """Rotated by frequencies of base 10000 at positions from `first` on, pairs of halves, and rounded to bfloat16 as `apply_rotary` rounds."""
    tokens, width = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float64) / width)
    angles = torch.arange(first, first + tokens, device=x.device, dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    low, high = x.double().chunk(2, -1)
    return torch.cat((low * cos - high * sin, low * sin + high * cos), -1).bfloat16().to(x.dtype)


def rotated(width: int) -> Scheme:
    return Scheme("rotary inside", ours=lambda t: phasor.Rope(phasor.Rotary(width)), turn=turned)
