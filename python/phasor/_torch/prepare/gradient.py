# SPDX-License-Identifier: Apache-2.0
"""The step before attention without caches, for training: norm and rotation into new tensors as an operator, and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from phasor import _core
from phasor._prepare.call import Lists
from phasor._torch import checks, private, sharding
from phasor._torch.kernels import rotary_of
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import dense
from phasor._torch.recorded import below_autograd

_WHERE = "prepare_attention"
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
# `read` are weights, factors, numbers of specs and tables. Results are those of the heads that are given, in the order q, k, v.
_HEADS = "Tensor? q, Tensor? k, Tensor? v"
_REST = "Tensor[] words, Tensor? positions, SymInt first, Tensor[] read, SymInt[] numbers, float[] reals"
LIBRARY.define(f"prepare_attention({_HEADS}, {_REST}) -> Tensor[]", tags=_TAGS)
# A gradient by a head that nobody wants is not given; then its results are empty. Results: by q, k, v, by the weights of their norms, and by
# the factors of queries; `wanted` says which of the last four.
LIBRARY.define(
    f"prepare_attention_backward(Tensor? q_gradient, Tensor? k_gradient, Tensor? v_gradient, {_HEADS}, {_REST}, bool[] wanted) -> Tensor[]",
    tags=_TAGS,
)


class Layout(NamedTuple):
    """Where a call's arrays lie in `read`; -1: not given."""

    norms: list[int | None]  # of q, k and v the weight of its norm: -1 for a norm without one, None for no norm
    over_all: list[bool]  # whether that norm is over all heads
    factors: int
    spec_of: int
    cos: int
    sin: int


def layout_of(numbers: list[int]) -> Layout:
    """From the numbers of a call, as phasor/_prepare/call.py writes them."""
    at = 4 if numbers[2] else 3  # after order, between and q's offset
    norms: list[int | None] = []
    over_all: list[bool] = []
    for _ in range(3):
        norms.append(int(numbers[at + 5]) if numbers[at] else None)
        over_all.append(bool(numbers[at]) and numbers[at + 1] == 1)
        at += 6 if numbers[at] else 1
    factors, spec_of, cos = (int(x) for x in numbers[at : at + 3])
    return Layout(norms, over_all, factors, spec_of, cos, -1 if cos < 0 else int(numbers[at + 3]))


def _numbers_of(numbers: list[int]) -> tuple[list[int | None], int]:
    """What learns: the weights of norms, and the factors."""
    found = layout_of(numbers)
    return found.norms, found.factors


def _where(positions: Tensor | None, first: int) -> Tensor | int:
    return first if positions is None else positions


def _lying(heads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    return tuple(None if x is None else dense(x) for x in heads)


def _kernel(q: Any, k: Any, v: Any, words: Any, positions: Any, first: int, read: Any, numbers: Any, reals: Any) -> list[Tensor]:
    heads = _lying((q, k, v))
    outs = [None if x is None else torch.empty_like(x) for x in heads]
    call = Lists()
    call.read, call.numbers, call.reals = list(read), list(numbers), list(reals)
    call.tensors(outs)
    given = (call.read, call.written, call.numbers, call.reals)
    _core.prepare_attention(heads, [rotary_of(one) for one in words], _where(positions, first), given)
    return [out for out in outs if out is not None]


def _gradient_shapes(gradients: tuple[Any, ...], read: Any, numbers: Any, wanted: Any) -> list[Tensor]:
    """Memory for the seven results."""
    anywhere = next(x for x in gradients if x is not None)
    nothing = (anywhere.new_empty(0) for _ in range(7))
    norms, factors = _numbers_of(numbers)
    by_heads = [next(nothing) if x is None else torch.empty_like(x) for x in gradients]
    numbered = [read[n] if wants and n is not None and n >= 0 else None for n, wants in zip((*norms, factors), wanted)]
    return by_heads + [next(nothing) if x is None else x.new_empty(x.shape) for x in numbered]


def _backward_kernel(*args: Any) -> list[Tensor]:
    gradients, heads = _lying(args[:3]), _lying(args[3:6])
    words, positions, first, read, numbers, reals, wanted = args[6:]
    made = _gradient_shapes(gradients, read, numbers, wanted)
    sums = [x.new_empty(x.shape, dtype=torch.float32) if x.numel() else None for x in made[3:6]]
    by = (*(None if g is None else (g, x, s) for g, x, s in zip(gradients, made, sums)), made[6] if made[6].numel() else None)
    # Of a head without a norm (nor factors that learn) the values are not read, and it is not kept: its gradient has the shape.
    inputs = tuple(g if x is None else x for g, x in zip(gradients, heads))
    place = next(x for x in gradients if x is not None)
    call: tuple[Any, ...] = (inputs, [rotary_of(one) for one in words], _where(positions, first), (list(read), [], list(numbers), list(reals)))
    _core.prepare_attention_backward(call, by, lambda size: place.new_empty(size, dtype=torch.float64))
    return made[:3] + [x if s is None else x.copy_(s) for x, s in zip(made[3:6], sums)] + made[6:]


LIBRARY.impl("prepare_attention", private.guarded(_kernel), "CompositeExplicitAutograd")
LIBRARY.impl("prepare_attention_backward", private.guarded(_backward_kernel), "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::prepare_attention", lib=LIBRARY)
def _(q: Any, k: Any, v: Any, words: Any, positions: Any, first: Any, read: Any, numbers: Any, reals: Any) -> list[Tensor]:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x is not None:
            checks.kind(_WHERE, name, x)
    return [torch.empty_like(dense(x)) for x in (q, k, v) if x is not None]


@torch.library.register_fake("phasor::prepare_attention_backward", lib=LIBRARY)
def _(*args: Any) -> list[Tensor]:
    return _gradient_shapes(_lying(args[:3]), args[9], args[10], args[12])


# ---- Gradients ----


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps what the gradients need, and lets the result of a head that does not learn not learn either."""
    q, k, v, words, positions, ctx.first, read, ctx.numbers, ctx.reals = inputs
    norms, factors = _numbers_of(ctx.numbers)
    others = [x for n, x in enumerate(read) if n not in (*norms, factors)]
    if any(x is not None and x.requires_grad for x in (positions, *others)):
        raise NotImplementedError(f"{_WHERE}: positions or tables require a gradient, which there is none by; wanted them detached")
    by_factors = factors >= 0 and read[factors].requires_grad
    ctx.given = [x is not None for x in (q, k, v)]
    ctx.words = len(words)
    ctx.set_materialize_grads(False)
    read_heads = [norm is not None or (by_factors and x is q) for x, norm in zip((q, k, v), norms)]
    ctx.save_for_backward(*(x if reads else None for x, reads in zip((q, k, v), read_heads)), positions, *words, *read)
    weights = [None if norm is None or norm < 0 else read[norm] for norm in norms]
    learns = [w is not None and w.requires_grad for w in weights]
    learns[0] = learns[0] or by_factors
    learning = [x.requires_grad or more for x, more in zip((q, k, v), learns) if x is not None]
    ctx.mark_non_differentiable(*(out for out, one in zip(output, learning) if not one))


def _gradients(ctx: Any, needs: Any, read_needs: Any, gradients: Any) -> tuple[list[Any], list[Any]]:
    """By q, k and v, and by what is read."""
    q, k, v, positions, *rest = ctx.saved_tensors
    words, read = rest[: ctx.words], rest[ctx.words :]
    norms, factors = _numbers_of(ctx.numbers)
    left = iter(gradients)
    by_outputs = [next(left) if given else None for given in ctx.given]
    by_weights = [norm is not None and norm >= 0 and read_needs[norm] and by is not None for norm, by in zip(norms, by_outputs)]
    by_factors = factors >= 0 and read_needs[factors] and by_outputs[0] is not None
    reasons = [need or by_weight for need, by_weight in zip(needs, by_weights)]
    wanted = [by if reason else None for by, reason in zip(by_outputs, (reasons[0] or by_factors, *reasons[1:]))]
    of_read: list[Any] = [None] * len(read)
    if all(by is None for by in wanted):
        return [None, None, None], of_read
    made = torch.ops.phasor.prepare_attention_backward(
        *wanted, q, k, v, words, positions, ctx.first, read, ctx.numbers, ctx.reals, [*by_weights, by_factors]
    )
    if by_factors:
        of_read[factors] = made[6]
    for norm, wants, x in zip(norms, by_weights, made[3:6]):
        if norm is not None and wants:  # one weight may be the norm of q and of k
            of_read[norm] = x if of_read[norm] is None else of_read[norm] + x
    return [x if need and by is not None else None for x, need, by in zip(made, needs, wanted)], of_read


def _no_second(ctx: Any, *gradients: Any) -> Any:
    raise NotImplementedError(f"{_WHERE}: the gradient of its gradient is wanted, which it has not; use PyTorch's own norm and a rotation for that")


class Prepared(torch.autograd.Function):
    """The operator, below which the dispatcher goes on. Autograd sees the tensors of its lists only where they stand by themselves."""

    @staticmethod
    def forward(ctx: Any, below: Any, args: tuple[Any, ...], *tensors: Any) -> Any:
        outs = tuple(below(*args))
        _keep(ctx, args, outs)
        return outs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        needs = ctx.needs_input_grad[2:]
        by_heads, of_read = _gradients(ctx, needs[:3], needs[4:], gradients)
        return None, None, *by_heads, None, *of_read


class PreparedBackward(torch.autograd.Function):
    """The operator of its gradient, which has none."""

    @staticmethod
    def forward(ctx: Any, below: Any, args: tuple[Any, ...], *tensors: Any) -> Any:
        return tuple(below(*args))

    backward = staticmethod(_no_second)


def _register(overload: Any, function: Any, tensors_of: Any) -> None:
    """Gradients of an operator by an autograd function; others than backward ones are refused."""
    apply_here = super(torch.autograd.Function, function).apply

    def kernel(keyset: Any, *args: Any) -> list[Tensor]:
        tensors = tensors_of(args)
        private.refuse_tangents(_WHERE, tensors)
        if sharding.any_sharded(tuple(tensors)):
            return sharding.of_shards(overload, args)
        below = below_autograd(overload, keyset)
        recording = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
        if not recording:
            return list(below(*args))
        with private.single_level():  # of torch.func's transforms: functorch has chosen it already
            return list(apply_here(below, args, *tensors))

    LIBRARY.impl(overload.name().removeprefix("phasor::"), kernel, "Autograd", with_keyset=True)


def _register_by_library() -> None:
    """The same by what PyTorch publishes."""

    def backward(ctx: Any, gradients: Any) -> Any:
        needs = ctx.needs_input_grad
        by_heads, of_read = _gradients(ctx, needs[:3], needs[6], gradients)
        return *by_heads, [None] * ctx.words, None, None, of_read, None, None

    torch.library.register_autograd("phasor::prepare_attention", backward, setup_context=_keep, lib=LIBRARY)
    torch.library.register_autograd("phasor::prepare_attention_backward", _no_second, lib=LIBRARY)


if private.OWN_KERNELS:
    _register(torch.ops.phasor.prepare_attention.default, Prepared, lambda args: (*args[:3], args[4], *args[6]))
    _register(torch.ops.phasor.prepare_attention_backward.default, PreparedBackward, lambda args: (*args[:6], args[7], *args[9]))
else:
    _register_by_library()
