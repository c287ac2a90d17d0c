# SPDX-License-Identifier: Apache-2.0
"""Gradients of operators backward and forward, under torch.func too, which torch.library.register_autograd does not reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phasor._torch import private, sharding
from phasor._torch.operators import LIBRARY


@dataclass(frozen=True)
class Rule:
    """How an operator is differentiated.

    `backward(needs, arguments, gradients)` gives a gradient for each argument, `tangent(arguments, tangents)` that of the result, where
    some tangent is there. `arguments` are those of the call and its first result; of tensors that are not in `kept` there is a Like only.
    """

    overload: Any
    by: frozenset[int]  # arguments, by number, that have gradients; of the others they are refused, never lost
    kept: frozenset[int]  # arguments whose values the gradients need; the number after the last is the result
    backward: Callable[[tuple[bool, ...], tuple[Any, ...], tuple[Tensor | None, ...]], tuple[Any, ...]]
    tangent: Callable[[tuple[Any, ...], tuple[Any, ...]], Tensor]


def below_autograd(overload: Any, keyset: Any) -> Callable[..., Any]:
    """The operator from here on, as an autograd function calls it.

    Such a function switches gradients off, but the transforms of torch.func that lie further out still have theirs to record.
    """
    recording = torch.is_grad_enabled()
    return lambda *args: private.redispatched(overload, keyset, args, recording)


def applied(apply: Callable[..., Any], what: Any, below: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """An autograd function at the level at which a kernel is: functorch has chosen it already."""
    with private.single_level():
        return apply(what, below, *args)


def any_requires_grad(args: tuple[Any, ...]) -> bool:
    """Whether a tensor among the arguments wants a gradient."""
    return any(isinstance(x, Tensor) and x.requires_grad for x in args)


class Like(NamedTuple):
    """What a gradient must know of a tensor whose values it does not need."""

    shape: torch.Size
    dtype: torch.dtype

    def zeros(self, device: torch.device) -> Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device=device)

    def shell(self, device: torch.device) -> Tensor:
        """A tensor that an operator asks for its shape and dtype alone."""
        return torch.empty((), dtype=self.dtype, device=device).expand(self.shape)


class Recorded(torch.autograd.Function):
    """An operator, below which the dispatcher goes on."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, below: Callable[..., Any], *args: Any) -> Any:
        result = below(*args)
        ctx.rule = rule
        saved = _keep(ctx, rule, args, result)
        if private.forward_gradients():
            ctx.save_for_forward(*saved)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        needs = ctx.needs_input_grad[2:]
        if all(gradient is None for gradient in gradients):
            return None, None, *(None for _ in needs)
        return None, None, *ctx.rule.backward(needs, _arguments(ctx), gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        _refuse(ctx.rule, (i for i, x in enumerate(tangents[2:]) if x is not None))
        return ctx.rule.tangent(_arguments(ctx), tangents[2:])


def _keep(ctx: Any, rule: Rule, args: tuple[Any, ...], result: Any) -> tuple[Tensor, ...]:
    """Keeps what the gradients need, and gives the tensors among it."""
    ctx.set_materialize_grads(False)
    whole = (*args, result[0] if isinstance(result, tuple) else result)
    keeps = [i in rule.kept and isinstance(x, Tensor) for i, x in enumerate(whole)]
    ctx.rest = tuple(None if keep else Like(x.shape, x.dtype) if isinstance(x, Tensor) else x for keep, x in zip(keeps, whole))
    ctx.keeps = keeps
    saved = tuple(x for keep, x in zip(keeps, whole) if keep)
    ctx.save_for_backward(*saved)
    return saved


def _arguments(ctx: Any) -> tuple[Any, ...]:
    saved = iter(ctx.saved_tensors)
    return tuple(next(saved) if keep else x for keep, x in zip(ctx.keeps, ctx.rest))


_apply_here = super(torch.autograd.Function, Recorded).apply


def _refuse(rule: Rule, watched: Iterable[int]) -> None:
    for i in watched:
        if i not in rule.by:
            # PyTorch has no public way to the names of an operator's parameters.
            schema = getattr(rule.overload, "_schema", None)
            name = f"argument {i}" if schema is None else schema.arguments[i].name
            raise NotImplementedError(f"{name_of(rule.overload)}: there is no gradient by {name}, wanted {name}.detach()")


def name_of(overload: Any) -> str:
    """`rotary.qk` of phasor::rotary.qk."""
    return overload.name().removeprefix("phasor::")


def register(rule: Rule) -> None:
    """Makes the operator differentiable by its rule."""
    sharding.by_shards(rule.overload, None)
    if not private.OWN_KERNELS:
        _register_by_library(rule)
        return

    def kernel(keyset: Any, *args: Any) -> Any:
        if sharding.any_sharded(args):
            return sharding.of_shards(rule.overload, args)
        recording = torch.is_grad_enabled() and any_requires_grad(args)
        if recording:
            _refuse(rule, (i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad))
        below = below_autograd(rule.overload, keyset)
        return applied(_apply_here, rule, below, args) if recording or private.forward_gradients() else below(*args)

    LIBRARY.impl(name_of(rule.overload), kernel, "Autograd", with_keyset=True)


def _register_by_library(rule: Rule) -> None:
    """The same by what PyTorch publishes: gradients backward alone."""

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _refuse(rule, (i for i, needed in enumerate(ctx.needs_input_grad) if (any(needed) if isinstance(needed, (list, tuple)) else needed)))
        _keep(ctx, rule, inputs, output)

    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        needs = tuple(ctx.needs_input_grad)
        given = [None] * len(needs) if all(gradient is None for gradient in gradients) else rule.backward(needs, _arguments(ctx), gradients)
        return tuple([None] * len(need) if isinstance(need, (list, tuple)) else by for need, by in zip(needs, given))  # lists have none

    torch.library.register_autograd(rule.overload, backward, setup_context=setup, lib=LIBRARY)


def _no_gradient(*_: Any) -> Any:
    raise AssertionError("an operator without gradients was differentiated")  # register refuses before


def register_without(overload: Any) -> None:
    """Makes gradients by any argument of the operator an error."""
    register(Rule(overload, frozenset(), frozenset(), _no_gradient, _no_gradient))
