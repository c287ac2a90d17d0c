# SPDX-License-Identifier: Apache-2.0
"""The operator of the step before attention, which writes to caches; and the short way past the dispatcher for eager calls.

Without caches it is an operator of its own, with gradients: gradient.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasor import _core
from phasor._arrays import gpu_of, read
from phasor._numbers import integers
from phasor._torch import checks, private, sharding
from phasor._torch.eager import _beside_fake, positions_and_first, words_of
from phasor._torch.kernels import rotary_of
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import TYPES, dense
from phasor._torch.recorded import below_autograd

_WHERE = "prepare_attention"
_compiling = torch.compiler.is_dynamo_compiling

# `read` are weights, lists, factors, tables and given scales; `written` the outputs, caches and made scales. A spec's words as in `rotary`.
LIBRARY.define(
    "prepare_attention_(Tensor? q, Tensor? k, Tensor? v, Tensor[] words, Tensor? positions, SymInt first, Tensor[] read,"
    " Tensor(a!)[] written, SymInt[] numbers, float[] reals) -> ()",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides),
)
_OVERLOAD = torch.ops.phasor.prepare_attention_.default
_increment_version = private.increment_version


def _named(heads: tuple[Any, ...], positions: Any, read: list[Any], written: list[Any]) -> dict[str, Any]:
    """Every tensor of a call of the operator, which knows no names but of the heads, by what messages call it."""
    found: dict[str, Any] = {name: x for name, x in zip("qkv", heads) if x is not None}
    found |= {} if positions is None else {"positions": positions}
    found |= {f"array {i} that is read": x for i, x in enumerate(read)}
    return found | {f"array {i} that is written": x for i, x in enumerate(written)}


def _named_call(heads: tuple[Any, ...], positions: Any, call: Any) -> dict[str, Any]:
    """Every tensor of a call by the name of its argument."""
    found = _named(heads, positions, [], [])
    return found | dict(zip(call.read_names, call.read)) | dict(zip(call.written_names, call.written))


def _check(named: dict[str, Any]) -> None:
    """What can be known without values: kinds of tensors, one device."""
    for name, x in named.items():
        checks.kind(_WHERE, name, x)
    checks.one_device(_WHERE, **named)


def _kernel(
    q: Tensor | None,
    k: Tensor | None,
    v: Tensor | None,
    words: list[Tensor],
    positions: Tensor | None,
    first: int,
    read: list[Tensor],
    written: list[Tensor],
    numbers: list[int],
    reals: list[float],
) -> None:
    _check(_named((q, k, v), positions, read, written))
    where = first if positions is None else positions
    _core.prepare_attention((q, k, v), [rotary_of(one) for one in words], where, (read, written, numbers, reals))
    if written:
        _increment_version(written)


LIBRARY.impl("prepare_attention_", private.guarded(_kernel), "CompositeExplicitAutograd")


def _refuse_other_dtypes(written: list[Tensor]) -> None:
    """A view of another dtype is no view to a compiler: of a tensor that is written through two of them it keeps one's numbers."""
    found: dict[int, torch.dtype] = {}
    for x in written:
        if found.setdefault(x.untyped_storage()._cdata, x.dtype) != x.dtype:
            raise ValueError(f"{_WHERE}: arrays of {found[x.untyped_storage()._cdata]} and {x.dtype} are written in one tensor, wanted slices of uint8, each with its storage")


@torch.library.register_fake("phasor::prepare_attention_", lib=LIBRARY)
def _(q: Any, k: Any, v: Any, words: Any, positions: Any, first: Any, read: Any, written: Any, numbers: Any, reals: Any) -> None:
    _check(_named((q, k, v), positions, read, written))
    _refuse_other_dtypes(written)


def _learns(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _refuse_gradients(tensors: list[Any], written: list[Any]) -> None:
    """What would be lost: this is a step of inference."""
    if torch.is_grad_enabled() and any([_learns(x) for x in tensors]):
        raise ValueError(f"{_WHERE}: a tensor requires a gradient, wanted tensor.detach() or torch.no_grad()")
    if not _compiling():  # which cannot look for tensors of inference mode; the operator does
        checks.writable(tuple(x for x in written if isinstance(x, Tensor)))


def _no_vmap(*_: Any) -> Any:
    raise NotImplementedError(f"{_WHERE}: called inside of vmap, wanted the mapped axis as batch rows or tokens")


if private.OWN_KERNELS:

    def _autograd(keyset: Any, *args: Any) -> None:
        q, k, v, _, positions, _, read, written, _, _ = args
        tensors = [q, k, v, positions, *read, *written]
        private.refuse_forward(_WHERE, tensors)
        _refuse_gradients(tensors, written)
        below_autograd(_OVERLOAD, keyset)(*args)

    LIBRARY.impl("prepare_attention_", _autograd, "Autograd", with_keyset=True)
    torch.library.register_vmap("phasor::prepare_attention_", _no_vmap, lib=LIBRARY)


# ---- What phasor.prepare_attention calls ----


def list_beside(first: Tensor, where: str = _WHERE) -> Callable[[Any, str], Any]:
    """Makes integers of the host, which are on no device, a tensor where the heads are; on the CPU an array does."""

    def made(values: Any, name: str) -> Any:
        if values is None or isinstance(values, Tensor):
            return values
        if _compiling():
            return torch.as_tensor(values, device=first.device)
        if gpu_of(values) is not None:
            return torch.from_dlpack(values)  # its library lets our stream wait for what is still to be written to it
        array = integers(values, f"{where}: {name}")
        if type(first) in TYPES and first.is_cpu:
            return array
        if first.is_cuda and torch.cuda.is_current_stream_capturing():
            raise ValueError(f"{where}: {name} is on the CPU while a CUDA graph is captured, wanted a tensor on {first.device}")
        return torch.from_numpy(array).to(first.device)

    return made


def _plain(x: Tensor) -> bool:
    """Whether a tensor lies in memory as it seems to."""
    return type(x) in TYPES and (x.is_cpu or x.is_cuda) and not x.is_neg()


def tensor_of(x: Any) -> Any:
    """An array of NumPy as a tensor, which an operator takes alone; its memory is shared where it can be."""
    if not isinstance(x, np.ndarray):
        return x
    if _compiling():
        return torch.as_tensor(x)
    shared = x.flags.writeable and x.dtype.isnative and all(stride >= 0 for stride in x.strides)
    return torch.from_numpy(x if shared else x.astype(x.dtype.newbyteorder("="), order="C"))


def _for_operator(heads: tuple[Any, ...], at: Any, call: Any) -> None:
    """Makes a call one that operators take, or says why it is none. What writes to caches has no rule for transforms and shards."""
    call.read = [tensor_of(x) for x in call.read]
    tensors = (*heads, at, *call.read, *call.written)
    if not _compiling() and (call.written or not private.OWN_KERNELS):  # a compiler has transforms of its own
        private.refuse_forward(_WHERE, tensors)
    if call.written:
        sharding.refuse(_WHERE, tensors)
    _check(_named_call(heads, at, call))


def _checked(heads: tuple[Any, ...], positions: Any, call: Any) -> tuple[Any, Any, bool]:
    """Positions as a tensor, or None and the first of them; and whether the call may go past the dispatcher."""
    beside = next(x for x in heads if x is not None)
    at, first = positions_and_first(positions, beside)
    tensors = [x for x in (*heads, at, *call.read, *call.written) if isinstance(x, Tensor)]
    device = beside.device
    if not all([x.device == device for x in tensors]):  # names take as long as the rest of the questions
        checks.one_device(_WHERE, **_named_call(heads, at, call))
    return at, first, not _compiling() and private.nobody_watches() and all([_plain(x) for x in tensors])


def words_beside(heads: tuple[Any, ...], rotaries: list[Any]) -> list[Tensor]:
    words = [words_of(one) for one in rotaries]
    return words if _compiling() else [_beside_fake(one, next(x for x in heads if x is not None)) for one in words]


def _directly(heads: tuple[Any, ...], rotaries: list[Any], where: Any, call: Any) -> None:
    for one in rotaries:
        words_of(one)  # for a compiler that looks at a later call
    given = (call.read, call.written, call.numbers, call.reals)
    _core.prepare_attention(heads, [one._core for one in rotaries], where, given)
    read(*[x for x in call.read if not isinstance(x, Tensor)])
    changed = [x for x in call.written if isinstance(x, Tensor)]
    if changed:
        _increment_version(changed)


def prepare_attention(heads: tuple[Any, ...], rotaries: list[Any], positions: Any, call: Any) -> None:
    """Norm, rotation and storage of heads; `call` are the lists of the rest."""
    at, first, direct = _checked(heads, positions, call)
    if not direct:
        _for_operator(heads, at, call)
    _refuse_gradients([*heads, at, *call.read, *call.written], call.written)
    if direct:
        _directly(heads, rotaries, first if at is None else at, call)
        return
    torch.ops.phasor.prepare_attention_(*heads, words_beside(heads, rotaries), at, first, call.read, call.written, call.numbers, call.reals)


def prepared(heads: tuple[Any, ...], rotaries: list[Any], positions: Any, call: Any) -> tuple[Tensor, ...]:
    """The heads that are given, normed and rotated into new tensors, with gradients."""
    at, first, direct = _checked(heads, positions, call)
    if direct and not (torch.is_grad_enabled() and any([_learns(x) for x in (*heads, at, *call.read)])):
        heads = tuple([None if x is None else dense(x) for x in heads])
        outs = [None if x is None else torch.empty_like(x, requires_grad=False) for x in heads]
        call.tensors(outs)
        _directly(heads, rotaries, first if at is None else at, call)
        return tuple([out for out in outs if out is not None])
    _for_operator(heads, at, call)
    return tuple(torch.ops.phasor.prepare_attention(*heads, words_beside(heads, rotaries), at, first, call.read, call.numbers, call.reals))
