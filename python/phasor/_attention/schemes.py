# SPDX-License-Identifier: Apache-2.0
"""How positions enter attention's scores: one small class a scheme, of arrays that may learn. A list of schemes adds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from phasor import _bias_specs as specs
from phasor._arrays import Array, is_torch
from phasor._attention import types
from phasor._attention.arrays import column, parameter_list, rows_of_heads, vector_of_heads
from phasor._attention.types import DENSE, PLAIN, ClipRows, TableScheme
from phasor._bias import Bias
from phasor._rotary import Rotary
from phasor._types.positions import PositionMap

__all__ = [
    "BiasTerm",
    "Conformer",
    "Cope",
    "Deberta",
    "Decomposed",
    "Dense",
    "Grid",
    "Inkling",
    "LearnedBias",
    "Rope",
    "Shaw",
    "T5",
    "TableTerm",
    "TransformerXL",
    "WavLM",
    "XLNet",
    "Xpos",
]

DebertaReading = Literal["hf", "microsoft", "hf_swapped"]


@dataclass
class Pieces:
    """What a scheme is made of: the values of each term, and its tensors as the core names them (python/src/attention/call.hpp)."""

    heads: int  # of q
    content: types.ContentScheme
    terms: list[types.TermScheme] = field(default_factory=list)
    tensors: list[dict[str, Any]] = field(default_factory=list)  # one dict per term
    content_shift: Array | None = None

    def add(self, term: types.TermScheme, **tensors: Any) -> None:
        self.terms.append(term)
        self.tensors.append({name: tensor for name, tensor in tensors.items() if tensor is not None})


class Scheme:
    """What every scheme is: something that adds its pieces."""

    def add_to(self, pieces: Pieces) -> None:
        raise NotImplementedError


def _refuse_learned(spec: Any) -> None:
    """A spec holds numbers: one made of a tensor that learns would drop its gradient without a word."""
    name, kind = getattr(spec, "_learned_field", None), type(spec).__name__
    if name is not None:
        raise ValueError(f"attention: {kind}'s {name} require a gradient that a spec does not keep, wanted BiasTerm(spec, parameters)")


Side = Literal["query", "key", "value"]


# ---- Functions of the distance ----


@dataclass(frozen=True, eq=False)
class BiasTerm(Scheme):
    """Any bias of phasor.Bias, times a gate of the query: `parameters` (in the order of Bias.gradient) take the place of the spec's and learn.

    gate is (B or 1, Tq, H or 1). Specs without heads (Alibi) take those of q.
    """

    spec: Any
    parameters: Array | None = None
    gate: Array | None = None
    first_head: int = 0

    def add_to(self, pieces: Pieces) -> None:
        spec = self.spec.spec if isinstance(self.spec, Bias) else self.spec
        if self.parameters is None:
            _refuse_learned(spec)
        if getattr(spec, "heads", None) == 0:
            spec = replace(spec, heads=pieces.heads)
        gate = None if self.gate is None else self.gate[..., None]
        parameters = None if self.parameters is None else parameter_list(self.parameters)
        term = types.BiasScheme(spec, self.first_head, gate is not None, parameters is not None)
        pieces.add(term, features=gate, parameters=parameters)


@dataclass(frozen=True, eq=False)
class T5(Scheme):
    """T5's bias by buckets of distances: table (H, buckets). T5 itself attends with scale=1."""

    table: Array
    bidirectional: bool = True
    max_distance: int = 128
    gate: Array | None = None  # (B or 1, Tq, H or 1): WavLM's

    def add_to(self, pieces: Pieces) -> None:
        heads, buckets = self.table.shape
        sides: Literal["both", "behind"] = "both" if self.bidirectional else "behind"
        spec = specs.T5Buckets(heads=heads, buckets=buckets, max_distance=self.max_distance, sides=sides)
        BiasTerm(spec, self.table.reshape(-1), self.gate).add_to(pieces)


@dataclass(frozen=True, eq=False)
class WavLM(Scheme):
    """T5's bias times a gate of the query: table (H, buckets), gate (B, Tq, H)."""

    table: Array
    gate: Array
    max_distance: int = 800

    def add_to(self, pieces: Pieces) -> None:
        T5(self.table, True, self.max_distance, self.gate).add_to(pieces)


@dataclass(frozen=True, eq=False)
class LearnedBias(Scheme):
    """One number per distance: table (H, left + 1 + right) by key - query, clipped at both ends."""

    table: Array
    left: int
    right: int

    def add_to(self, pieces: Pieces) -> None:
        spec = specs.ShawClip(heads=self.table.shape[0], left=self.left, right=self.right)
        BiasTerm(spec, self.table.reshape(-1)).add_to(pieces)


@dataclass(frozen=True, eq=False)
class Dense(Scheme):
    """A bias given in full: (H, Tq, Tk) or (B, H, Tq, Tk); axes of 1 are shared."""

    bias: Array

    def add_to(self, pieces: Pieces) -> None:
        bias = self.bias if self.bias.ndim == 4 else self.bias[None]
        pieces.add(DENSE, table=bias.swapaxes(1, 2))


# ---- Tables on the query, key or value side ----


@dataclass(frozen=True, eq=False)
class TableTerm(Scheme):
    """A table on the query or key side, or added to values: (rows, D), (H, rows, D) or (B, H, rows, D), rows by key - query from -left to right.
    features (B or 1, T, H or 1, width) instead of q or k; shift (H or 1, width) added to them. scale None: the attention's."""

    side: Side
    table: Array
    left: int
    right: int
    features: Array | None = None
    shift: Array | None = None
    scale: float | None = None
    zero_outside: bool = False

    def add_to(self, pieces: Pieces) -> None:
        if self.side not in ("query", "key", "value"):
            raise ValueError(f"TableTerm: side is {self.side!r}, wanted 'query', 'key' or 'value'")
        shift = None if self.shift is None else vector_of_heads(self.shift)
        rows = ClipRows(self.left, self.right, "zero" if self.zero_outside else "clamp")
        term = TableScheme(self.side, rows, self.features is not None, shift is not None, self.scale)
        pieces.add(term, table=rows_of_heads(self.table), features=self.features, shift=shift)


@dataclass(frozen=True, eq=False)
class Shaw(Scheme):
    """q . (k + keys[clip(key - query)]), and values[...] added to v: tables (left + right + 1, D) or (H, ...), rows from -left to right.

    Without left and right the clip is symmetric, as far as the rows reach; with one of them the other is what the rows leave.
    """

    keys: Array | None
    values: Array | None = None
    left: int | None = None
    right: int | None = None

    def add_to(self, pieces: Pieces) -> None:
        left, right = self._clip()
        if self.keys is not None:
            pieces.add(TableScheme("query", ClipRows(left, right)), table=rows_of_heads(self.keys))
        if self.values is not None:
            pieces.add(TableScheme("value", ClipRows(left, right)), table=rows_of_heads(self.values))

    def _clip(self) -> tuple[int, int]:
        """left and right, by the rows of the tables where they are not said."""
        given = self.keys if self.keys is not None else self.values
        if given is None:
            raise ValueError("Shaw: keys and values are both None, wanted a table")
        rows, left, right = int(given.shape[-2]), self.left, self.right
        if left is None and right is None:
            if rows % 2 == 0:
                raise ValueError(f"Shaw: the table has {rows} rows, which no symmetric clip has; wanted an odd number, or left and right")
            left = rows // 2
        if left is None:
            left = rows - 1 - right  # type: ignore[operator]  # one of them is there
        return left, rows - 1 - left if right is None else right


@dataclass(frozen=True, eq=False)
class TransformerXL(Scheme):
    """(q + u) . k + (q + v) . table[distance]: u, v (H, D); table (rows, H, D) or (B, rows, H, D), projected sinusoids, the distance
    first_distance first, then less by 1 per row (Transformer-XL, XLNet and Conformer lay them out so)."""

    table: Array
    first_distance: int
    u: Array | None = None
    v: Array | None = None
    scale: float | None = None

    def add_to(self, pieces: Pieces) -> None:
        table = self.table if self.table.ndim == 4 else self.table[None]
        rows = table.shape[1]
        shift = None if self.v is None else vector_of_heads(self.v)
        clip = ClipRows(self.first_distance, rows - 1 - self.first_distance)
        pieces.add(TableScheme("query", clip, False, shift is not None, self.scale), table=table, shift=shift)
        if self.u is not None:
            if pieces.content_shift is not None:
                raise ValueError("TransformerXL: a scheme before has a u of its own, wanted one")
            pieces.content_shift = vector_of_heads(self.u)


Conformer = TransformerXL


@dataclass(frozen=True, eq=False)
class XLNet(Scheme):
    """Transformer-XL with segments: (q + s) . E[segments differ]: s (H, D), E (2, H, D), segments (T) or (B, T) of integers."""

    xl: TransformerXL
    segment_table: Array | None = None
    segment_shift: Array | None = None
    query_segments: Array | None = None
    key_segments: Array | None = None

    def add_to(self, pieces: Pieces) -> None:
        self.xl.add_to(pieces)
        if self.segment_table is None:
            return
        if self.query_segments is None or self.key_segments is None:
            raise ValueError("XLNet: segment_table is given without segments, wanted query_segments and key_segments")
        shift = None if self.segment_shift is None else vector_of_heads(self.segment_shift)
        pieces.add(
            types.SegmentScheme(shift is not None, self.xl.scale),
            table=self.segment_table[None],
            shift=shift,
            query_segments=self.query_segments,
            key_segments=self.key_segments,
        )


@dataclass(frozen=True, eq=False)
class Deberta(Scheme):
    """q . keys[row] + k . queries[row], row by buckets of the distance: tables (2 span, H, D); the model's scale is 1 / sqrt(3 D)."""

    keys: Array | None = None
    queries: Array | None = None
    buckets: int = 256  # 0: none (v1)
    max_distance: int = 512
    c2p: DebertaReading = "hf"  # whose reading
    p2c: DebertaReading = "hf"

    def add_to(self, pieces: Pieces) -> None:
        sides: tuple[tuple[Side, Array | None, DebertaReading], ...] = (("query", self.keys, self.c2p), ("key", self.queries, self.p2c))
        for side, table, reading in sides:
            if table is not None:
                rows = specs.DebertaBuckets(heads=1, buckets=self.buckets, max_distance=self.max_distance, reading=reading)
                pieces.add(TableScheme(side, rows), table=table[None])


@dataclass(frozen=True, eq=False)
class Inkling(Scheme):
    """features . table[:, distance] for distances from 0 to extent - 1, not scaled: features (B, Tq, H, width), table (width, extent)."""

    features: Array
    table: Array

    def add_to(self, pieces: Pieces) -> None:
        extent = self.table.shape[1]
        rows = self.table.swapaxes(0, 1)
        rows = rows.flip(0).contiguous() if is_torch(rows) else rows[::-1]  # tensor cores of a GPU want channels side by side
        term = TableScheme("query", ClipRows(extent - 1, 0, "zero"), True, False, 1.0)
        pieces.add(term, table=rows_of_heads(rows), features=self.features)


@dataclass(frozen=True, eq=False)
class Cope(Scheme):
    """Contextual positions: table (rows, D) or (H, rows, D). Causal attention only."""

    table: Array
    gate_scale: float = 1.0
    scale: float = 1.0

    def add_to(self, pieces: Pieces) -> None:
        pieces.add(types.CopeScheme(self.gate_scale, self.scale), table=rows_of_heads(self.table))


# ---- Images: a position is a token's number in its grid, row by row ----


@dataclass(frozen=True, eq=False)
class Grid(Scheme):
    """One number per pair of offsets (Swin; BEiT with a class token): table (H, rows), window (height, width)."""

    table: Array
    window: tuple[int, int]
    class_token: bool = False

    def add_to(self, pieces: Pieces) -> None:
        term = types.GridScheme(specs.Window(*self.window), "first" if self.class_token else "absent")
        pieces.add(term, table=column(self.table))


@dataclass(frozen=True, eq=False)
class Decomposed(Scheme):
    """q . (rows_h[dy] + rows_w[dx]) (SAM, MViTv2): tables (2 max(heights) - 1, D), the least offset first; not scaled."""

    rows_h: Array
    rows_w: Array
    query_grid: tuple[int, int]
    key_grid: tuple[int, int]
    scale: float = 1.0

    def add_to(self, pieces: Pieces) -> None:
        term = types.DecomposedScheme(specs.Window(*self.query_grid), specs.Window(*self.key_grid), self.scale)
        pieces.add(term, table=rows_of_heads(self.rows_h), second=rows_of_heads(self.rows_w))


# ---- How q meets k ----


@dataclass(frozen=True, eq=False)
class Rope(Scheme):
    """q and k rotated inside attention, bit for bit as by the rotary before it; with a map (ReRope, LeakyReRope, SelfExtend, DualChunk) at the
    distances that it shows."""

    rotary: Rotary
    keys_rotated: bool = False
    map: PositionMap | None = None

    def add_to(self, pieces: Pieces) -> None:
        _set_content(pieces, types.RotaryScheme(self.rotary.spec, "rotated" if self.keys_rotated else "unrotated", self.map))


@dataclass(frozen=True, eq=False)
class Xpos(Scheme):
    """Rotary with a decay: q zeta^(position / scale_base), k zeta^(-position / scale_base); exact however far the positions."""

    rotary: Rotary
    gamma: float = 0.4
    scale_base: float = 512.0

    def add_to(self, pieces: Pieces) -> None:
        _set_content(pieces, types.XposScheme(self.rotary.spec, self.gamma, self.scale_base))


def _set_content(pieces: Pieces, content: types.ContentScheme) -> None:
    if pieces.content is not PLAIN:
        raise ValueError("attention: two schemes say how the q.k score is formed, wanted one of Rope and Xpos")
    pieces.content = content


def pieces_of(scheme: Any, heads: int) -> Pieces:
    """The pieces of a scheme, of a list of them, or of a bias or its spec (phasor.Alibi(), phasor.Kerple(...)). None: nothing."""
    pieces = Pieces(heads, PLAIN)
    parts: Iterable[Any] = () if scheme is None else scheme if isinstance(scheme, (list, tuple)) else (scheme,)
    for part in parts:
        if isinstance(part, Scheme):
            part.add_to(pieces)
        elif isinstance(part, Bias) or type(part).__module__ == specs.__name__:
            BiasTerm(part).add_to(pieces)
        else:
            raise TypeError(
                f"attention: scheme is {type(part).__name__}, wanted a scheme of phasor (T5, Shaw, Alibi, ...) or a list of them"
            )
    return pieces
