# SPDX-License-Identifier: Apache-2.0
"""Gradients of the operators: a rotation is linear, so its gradient is the transposed rotation and its tangent the rotation itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, _C
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from phasor._torch import checks, kernels, plain, sharding
from phasor._torch.operators import LIBRARY, OPERATORS, ROTARY, TABLES, Operator


def adjoint_direction(by_tables: bool, direction: int) -> int:
    if by_tables:  # inverse means transpose there
        return kernels.TRANSPOSE if direction == kernels.FORWARD else kernels.FORWARD
    return kernels.TRANSPOSED[direction]


def rotate_some(by_tables: bool, some: tuple[Tensor | None, ...], rest: tuple[Any, ...]) -> list[Tensor | None]:
    """The functional operator on those tensors that are there."""
    given = [x for x in some if x is not None]
    if not given:
        return list(some)
    given = [x if x.stride(-1) == 1 else x.contiguous() for x in given]  # gradients may come with any strides
    outs = (TABLES if by_tables else ROTARY)[len(given)](*given, *rest)
    left = iter((outs,) if len(given) == 1 else outs)
    return [None if x is None else next(left) for x in some]


class Rotate(torch.autograd.Function):
    """A functional operator, below which the dispatcher goes on."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, keyset: Any, *args: Any) -> Any:
        with _C._AutoDispatchBelowAutograd():
            result = operator.overload.redispatch(keyset & _C._after_autograd_keyset, *args)
        count = operator.tensors
        ctx.set_materialize_grads(False)
        ctx.operator, ctx.last = operator, args[count + 2 :]
        ctx.save_for_backward(*args[count : count + 2])  # words and positions, or cos and sin
        if forward_ad._current_level >= 0:
            ctx.save_for_forward(*args[count : count + 2])
            ctx.like = [torch.empty_like(x, device="meta") for x in args[:count]]
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        operator = ctx.operator
        *between, direction = ctx.last
        rest = (*ctx.saved_tensors, *between, adjoint_direction(operator.by_tables, direction))
        needed = tuple(g if need else None for g, need in zip(gradients, ctx.needs_input_grad[2:]))
        return None, None, *rotate_some(operator.by_tables, needed, rest), None, None, *(None for _ in ctx.last)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        operator = ctx.operator
        count = operator.tensors
        if any(t is not None for t in tangents[2 + count :]):
            raise NotImplementedError(f"{operator.name}: forward-mode gradients are by q and k only")
        result = rotate_some(operator.by_tables, tangents[2 : 2 + count], (*ctx.saved_tensors, *ctx.last))
        # PyTorch takes no None for the tangent of an output.
        given = next(x for x in result if x is not None)
        whole = [torch.zeros_like(like, device=given.device) if x is None else x for x, like in zip(result, ctx.like)]
        return whole[0] if count == 1 else tuple(whole)


_apply_here = super(torch.autograd.Function, Rotate).apply


def _apply(operator: Operator, keyset: Any, args: tuple[Any, ...]) -> Any:
    if not _C._are_functorch_transforms_active():
        return _apply_here(operator, keyset, *args)
    with enable_single_level_autograd_function():  # functorch has chosen its level already when this kernel is reached
        return _apply_here(operator, keyset, *args)


def _recorded(args: tuple[Any, ...]) -> bool:
    return (_C.is_grad_enabled() and _C._any_requires_grad(*args)) or forward_ad._current_level >= 0


def _refuse(operator: Operator, args: tuple[Any, ...]) -> None:
    """What no kernel below takes, and gradients by what is not rotated."""
    operator.check(operator.name, args[: operator.tensors], *args[operator.tensors :])
    if operator.by_tables and _C.is_grad_enabled():
        for name, x in zip(("cos", "sin"), args[operator.tensors :]):
            if x.requires_grad:
                raise NotImplementedError(f"{operator.name}: {name} requires a gradient; phasor.nn.LearnedRotary has one by frequencies")


def _by_learned_positions(operator: Operator, args: tuple[Any, ...]) -> Any:
    """Positions that learn, one tensor at a time."""
    count = operator.tensors
    words, *rest = args[count:]
    outs = tuple(torch.ops.phasor.learned_rotary(x, words, None, *rest) for x in args[:count])
    return outs[0] if count == 1 else outs


def _run_here(operator: Operator, args: tuple[Any, ...]) -> Any:
    try:
        return operator.kernel(*args)
    except Exception:
        _refuse(operator, args)
        raise


def _functional(operator: Operator) -> Callable[..., Any]:
    overload = operator.overload

    def kernel(keyset: Any, *args: Any) -> Any:
        if plain.all_plain(args) and not (_C.is_grad_enabled() and _C._any_requires_grad(*args)):
            return _run_here(operator, args)  # no kernel below would do more, and a second one in Python would double the cost
        _refuse(operator, args)
        sharding.any_sharded(args)
        if not operator.by_tables and args[operator.tensors + 1] is not None and args[operator.tensors + 1].requires_grad:
            return _by_learned_positions(operator, args)
        if _recorded(args):
            return _apply(operator, keyset, args)
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & _C._after_autograd_keyset, *args)

    return kernel


def _in_place(operator: Operator) -> Callable[..., Any]:
    overload, functional, count = operator.overload, operator.functional, operator.tensors

    def kernel(keyset: Any, *args: Any) -> None:
        tensors = args[:count]
        checks.writable(tensors)
        if plain.all_plain(args) and not (_C.is_grad_enabled() and _C._any_requires_grad(*args)):
            _run_here(operator, args)
            plain.written(*tensors, *(None,) * (2 - count))
            return
        _refuse(operator, args)
        if _recorded(args) or sharding.any_sharded(args) or any(x.is_neg() for x in tensors):
            outs = functional(*args)  # copy_ knows about views, history, placements and negative bits
            for x, out in zip(tensors, (outs,) if count == 1 else outs):
                x.copy_(out)
            return
        with _C._AutoDispatchBelowAutograd():
            overload.redispatch(keyset & _C._after_autograd_keyset, *args)
        plain.written(*tensors, *(None,) * (2 - count))

    return kernel


for _operator in OPERATORS:
    _make = _in_place if _operator.in_place else _functional
    LIBRARY.impl(_operator.name, _make(_operator), "Autograd", with_keyset=True)
