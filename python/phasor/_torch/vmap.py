# SPDX-License-Identifier: Apache-2.0
"""vmap: the mapped axis becomes part of the batch, so that a mapped call is one call of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phasor._torch.operators import LIBRARY, OPERATORS, Operator
from phasor._torch.plain import dense

Dim = int | None


def _mapped_first(x: Tensor, dim: Dim, size: int) -> Tensor:
    """(V, ...), by a stride of 0 where x is not mapped."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _as_batch(x: Tensor) -> Tensor:
    """(V, B, T, H, D), (V, T, H, D) or (V, T, D) as (V B, T, H, D). Copies only where strides do not allow a view."""
    if x.ndim == 3:
        return x.unsqueeze(2)
    return x if x.ndim == 4 else x.flatten(0, 1)


def _positions(x: Tensor, dim: Dim, size: int, rows: int) -> Tensor:
    """Positions of V B rows, from those of one call for each of V: (T), (B, T) or (axes, B, T)."""
    axes = x.ndim - (dim is not None)
    if dim is None and (axes == 1 or x.shape[-2] == 1):
        return x  # shared by every row
    x = _mapped_first(x, dim, size)
    if axes == 1:
        x = x.unsqueeze(1)  # (V, 1, T)
    if axes == 3:
        x = x.movedim(1, 0)  # (axes, V, B, T)
    return x.expand(*x.shape[:-2], rows, x.shape[-1]).flatten(-3, -2)


def _table(x: Tensor, dim: Dim, size: int, rows: int) -> Tensor:
    """Tables of V B rows, from (T, P), (B, T, P) or (B, T, H, P) of one call for each of V."""
    axes = x.ndim - (dim is not None)
    if dim is None and (axes == 2 or x.shape[0] == 1):
        return x
    x = _mapped_first(x, dim, size)
    if axes == 2:
        x = x.unsqueeze(1)
    return x.expand(x.shape[0], rows, *x.shape[2:]).flatten(0, 1)


def _rest(operator: Operator, size: int, rows: int, dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is not rotated, for V B rows."""
    if operator.by_tables:
        return _table(args[0], dims[0], size, rows), _table(args[1], dims[1], size, rows), *args[2:]
    if dims[0] is not None:
        raise NotImplementedError(f"vmap of phasor::{operator.name}: words are mapped, every mapped call must have the same spec")
    positions = None if args[1] is None else _positions(args[1], dims[1], size, rows)
    return args[0], positions, *args[2:]


def _rule(operator: Operator) -> Callable[..., Any]:
    count, in_place = operator.tensors, operator.in_place

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size = info.batch_size
        if in_place and any(dim is None for dim in in_dims[:count]):
            raise RuntimeError(
                f"vmap: phasor::{operator.name} writes to a tensor that is not mapped; use phasor::{operator.functional._opname}"
            )
        mapped = [_mapped_first(x, dim, size) for x, dim in zip(args[:count], in_dims)]
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


for _operator in OPERATORS:
    torch.library.register_vmap(_operator.overload, _rule(_operator), lib=LIBRARY)
