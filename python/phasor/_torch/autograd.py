# SPDX-License-Identifier: Apache-2.0
"""Gradients of the operators: a rotation is linear, so its gradient is the transposed rotation and its tangent the rotation itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phasor._torch import checks, kernels, private, sharding, table_gradient
from phasor._torch.operators import LIBRARY, OPERATORS, ROTARY, TABLES, Operator
from phasor._torch.plain import dense, quiet
from phasor._torch.recorded import any_requires_grad, applied, below_autograd, register_without


def adjoint_direction(by_tables: bool, direction: int) -> int:
    if by_tables:  # inverse means transpose there
        return kernels.TRANSPOSE if direction == kernels.FORWARD else kernels.FORWARD
    return kernels.TRANSPOSED[direction]


def rotate_some(by_tables: bool, some: tuple[Tensor | None, ...], rest: tuple[Any, ...]) -> list[Tensor | None]:
    """The functional operator on those tensors that are there."""
    given = [x for x in some if x is not None]
    if not given:
        return list(some)
    outs = (TABLES if by_tables else ROTARY)[len(given)](*(dense(x) for x in given), *rest)
    left = iter((outs,) if len(given) == 1 else outs)
    return [None if x is None else next(left) for x in some]


def without_gradient(ctx: Any, outs: tuple[Tensor | None, ...], needed: tuple[bool, ...]) -> None:
    """Of q and k that are rotated together, one that does not learn stays so."""
    still = [out for out, need in zip(outs, needed) if out is not None and not need]
    if still and not private.forward_gradients():
        ctx.mark_non_differentiable(*still)


def _keep(ctx: Any, operator: Operator, args: tuple[Any, ...]) -> bool:
    """Keeps what the gradients need; whether the tables learn, which need the tensors too."""
    count = operator.tensors
    ctx.set_materialize_grads(False)
    ctx.operator, ctx.last = operator, args[count + 2 :]
    by = args[count : count + 2]  # words and positions, or cos and sin
    learning = operator.by_tables and any(x.requires_grad for x in by)
    ctx.save_for_backward(*by, *(args[:count] if learning else ()))
    return learning


def _gradients(ctx: Any, needs: tuple[bool, ...], gradients: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    """One for each argument of the operator."""
    operator = ctx.operator
    *between, direction = ctx.last
    first, second, *rotated = ctx.saved_tensors
    rest = (first, second, *between, adjoint_direction(operator.by_tables, direction))
    needed = tuple(g if need else None for g, need in zip(gradients, needs))
    by = table_gradient.by_tables(tuple(rotated), gradients, (first, second), between[0], direction) if rotated else (None, None)
    return *rotate_some(operator.by_tables, needed, rest), *by, *(None for _ in ctx.last)


class Rotate(torch.autograd.Function):
    """A functional operator, below which the dispatcher goes on."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, below: Callable[..., Any], *args: Any) -> Any:
        result = below(*args)
        count = operator.tensors
        if not _keep(ctx, operator, args):
            without_gradient(ctx, (result,) if count == 1 else result, ctx.needs_input_grad[2:])
        if private.forward_gradients():
            ctx.save_for_forward(*args[count : count + 2])
            ctx.like = [torch.empty_like(x, device="meta") for x in args[:count]]
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return None, None, *_gradients(ctx, ctx.needs_input_grad[2:], gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        operator = ctx.operator
        count = operator.tensors
        if any(t is not None for t in tangents[2 + count :]):
            raise NotImplementedError(f"{operator.name}: forward-mode gradients are by q and k only")
        result = rotate_some(operator.by_tables, tangents[2 : 2 + count], (*ctx.saved_tensors[:2], *ctx.last))
        # PyTorch takes no None for the tangent of an output.
        given = next(x for x in result if x is not None)
        whole = [torch.zeros_like(like, device=given.device) if x is None else x for x, like in zip(result, ctx.like)]
        return whole[0] if count == 1 else tuple(whole)


_apply_here = super(torch.autograd.Function, Rotate).apply


def _recorded(args: tuple[Any, ...]) -> bool:
    return (torch.is_grad_enabled() and any_requires_grad(args)) or private.forward_gradients()


def _refuse(operator: Operator, args: tuple[Any, ...]) -> None:
    """What no kernel below takes."""
    operator.check(operator.name, args[: operator.tensors], *args[operator.tensors :])


def _by_learned_positions(operator: Operator, args: tuple[Any, ...]) -> Any:
    """Positions that learn, one tensor at a time."""
    count = operator.tensors
    words, *rest = args[count:]
    outs = tuple(torch.ops.phasor.learned_rotary(x, words, None, *rest) for x in args[:count])
    return outs[0] if count == 1 else outs


def _functional(operator: Operator) -> Callable[..., Any]:
    overload, count, body, by_tables = operator.overload, operator.tensors, operator.kernel, operator.by_tables

    def kernel(keyset: Any, *args: Any) -> Any:
        if quiet(args, count, by_tables):
            try:
                return body(*args)  # no kernel below would do more, and a second one in Python would double the cost
            except Exception:
                _refuse(operator, args)
                raise
        _refuse(operator, args)
        sharding.any_sharded(args)
        if not by_tables and args[count + 1] is not None and args[count + 1].requires_grad:
            return _by_learned_positions(operator, args)
        below = below_autograd(overload, keyset)
        return applied(_apply_here, operator, below, args) if _recorded(args) else below(*args)

    return kernel


def _in_place(operator: Operator) -> Callable[..., Any]:
    overload, functional, count, body = operator.overload, operator.functional, operator.tensors, operator.kernel
    by_tables = operator.by_tables

    def kernel(keyset: Any, *args: Any) -> None:
        if quiet(args, count, by_tables) and not args[0].is_inference() and not (count == 2 and args[1].is_inference()):
            try:
                return body(*args)
            except Exception:
                _refuse(operator, args)
                raise
        tensors = args[:count]
        checks.writable(tensors)
        _refuse(operator, args)
        if _recorded(args) or sharding.any_sharded(args) or any(x.is_neg() for x in tensors):
            outs = functional(*args)  # copy_ knows about views, history, placements and negative bits
            for x, out in zip(tensors, (outs,) if count == 1 else outs):
                x.copy_(out)
            return
        below_autograd(overload, keyset)(*args)

    return kernel


def _register_by_library(operator: Operator) -> None:
    """Gradients backward of a functional operator by what PyTorch publishes; those in place are made of functional ones then."""

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        positions = operator.tensors + 1
        if not operator.by_tables and ctx.needs_input_grad[positions]:
            raise NotImplementedError(f"{operator.name}: positions require a gradient, for which this PyTorch has no way; use learned_rotary")
        _keep(ctx, operator, inputs)

    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        return _gradients(ctx, tuple(ctx.needs_input_grad), gradients)

    torch.library.register_autograd(operator.overload, backward, setup_context=setup, lib=LIBRARY)


for _operator in OPERATORS:
    if private.OWN_KERNELS:
        _make = _in_place if _operator.in_place else _functional
        LIBRARY.impl(_operator.name, _make(_operator), "Autograd", with_keyset=True)
    elif not _operator.in_place:
        _register_by_library(_operator)
register_without(torch.ops.phasor.cos_sin.default)
