# SPDX-License-Identifier: Apache-2.0
"""phasor.apply_rotaries for PyTorch: operators that rotate one tensor, each row by its own spec, with gradients; and the short way past the dispatcher."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._torch import checks, private, sharding
from phasor._torch.eager import positions_and_first
from phasor._torch.kernels import FORWARD, INVERSE_TRANSPOSE, TRANSPOSED, rotary_of, where_of
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import TYPES, dense, direct, written
from phasor._torch.prepare.caches import list_beside, tensor_of, words_beside
from phasor._torch.recorded import Rule, below_autograd, register
from phasor._torch.vmap import loop

_compiling = torch.compiler.is_dynamo_compiling
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_REST = "Tensor[] words, Tensor? spec_of, Tensor? positions, SymInt first, int direction"  # words of each rotary, as those of `rotary`
LIBRARY.define(f"rotaries(Tensor x, {_REST}) -> Tensor", tags=_TAGS)
LIBRARY.define(f"rotaries_(Tensor(a!) q, {_REST}) -> ()", tags=_TAGS)
LIBRARY.define(f"rotaries_.qk(Tensor(a!) q, Tensor(b!) k, {_REST}) -> ()", tags=_TAGS)  # one call, which refuses before it writes
_NEW = torch.ops.phasor.rotaries.default
_IN_PLACE = {1: torch.ops.phasor.rotaries_.default, 2: torch.ops.phasor.rotaries_.qk}


def _scale_back(x: Tensor, cores: list[Any], spec_of: Tensor | None) -> None:
    """Forward has the amplitude where the transpose of the inverse has its reciprocal; rows may have several."""
    factors = [core.amplitude**-2 for core in cores]
    if x.numel() == 0 or all([factor == 1 for factor in factors]):
        return
    part = x.narrow(-1, cores[0].spec.rotary_offset, cores[0].rotary_width)
    if spec_of is None or len(set(factors)) == 1:
        part.mul_(factors[0])
        return
    made = torch.empty(len(factors), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32, device=x.device)
    for one, factor in zip(made, factors):
        one.fill_(factor)  # a list would be copied from the host, which a CUDA graph does not capture
    of = made[spec_of.reshape(-1).long().clamp(0, len(cores) - 1)]  # a GPU leaves rows with other numbers alone
    part.mul_(of.reshape(x.shape[0], -1, 1, 1) if x.ndim == 4 else of.reshape(-1, *(1,) * (x.ndim - 1)))


def _two(tensors: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """q and k, or q and None."""
    return (*tensors, None, None)[:2]


def _turn(
    tensors: tuple[Tensor, ...], outs: tuple[Tensor, ...], words: list[Tensor], spec_of: Tensor | None, where: Any, direction: int
) -> None:
    if not 0 <= direction <= INVERSE_TRANSPOSE:
        raise ValueError(f"apply_rotaries: direction is {direction}, wanted 0 (forward), 1 (inverse) or 2 (transpose)")
    cores = [rotary_of(one) for one in words]
    _core.apply_rotaries(cores, spec_of, (*_two(tensors), *_two(outs)), where, FORWARD if direction == INVERSE_TRANSPOSE else direction)
    if direction == INVERSE_TRANSPOSE:
        for x in outs or tensors:
            _scale_back(x, cores, spec_of)


def _new(x: Tensor, words: list[Tensor], spec_of: Tensor | None, positions: Tensor | None, first: int, direction: int) -> Tensor:
    out = torch.empty_like(x)
    _turn((x,), (out,), words, spec_of, where_of(positions, first), direction)
    return out


def _check(
    where: str,
    tensors: tuple[Tensor, ...],
    words: list[Tensor],
    spec_of: Tensor | None,
    positions: Tensor | None,
    first: Any,
    direction: int,
) -> None:
    """What can be known without values."""
    if not words:
        raise ValueError(f"{where}: rotaries has 0 entries, wanted 1 at least")
    for one in words:
        checks.shapes_by_positions(where, tensors, one, positions, first, direction)
    if spec_of is None:
        return
    checks.beside(where, "spec_of", spec_of, tensors[0])
    if spec_of.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{where}: spec_of is {spec_of.dtype}, wanted int32 or int64")


def _fake(x: Tensor, *rest: Any) -> Tensor:
    _check("apply_rotaries", (x,), *rest)
    return torch.empty_like(x)


LIBRARY.impl("rotaries", private.guarded(_new), "CompositeExplicitAutograd")
torch.library.register_fake("phasor::rotaries", _fake, lib=LIBRARY)


# ---- Gradients: a rotation is linear ----


def _backward(needs: tuple[bool, ...], arguments: tuple[Any, ...], gradients: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    (by,), direction = gradients, arguments[5]
    turned = _NEW(dense(by), *arguments[1:5], TRANSPOSED[direction]) if needs[0] and by is not None else None
    return turned, None, None, None, None, None


def _tangent(arguments: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    return _NEW(dense(tangents[0]), *arguments[1:6])


register(Rule(_NEW, frozenset([0]), frozenset([2, 3]), _backward, _tangent))


def _vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """One call for each: indices are by row or by token. Those of one call need not lie side by side among all of them."""

    def call(x: Tensor, words: list[Tensor], spec_of: Tensor | None, *rest: Any) -> Tensor:
        return _NEW(x, words, None if spec_of is None else spec_of.contiguous(), *rest)

    return loop(call, info.batch_size, in_dims, args)


torch.library.register_vmap("phasor::rotaries", _vmap, lib=LIBRARY)


def _no_vmap(*_: Any) -> Any:
    raise NotImplementedError("apply_rotaries_: called inside of vmap, wanted apply_rotaries, which gives a new tensor")


def _implement_in_place(name: str, count: int) -> None:
    def through_copy(*args: Any) -> None:
        """By PyTorch's own copy_, which knows about views, history and negative bits."""
        checks.writable(args[:count])
        outs = [_NEW(x, *args[count:]) for x in args[:count]]
        for x, out in zip(args, outs):
            x.copy_(out)

    def kernel(*args: Any) -> None:
        words, spec_of, positions, first, direction = args[count:]
        _turn(args[:count], (), words, spec_of, where_of(positions, first), direction)
        written(*_two(args[:count]))

    def autograd(keyset: Any, *args: Any) -> None:
        tensors, positions = args[:count], args[count + 2]
        checks.writable(tensors)
        if sharding.any_sharded((*tensors, args[count + 1], positions)):  # copy_ knows about placements
            through_copy(*args)
            return
        recorded = any([x.requires_grad or x.is_neg() for x in tensors]) or (positions is not None and positions.requires_grad)
        if recorded or private.forward_gradients():
            through_copy(*args)
        else:
            below_autograd(_IN_PLACE[count], keyset)(*args)

    if not private.OWN_KERNELS:
        LIBRARY.impl(name, through_copy, "CompositeImplicitAutograd")
        return
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(
        f"phasor::{name}", lambda *args: _check("apply_rotaries_", args[:count], *args[count:]), lib=LIBRARY
    )
    torch.library.register_vmap(f"phasor::{name}", _no_vmap, lib=LIBRARY)


_implement_in_place("rotaries_", 1)
_implement_in_place("rotaries_.qk", 2)


# ---- What phasor.apply_rotaries calls ----


def _given(where: str, spec_of: Any, tensors: tuple[Any, ...], positions: Any) -> tuple[Any, Any, Any]:
    """Indices beside the tensors; positions as a tensor, or None and the first of them."""
    if not isinstance(tensors[-1], Tensor):
        raise TypeError(f"{where}: q is a PyTorch tensor and k is {type(tensors[-1]).__name__}, wanted both of one library")
    checks.rotated(where, tensors)
    if not _compiling():
        sharding.of_one_kind(where, tensors)
    at, first = positions_and_first(positions, tensors[0])
    of = list_beside(tensors[0], where)(spec_of, "spec_of")
    checks.one_device(where, **dict(zip("qk", tensors)), positions=at, spec_of=of)
    return of, at, first


def _directly(tensors: tuple[Any, ...], at: Any, of: Any) -> bool:
    """Whether a call may go past the dispatcher."""
    if _compiling() or not direct(tensors[0], tensors[1] if len(tensors) == 2 else None, 0 if at is None else at):
        return False
    if isinstance(of, Tensor) and (type(of) not in TYPES or of.is_neg()):
        return False
    return not (torch.is_grad_enabled() and any([x.requires_grad for x in tensors]))


def rotaries(given: list[Any], spec_of: Any, tensors: tuple[Any, ...], positions: Any, direction: int) -> tuple[Tensor, ...]:
    """q, or q and k, rotated into new tensors, each row by its own of the rotaries."""
    of, at, first = _given("apply_rotaries", spec_of, tensors, positions)
    words = words_beside(tensors, given)
    if not _directly(tensors, at, of):
        return tuple([_NEW(x, words, tensor_of(of), at, first, direction) for x in tensors])
    outs = tuple([torch.empty_like(x, requires_grad=False) for x in tensors])
    _core.apply_rotaries([one._core for one in given], of, (*_two(tensors), *_two(outs)), first if at is None else at, direction)
    return outs


def rotaries_(given: list[Any], spec_of: Any, tensors: tuple[Any, ...], positions: Any, direction: int) -> None:
    """The same in place."""
    of, at, first = _given("apply_rotaries_", spec_of, tensors, positions)
    words = words_beside(tensors, given)
    if not _compiling():
        checks.writable(tensors)
    if _directly(tensors, at, of):
        _core.apply_rotaries([one._core for one in given], of, (*_two(tensors), None, None), first if at is None else at, direction)
        written(*_two(tensors))
        return
    _IN_PLACE[len(tensors)](*tensors, words, tensor_of(of), at, first, direction)
