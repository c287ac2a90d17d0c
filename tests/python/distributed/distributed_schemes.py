# SPDX-License-Identifier: Apache-2.0
"""Every scheme with random numbers. A maker draws them for the whole; `cut` takes a rank's part of what goes by token, or leaves it whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import phasor


@dataclass
class Shape:
    """Of the whole."""

    batch: int = 1
    queries: int = 7
    keys: int = 7
    heads: int = 4
    key_heads: int = 2
    width: int = 8
    value_width: int = 8
    dtype: torch.dtype = torch.float64


@dataclass
class Numbers:
    """Tensors that learn, drawn in a fixed order, so that every rank and every way has the same."""

    shape: Shape
    learned: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, name: str, *size: int) -> Tensor:
        if name not in self.learned:
            self.learned[name] = torch.randn(*size, dtype=torch.promote_types(self.shape.dtype, torch.float32))
        return self.learned[name]


Cut = Callable[[Tensor, int, str], Tensor]  # tensor, axis of tokens, "query" or "key"
Maker = Callable[[Numbers, Cut], Any]


def _plain(n: Numbers, cut: Cut) -> Any:
    return None


def _t5(n: Numbers, cut: Cut) -> Any:
    return phasor.T5(n("table", n.shape.heads, 32))


def _t5_gated(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    return phasor.WavLM(n("table", s.heads, 32), cut(n("gate", s.batch, s.queries, s.heads), 1, "query"))


def _alibi(n: Numbers, cut: Cut) -> Any:
    return phasor.Alibi()


def _kerple(n: Numbers, cut: Cut) -> Any:
    heads = n.shape.heads
    return phasor.BiasTerm(phasor.Kerple(r1=[0.5] * heads, r2=[1.0] * heads), n("kerple", 2 * heads).abs() + 0.1)


def _fire(n: Numbers, cut: Cut) -> Any:
    heads = n.shape.heads
    count = 4 + 4 + 4 * heads + heads
    mlp = phasor.Mlp(widths=(1, 4, heads), parameters=tuple(0.1 * (i % 7 - 3) for i in range(count)))
    spec = phasor.Fire(mlp=mlp, length=16.0, epsilon=1e-6)
    drawn = n("fire", count + 2)
    numbers = torch.cat([drawn[:count], drawn[count:].abs() + drawn.new_tensor([0.1, 9.0])])  # the last two: c and the length
    return phasor.BiasTerm(spec, numbers)


def _shaw(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    return phasor.Shaw(n("keys", 9, s.width), n("values", s.heads, 9, s.value_width))


def _transformer_xl(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    rows = s.queries + s.keys
    return phasor.TransformerXL(n("rows", rows, s.heads, s.width), s.keys, n("u", s.heads, s.width), n("v", s.heads, s.width))


def _xlnet(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    most = max(s.queries, s.keys)
    segments = torch.arange(s.batch * most).reshape(s.batch, most) // 3 % 2
    query, key = (cut(segments[:, most - count :], 1, side) for count, side in ((s.queries, "query"), (s.keys, "key")))
    return phasor.XLNet(_transformer_xl(n, cut), n("segment", 2, s.heads, s.width), n("s", s.heads, s.width), query, key)


def _deberta(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    return phasor.Deberta(n("keys", 16, s.heads, s.width), n("queries", 16, s.heads, s.width), buckets=8, max_distance=20)


def _key_features(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    features = cut(n("features", s.batch, s.keys, s.key_heads, 6), 1, "key")
    return phasor.TableTerm("key", n("rows", s.heads, 7, 6), 3, 3, features)


def _inkling(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    return phasor.Inkling(cut(n("features", s.batch, s.queries, s.heads, 5), 1, "query"), n("table", 5, 9))


def _dense(n: Numbers, cut: Cut) -> Any:
    s = n.shape
    return phasor.Dense(cut(n("bias", s.batch, s.heads, s.queries, s.keys), 2, "query"))


def _dense_row(n: Numbers, cut: Cut) -> Any:
    """One row for all queries, the same on every rank."""
    return phasor.Dense(n("bias", n.shape.heads, 1, n.shape.keys))


def _dense_column(n: Numbers, cut: Cut) -> Any:
    """One column for all keys."""
    s = n.shape
    return phasor.Dense(cut(n("bias", s.batch, 1, s.queries, 1), 2, "query"))


def _rope(n: Numbers, cut: Cut) -> Any:
    return phasor.Rope(phasor.Rotary(n.shape.width))


def _rope_rotated(n: Numbers, cut: Cut) -> Any:
    """Keys that travel rotated."""
    return phasor.Rope(phasor.Rotary(n.shape.width), keys_rotated=True)


def _rope_map(n: Numbers, cut: Cut) -> Any:
    return phasor.Rope(phasor.Rotary(n.shape.width), map=phasor.positions.ReRope(window=4))


def _xpos(n: Numbers, cut: Cut) -> Any:
    return phasor.Xpos(phasor.Rotary(n.shape.width))


def _several(n: Numbers, cut: Cut) -> Any:
    return [phasor.Alibi(), phasor.Shaw(n("keys", 9, n.shape.width)), phasor.Rope(phasor.Rotary(n.shape.width))]


def _cope(n: Numbers, cut: Cut) -> Any:
    return phasor.Cope(n("rows", 6, n.shape.width))


MERGEABLE: dict[str, Maker] = {
    "plain": _plain,
    "t5": _t5,
    "t5_gated": _t5_gated,
    "alibi": _alibi,
    "kerple": _kerple,
    "fire": _fire,
    "shaw": _shaw,
    "transformer_xl": _transformer_xl,
    "xlnet": _xlnet,
    "deberta": _deberta,
    "key_features": _key_features,
    "inkling": _inkling,
    "dense": _dense,
    "dense_row": _dense_row,
    "dense_column": _dense_column,
    "rope": _rope,
    "rope_rotated": _rope_rotated,
    "rope_map": _rope_map,
    "xpos": _xpos,
    "several": _several,
}
ALL = MERGEABLE | {"cope": _cope}
