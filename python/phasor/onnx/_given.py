# SPDX-License-Identifier: Apache-2.0
"""Rotation by tables that the model computes (phasor::rotary_tables), and tables alone (phasor::cos_sin)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnxscript import opset23 as op

from phasor._torch.layouts import decoded_fields
from phasor.onnx._constants import integers, static
from phasor.onnx._rotary import Rotation, Rows, Settings, cast, embedded, expanded, rows_of_positions

_FORWARD = 0


@dataclass(frozen=True)
class _Given:
    """Tables of a call: (T, ...), (B, T, ...) or (B, T, H, ...), with a value per pair or one per channel."""

    cos: Any
    sin: Any
    per_channel: bool


_KEEPS_HALVES = ("Cast", "Cos", "Identity", "Mul", "Sin")


def _is_number(value: Any) -> bool:
    """Whether a value is a single number; constants that the exporter makes say no shape."""
    if value.shape is not None:
        return all(size == 1 for size in value.shape)
    node = value.producer()
    return node is not None and node.op_type == "Constant" and "value" in node.attributes and node.attributes["value"].as_tensor().size == 1


def _doubled(table: Any) -> Any:
    """What a table is the cosine or sine of, if both halves of that are the same value: Hugging Face's cat((angles, angles)); else None."""
    node = table.producer()
    while node is not None and node.op_type in _KEEPS_HALVES:
        if node.op_type == "Mul" and not _is_number(node.inputs[1]):
            return None
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Concat" or len(node.inputs) != 2 or node.inputs[0] is not node.inputs[1]:
        return None
    axis, rank = node.attributes["axis"].as_int(), len(table.shape)
    return node.inputs[0] if axis in (-1, rank - 1) else None


def _first_half(table: Any, pairs: int) -> Any:
    made = _slice(table, 0, pairs)
    made.shape, made.dtype = ir.Shape([*table.shape[:-1], pairs]), table.dtype
    return made


def _read(cos: Any, sin: Any, width: int, pairing: str, direction: int, clockwise: bool) -> _Given:
    per_channel = static(cos, -1, "the width of cos") == width
    if per_channel and pairing == "half" and _doubled(cos) is not None and _doubled(cos) is _doubled(sin):
        cos, sin, per_channel = _first_half(cos, width // 2), _first_half(sin, width // 2), False
    if per_channel and direction != _FORWARD:
        raise NotImplementedError("onnx: tables with a value per channel are applied backwards, wanted forwards, or tables with a value per pair")
    if (direction != _FORWARD) != clockwise:
        shape, dtype = sin.shape, sin.dtype
        sin = op.Neg(sin)
        sin.shape, sin.dtype = shape, dtype
    return _Given(cos, sin, per_channel)


def given_tables(settings: Settings, tensors: tuple[Any, ...], cos: Any, sin: Any, codes: Any, direction: int) -> tuple[Any, ...]:
    """phasor::rotary_tables and phasor::rotary_tables.qk: RotaryEmbedding where there is a value per pair and one rounding, products and sums elsewhere."""
    layout = decoded_fields(codes)
    if layout["output_pairing"] not in (None, layout["pairing"]) or layout["segments"] != 1:
        raise NotImplementedError(f"onnx: tables are applied with {layout}, wanted one pairing and one segment")
    x = tensors[0]
    width = layout["rotary_width"] or static(x, -1, "the width of a head")
    where = (width, layout["rotary_offset"], layout["pairing"])
    given = _read(cos, sin, width, layout["pairing"], direction, layout["sense"] == "clockwise")
    dtype = settings.dtype(x)
    one_rounding = layout["numerics"] != "hf" or x.dtype == ir.DataType.FLOAT
    if not given.per_channel and one_rounding and len(cos.shape) < 4:
        tables = [one if len(one.shape) == 3 else _unsqueezed(one) for one in (given.cos, given.sin)]
        rows = Rows(*(expanded(one, x) for one in tables))
        return tuple(embedded(x, rows, where, dtype) for x in tensors)
    if not one_rounding and x.dtype == cos.dtype:
        dtype = x.dtype
    return tuple(_elementary(x, given, where, dtype) for x in tensors)


def _unsqueezed(table: Any) -> Any:
    made = op.Unsqueeze(table, integers(0))
    made.dtype = table.dtype
    return made


# ---- The rotation spelled out ----


def _slice(x: Any, first: int, end: int, step: int = 1) -> Any:
    return op.Slice(x, integers(first), integers(end), integers(-1), integers(step))


def _joined(first: Any, second: Any, pairing: str, x: Any, width: int) -> Any:
    """The two halves of all pairs as channels."""
    if pairing == "half":
        return op.Concat(first, second, axis=-1)
    both = op.Concat(op.Unsqueeze(first, integers(-1)), op.Unsqueeze(second, integers(-1)), axis=-1)
    return op.Reshape(both, integers(*[0] * (len(x.shape) - 1), width))


def _product(a: Any, b: Any, dtype: ir.DataType) -> Any:
    """a b in float32, rounded to the dtype as PyTorch rounds each product: runtimes need no multiplication of 16 bits for it."""
    made = op.Mul(a, b)
    made.dtype = ir.DataType.FLOAT
    return cast(cast(made, dtype), ir.DataType.FLOAT)


def _elementary(x: Any, given: _Given, where: tuple[int, int, str], dtype: ir.DataType) -> Any:
    """first * cos - second * sin and second * cos + first * sin, each product rounded to the dtype."""
    width, offset, pairing = where
    end, step = offset + width, 2 if pairing == "interleaved" else 1
    middle = offset + 1 if step == 2 else offset + width // 2
    wide = cast(x, ir.DataType.FLOAT)
    first, second = _slice(wide, offset, end if step == 2 else middle, step), _slice(wide, middle, end, step)
    tables = (cast(cast(table, dtype), ir.DataType.FLOAT) for table in (given.cos, given.sin))
    cosines, sines = (_per_half(table, given, pairing, width, x) for table in tables)
    turned = (
        op.Sub(_product(first, cosines[0], dtype), _product(second, sines[0], dtype)),
        op.Add(_product(second, cosines[1], dtype), _product(first, sines[1], dtype)),
    )
    parts = [_slice(wide, 0, offset)] if offset else []
    parts.append(_joined(*turned, pairing, x, width))
    if end < (head_dim := static(x, -1, "the width of a head")):
        parts.append(_slice(wide, end, head_dim))
    out = op.Concat(*parts, axis=-1) if len(parts) > 1 else parts[0]
    out.dtype = ir.DataType.FLOAT
    return cast(out, x.dtype)


def _per_half(table: Any, given: _Given, pairing: str, width: int, x: Any) -> tuple[Any, Any]:
    """What the first and the second channel of each pair are multiplied by, with an axis for heads where x has one and the table has none."""
    if not given.per_channel:
        halves = (table, table)
    elif pairing == "interleaved":
        halves = (_slice(table, 0, width, 2), _slice(table, 1, width, 2))
    else:
        halves = (_slice(table, 0, width // 2), _slice(table, width // 2, width))
    if len(given.cos.shape) == 4 or len(x.shape) == 2:
        return halves
    return op.Unsqueeze(halves[0], integers(-2)), op.Unsqueeze(halves[1], integers(-2))


# ---- Tables alone ----


def table_rows(settings: Settings, positions: Any, words: Any, heads: int, dtype: int) -> tuple[Any, Any]:
    """phasor::cos_sin."""
    if dtype != ir.DataType.FLOAT:
        raise NotImplementedError(f"onnx: cos_sin gives {ir.DataType(dtype)}, wanted FLOAT")
    if heads != 1:
        raise NotImplementedError(f"onnx: cos_sin has {heads} heads of their own, wanted one table for all")
    rotation = Rotation(settings, words, ir.DataType.FLOAT, _FORWARD)
    return rows_of_positions(rotation, positions)
