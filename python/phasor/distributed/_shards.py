# SPDX-License-Identifier: Apache-2.0
"""shard and unshard: a whole tensor to its parts, and back, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phasor.distributed._agree import Facts, agree
from phasor.distributed._exchange import every_part, summed
from phasor.distributed._group import Group, group_of
from phasor.distributed._orders import Dealt, Order, dealt, order_name, starts_of

__all__ = ["shard", "unshard"]


def _index(values: Any, beside: Tensor) -> Tensor:
    return torch.from_numpy(values).to(beside.device)


def _joined(group: Group, local: Tensor, dim: int, how: Dealt) -> Tensor:
    """The parts of all ranks in the order of the whole."""
    parts = every_part(group, [local], [dim], how.counts())()
    return torch.cat([x for part in parts for x in part], dim).index_select(dim, _index(how.places, local))


class _Shard(torch.autograd.Function):
    """The whole is the same on every rank, so its gradient is that of all parts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int, how: Dealt) -> Tensor:
        ctx.call = group, dim, how
        return x.index_select(dim, _index(how.tokens[group.rank], x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _joined(ctx.call[0], gradient, *ctx.call[1:]), None, None, None


class _Unshard(torch.autograd.Function):
    """What is made of the whole is the same on every rank: the gradient is a part of each rank's own. Or ranks make different things of it: the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int, how: Dealt, sums: bool) -> Tensor:
        ctx.call = group, dim, how, sums
        return _joined(group, x, dim, how)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        group, dim, how, sums = ctx.call
        if sums:
            (gradient,) = summed(group, [gradient])
        return gradient.index_select(dim, _index(how.tokens[group.rank], gradient)), None, None, None, None


def _axis(x: Any, dim: int, where: str) -> int:
    if not isinstance(x, Tensor):
        raise TypeError(f"{where}: x is {type(x).__name__}, wanted a PyTorch tensor")
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(f"{where}: dim is {dim}, wanted an axis of {x.ndim}")
    return dim % x.ndim


def _shape(x: Tensor, dim: int) -> str:
    return "(" + ", ".join("tokens" if n == dim else str(size) for n, size in enumerate(x.shape)) + ")"


def shard(
    x: Tensor, mesh: Any = None, dim: int = 1, order: Order = "zigzag", cu_seqlens: Any = None, *, timeout: float | None = None
) -> tuple[Tensor, Tensor]:
    """The tokens of x that this rank holds, and their positions, (T) of int64, exact for any length; x is the same on every rank.

    order: "zigzag" (causal attention is equal work for all), "striped", "contiguous", or a permutation of the tokens, of which each rank takes the
    next part. cu_seqlens: several sequences in one, each dealt out by itself, positions from 0. Lengths may divide by nothing, and ranks
    hold no token. The gradient of x is that of the whole, on every rank.
    """
    where = "distributed.shard"
    group = group_of(mesh, where, timeout, x)

    def checked() -> tuple[Facts, list[int], Any]:
        axis = _axis(x, dim, where)
        whole = starts_of(cu_seqlens, x.shape[axis], where)
        facts = {"shape": str(tuple(x.shape)), "dtype": str(x.dtype), "dim": str(axis), "order": order_name(order), "cu_seqlens": str(whole)}
        facts["gradient"] = str(x.requires_grad and torch.is_grad_enabled())
        return facts, [], (axis, dealt(order, whole, group.size, where))

    _, (axis, how) = agree(group, checked, 0)
    return _Shard.apply(x, group, axis, how), _index(how.positions[group.rank], x)  # type: ignore[no-untyped-call]


def unshard(
    x: Tensor,
    mesh: Any = None,
    dim: int = 1,
    order: Order = "zigzag",
    length: int | None = None,
    cu_seqlens: Any = None,
    *,
    sum_gradients: bool = False,
    timeout: float | None = None,
) -> Tensor:
    """The whole of what `shard` dealt out, on every rank. length: tokens of the whole, where they are to be checked.

    sum_gradients: ranks make different things of the whole (each a part of the loss), so that gradients add up; unless given, all make the same.
    """
    where = "distributed.unshard"
    group = group_of(mesh, where, timeout, x)

    def checked() -> tuple[Facts, list[int], Any]:
        axis = _axis(x, dim, where)
        facts = {"shape": _shape(x, axis), "dtype": str(x.dtype), "order": order_name(order), "length": str(length)}
        facts["cu_seqlens"] = "none" if cu_seqlens is None else str(torch.as_tensor(cu_seqlens).tolist())
        facts |= {"sum_gradients": str(sum_gradients), "gradient": str(x.requires_grad and torch.is_grad_enabled())}
        return facts, [x.shape[axis]], axis

    numbers, axis = agree(group, checked, 1)
    counts = [n for (n,) in numbers]
    total = sum(counts) if length is None else length
    how = dealt(order, starts_of(cu_seqlens, total, where), group.size, where)
    if counts != how.counts():
        raise ValueError(f"{where}: ranks have {counts} tokens, wanted {how.counts()} of {total} in the order {order_name(order)}")
    return _Unshard.apply(x, group, axis, how, sum_gradients)  # type: ignore[no-untyped-call]

