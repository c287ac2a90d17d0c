# SPDX-License-Identifier: Apache-2.0
"""vmap: the mapped axis becomes part of the batch, so that a mapped call is one call of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phasor._torch import private
from phasor._torch.operators import LIBRARY, OPERATORS, Operator
from phasor._torch.plain import dense

Dim = int | None


def mapped_first(x: Tensor, dim: Dim, size: int) -> Tensor:
    """(V, ...), by a stride of 0 where x is not mapped."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _as_batch(x: Tensor) -> Tensor:
    """(V, B, T, H, D), (V, T, H, D) or (V, T, D) as (V B, T, H, D). Copies only where strides do not allow a view."""
    if x.ndim == 3:
        return x.unsqueeze(2)
    return x if x.ndim == 4 else x.flatten(0, 1)


def mapped_positions(x: Tensor, dim: Dim, size: int, rows: int) -> Tensor:
    """Positions of V B rows, from those of one call for each of V: (T), (B, T) or (axes, B, T)."""
    axes = x.ndim - (dim is not None)
    if dim is None and (axes == 1 or x.shape[-2] == 1):
        return x  # shared by every row
    x = mapped_first(x, dim, size)
    if axes == 1:
        x = x.unsqueeze(1)  # (V, 1, T)
    if axes == 3:
        x = x.movedim(1, 0)  # (axes, V, B, T)
    return x.expand(*x.shape[:-2], rows, x.shape[-1]).flatten(-3, -2)


def mapped_table(x: Tensor, dim: Dim, size: int, rows: int) -> Tensor:
    """Tables of V B rows, from (T, P), (B, T, P) or (B, T, H, P) of one call for each of V."""
    axes = x.ndim - (dim is not None)
    if dim is None and (axes == 2 or x.shape[0] == 1):
        return x
    x = mapped_first(x, dim, size)
    if axes == 2:
        x = x.unsqueeze(1)
    return x.expand(x.shape[0], rows, *x.shape[2:]).flatten(0, 1)


def _rest(operator: Operator, size: int, rows: int, dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is not rotated, for V B rows."""
    if operator.by_tables:
        return mapped_table(args[0], dims[0], size, rows), mapped_table(args[1], dims[1], size, rows), *args[2:]
    if dims[0] is not None:
        raise NotImplementedError(f"vmap of phasor::{operator.name}: words are mapped, every mapped call must have the same spec")
    positions = None if args[1] is None else mapped_positions(args[1], dims[1], size, rows)
    return args[0], positions, *args[2:]


def _rule(operator: Operator) -> Callable[..., Any]:
    count, in_place = operator.tensors, operator.in_place

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size = info.batch_size
        if in_place and any(dim is None for dim in in_dims[:count]):
            raise RuntimeError(
                f"vmap: phasor::{operator.name} writes to a tensor that is not mapped; use phasor::{operator.functional._opname}"
            )
        mapped = [mapped_first(x, dim, size) for x, dim in zip(args[:count], in_dims)]
        rows = mapped[0].shape[1] if mapped[0].ndim == 5 else 1
        batched = [dense(_as_batch(x)) for x in mapped]
        outs = operator.functional(*batched, *_rest(operator, size, rows, in_dims[count:], args[count:]))
        outs = [out.reshape(x.shape) for out, x in zip((outs,) if count == 1 else outs, mapped)]
        if not in_place:
            return (outs[0], 0) if count == 1 else (tuple(outs), (0, 0))
        for x, out in zip(mapped, outs):
            x.copy_(out)
        return None, None

    return rule


for _operator in OPERATORS if private.OWN_KERNELS else [o for o in OPERATORS if not o.in_place]:
    torch.library.register_vmap(_operator.overload, _rule(_operator), lib=LIBRARY)


# ---- Operators on tokens (B, T, D), and on positions alone ----

ops = torch.ops.phasor


def loop(overload: Any, size: int, dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """One call for each, where what is mapped is shared by the rows of a call: a table, an amplitude, frequencies."""
    calls = ([x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(args, dims)] for i in range(size))
    results = [overload(*(dense(x) if isinstance(x, Tensor) and x.ndim > 1 else x for x in call)) for call in calls]
    if isinstance(results[0], tuple):
        return tuple(torch.stack(parts) for parts in zip(*results)), tuple(0 for _ in results[0])
    return torch.stack(results), 0


def _tokens_rule(overload: Any, positions_at: int) -> Callable[..., Any]:
    """x (B, T, D) or (B, T, H, D) first, and positions that may be mapped with it; what else is mapped is looped over."""
    by_heads = overload is ops.learned_rotary.default

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size, dim, positions = info.batch_size, in_dims[0], args[positions_at]
        others = [i for i, d in enumerate(in_dims) if d is not None and i not in (0, positions_at)]
        if others or (dim is None and in_dims[positions_at] is None):
            return loop(overload, size, in_dims, args)
        mapped = mapped_first(args[0], dim, size)
        with_rows = mapped.ndim == (5 if by_heads else 4)
        rows = mapped.shape[1] if with_rows else 1
        batched = _as_batch(mapped) if by_heads else mapped.flatten(0, 1) if with_rows else mapped
        rest = list(args[1:])
        if positions is not None:
            rest[positions_at - 1] = mapped_positions(positions, in_dims[positions_at], size, rows)
        return overload(dense(batched), *rest).reshape(mapped.shape), 0

    return rule


def _positions_rule(overload: Any) -> Callable[..., Any]:
    """Positions (T), (B, T) or (axes, B, T) alone: results (..., values), one or two."""

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        if any(dim is not None for dim in in_dims[1:]):
            return loop(overload, info.batch_size, in_dims, args)
        positions = args[0].movedim(in_dims[0], 0)
        rows = 1 if positions.ndim < 3 else positions.shape[-2]
        results = overload(mapped_positions(positions, 0, info.batch_size, rows), *args[1:])
        shape = (info.batch_size,) if positions.ndim == 2 else (info.batch_size, rows)
        if isinstance(results, Tensor):
            return results.reshape(*shape, *results.shape[1:]), 0
        return tuple(x.reshape(*shape, *x.shape[1:]) for x in results), tuple(0 for _ in results)

    return rule


def _bias_rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Positions of queries and keys (T); those of rows (B, T) are looped over."""
    if any(x.ndim - (dim is not None) != 1 for x, dim in zip(args[:2], in_dims)):
        return loop(ops.bias.default, info.batch_size, in_dims, args)
    rows = (mapped_first(x, dim, info.batch_size) for x, dim in zip(args[:2], in_dims))
    return ops.bias.default(*rows, *args[2:]), 0


for _overload, _at in ((ops.add_sinusoidal.default, 2), (ops.lookup_add.default, 2), (ops.learned_rotary.default, 3)):
    torch.library.register_vmap(_overload, _tokens_rule(_overload, _at), lib=LIBRARY)
for _overload in (ops.sinusoidal.default, ops.cos_sin.default):
    torch.library.register_vmap(_overload, _positions_rule(_overload), lib=LIBRARY)
torch.library.register_vmap(ops.bias.default, _bias_rule, lib=LIBRARY)


def _loop_rule(overload: Any) -> Callable[..., Any]:
    return lambda info, in_dims, *args: loop(overload, info.batch_size, in_dims, args)


for _overload in (  # gradients: a sum for each mapped call
    ops.sinusoidal_amplitude_gradient.default,
    ops.lookup_gradient.default,
    ops.hierarchical_table.default,
    ops.learned_rotary_gradient.default,
):
    torch.library.register_vmap(_overload, _loop_rule(_overload), lib=LIBRARY)
