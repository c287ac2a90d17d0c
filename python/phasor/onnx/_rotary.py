# SPDX-License-Identifier: Apache-2.0
"""Rotations as opset 23's RotaryEmbedding: with a table by position, or with the rows of every token where positions are constants or of several axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnxscript import opset23 as op

from phasor.onnx._constants import Constants, integer, integers, shared, size_of, static
from phasor.onnx._tables import Turns, refuse_spec

_TORCH = {
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.BFLOAT16: torch.bfloat16,
}


@dataclass(frozen=True)
class Settings:
    """What all operators of a program are translated with."""

    constants: Constants
    max_position: int | None
    compute: str

    def dtype(self, x: Any) -> ir.DataType:
        """What a tensor is computed in."""
        if x.dtype not in _TORCH:
            raise NotImplementedError(f"onnx: a tensor is {x.dtype}, wanted FLOAT, FLOAT16 or BFLOAT16")
        return ir.DataType.FLOAT if self.compute == "float32" else x.dtype

    def length(self, what: str) -> int:
        """How many positions tables hold."""
        if self.max_position is None:
            raise ValueError(f"onnx: max_position is not given, wanted it for {what}: the file holds tables of positions 0 to max_position - 1")
        return self.max_position


def cast(x: Any, dtype: ir.DataType) -> Any:
    """x in a dtype; no node where it is so already."""
    if x.dtype == dtype:
        return x
    made = op.Cast(x, to=int(dtype))
    made.dtype, made.shape = dtype, x.shape
    return made


# ---- RotaryEmbedding on (B, T, H, D), (T, H, D) and (T, D) ----


@dataclass(frozen=True)
class Rows:
    """cos and sin: (N, P) with ids (B, T), or (B, T, P) with none."""

    cos: Any
    sin: Any
    ids: Any = None

    def cast(self, dtype: ir.DataType) -> Rows:
        return Rows(cast(self.cos, dtype), cast(self.sin, dtype), self.ids)


def embedded(x: Any, rows: Rows, layout: tuple[int, int, str], dtype: ir.DataType) -> Any:
    """x turned by the node. layout: width, offset and pairing of what is turned."""
    width, offset, pairing = layout
    head_dim = static(x, -1, "the width of a head")
    heads = static(x, -2, "the number of heads") if len(x.shape) > 2 else 1
    flat = x if len(x.shape) == 4 else op.Unsqueeze(x, integers(0))
    if offset:  # RotaryEmbedding turns the first channels of a head
        before, x_turned, after = _split(x, offset, width)
        turned = embedded(x_turned, rows, (width, 0, pairing), dtype)
        return op.Concat(*(part for part in (before, turned, after) if part is not None), axis=-1)
    if len(x.shape) > 2:
        flat = op.Reshape(flat, integers(0, 0, heads * head_dim))
    flat.dtype = x.dtype
    rows = rows.cast(dtype)
    out = op.RotaryEmbedding(
        cast(flat, dtype),
        rows.cos,
        rows.sin,
        rows.ids,
        interleaved=int(pairing == "interleaved"),
        num_heads=heads,
        rotary_embedding_dim=0 if width == head_dim else width,
    )
    out.dtype = dtype
    out = cast(out, x.dtype)
    if len(x.shape) > 2:
        out = op.Reshape(out, integers(0, 0, heads, head_dim))
    return out if len(x.shape) == 4 else op.Squeeze(out, integers(0))


def _split(x: Any, offset: int, width: int) -> tuple[Any, Any, Any]:
    """The channels before those that turn, those, and what is behind them (None where there are none)."""
    last = static(x, -1, "the width of a head") - offset - width
    begin = op.Slice(x, integers(0), integers(offset), integers(-1))
    middle = op.Slice(x, integers(offset), integers(offset + width), integers(-1))
    middle.dtype, middle.shape = x.dtype, ir.Shape([*x.shape[:-1], width])
    end = op.Slice(x, integers(offset + width), integers(offset + width + last), integers(-1)) if last else None
    return begin, middle, end


# ---- Where rows come from ----


def _for_batch(rows: np.ndarray, key: tuple[Any, ...], x: Any) -> Any:
    """Rows (T, P) or (1 or B, T, P) of constant positions, for every batch row of x."""
    made = shared(key, lambda: rows.reshape(-1, *rows.shape[-2:]))
    return expanded(made, x)


def expanded(rows: Any, x: Any) -> Any:
    """(1 or B, T, P) as RotaryEmbedding wants it: a row for every batch row."""
    if len(x.shape) < 4 or x.shape[0] == 1:
        return rows
    out = op.Expand(rows, op.Concat(size_of(x, 0), integers(1, 1), axis=0))
    out.dtype = rows.dtype or ir.DataType.FLOAT
    return out


def _tokens_axis(x: Any) -> int:
    return 1 if len(x.shape) == 4 else 0


class Rotation:
    """One call of an operator: its spec in a direction, at its positions."""

    def __init__(self, settings: Settings, words: Any, dtype: ir.DataType, direction: int) -> None:
        held = settings.constants.of(words)
        if held is None:
            raise NotImplementedError("onnx: the spec of a rotation is computed by the model, wanted one that is a constant of the program")
        self.settings = settings
        self.turns = Turns(tuple(held.tolist()), direction, _TORCH[dtype])
        spec = self.turns.spec
        self.layout = (spec.rotary_width, spec.rotary_offset, spec.pairing)

    def rows(self, x: Any, positions: Any, offset: Any) -> Rows:
        """What turns x."""
        known = self._known(x, positions, offset)
        refuse_spec(self.turns.spec, known is not None)
        if known is not None:
            cos, sin = self.turns.rows(known)
            key = (self.turns, tuple(known.shape), known.numpy().tobytes(), str(known.dtype))
            return Rows(_for_batch(cos, ("cos", *key), x), _for_batch(sin, ("sin", *key), x))
        if positions is not None:
            refuse_positions(positions)
        if positions is not None and len(positions.shape) == 3:
            return self._of_axes(x, positions)
        cos, sin = (self.table(which) for which in ("cos", "sin"))
        return Rows(cos, sin, _ids(x, positions, offset))

    def _known(self, x: Any, positions: Any, offset: Any) -> torch.Tensor | None:
        """Positions that do not depend on what the file is given."""
        if positions is not None:
            return self.settings.constants.of(positions)
        tokens = x.shape[_tokens_axis(x)]
        return torch.arange(offset, offset + tokens) if isinstance(tokens, int) and isinstance(offset, int) else None

    def table(self, which: str, flat: bool = False) -> Any:
        length = self.settings.length("a rotation")

        def made() -> np.ndarray:
            table = self.turns.table(length)[which == "sin"]
            return table.reshape(-1) if flat else table

        value = shared((which, self.turns, length, flat), made)
        value.dtype = ir.DataType.FLOAT
        return value

    def _of_axes(self, x: Any, positions: Any) -> Rows:
        return Rows(*(expanded(one, x) for one in self.gathered(positions)))

    def gathered(self, positions: Any) -> tuple[Any, Any]:
        """cos and sin (B, T, P) of positions (axes, B, T), each pair at that of its own axis: index position * P + pair of a flat table."""
        length, pairs = self.settings.length("a rotation"), self.layout[0] // 2
        of_pair = shared(("axis of pair", self.turns), self.turns.axis_of_pair)
        at = op.Transpose(op.Gather(cast(positions, ir.DataType.INT64), of_pair, axis=0), perm=[1, 2, 0])
        index = op.Add(op.Mul(guarded(at, length), integer(pairs)), shared(("pairs", pairs), lambda: np.arange(pairs)))
        cos, sin = (op.Gather(self.table(which, flat=True), index) for which in ("cos", "sin"))
        cos.dtype = sin.dtype = ir.DataType.FLOAT
        return cos, sin


def refuse_positions(positions: Any) -> None:
    """A table has rows for integers alone."""
    if positions.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        raise NotImplementedError(f"onnx: positions are {positions.dtype}, wanted integers, or constants of the program")


def rows_of_positions(rotation: Rotation, positions: Any) -> tuple[Any, Any]:
    """cos and sin (..., P) of positions, by Gather."""
    known = rotation.settings.constants.of(positions)
    refuse_spec(rotation.turns.spec, known is not None)
    if known is not None:
        made = rotation.turns.rows(known)
        key = (rotation.turns, tuple(known.shape), known.numpy().tobytes(), str(known.dtype), "alone")
        return shared(("cos", *key), lambda: made[0]), shared(("sin", *key), lambda: made[1])
    refuse_positions(positions)
    if len(positions.shape) == 3:
        return rotation.gathered(positions)
    index = guarded(cast(positions, ir.DataType.INT64), rotation.settings.length("cos_sin"))
    return op.Gather(rotation.table("cos"), index), op.Gather(rotation.table("sin"), index)


def guarded(index: Any, length: int) -> Any:
    """An index that Gather refuses where it is negative, too: it would count from the end."""
    return op.Where(op.Less(index, integer(0)), integer(length), index)


def _ids(x: Any, positions: Any, offset: Any) -> Any:
    """Positions as RotaryEmbedding takes them, (B, T) of int64."""
    if positions is None:
        tokens = op.Squeeze(size_of(x, _tokens_axis(x)), integers(0))
        positions = op.Range(integer(offset), op.Add(integer(offset), tokens), integer(1))
        rank = 1
    else:
        rank = len(positions.shape)
        positions = cast(positions, ir.DataType.INT64)
    ids = op.Unsqueeze(positions, integers(0)) if rank == 1 else positions
    if len(x.shape) < 4:
        return ids
    return op.Expand(ids, op.Concat(size_of(x, 0), integers(1), axis=0))


def rotary(settings: Settings, tensors: tuple[Any, ...], words: Any, positions: Any, offset: Any, direction: int) -> tuple[Any, ...]:
    """phasor::rotary and phasor::rotary.qk."""
    dtype = settings.dtype(tensors[0])
    rotation = Rotation(settings, words, tensors[0].dtype, direction)
    rows = rotation.rows(tensors[0], positions, offset)
    return tuple(embedded(x, rows, rotation.layout, dtype) for x in tensors)
