# SPDX-License-Identifier: Apache-2.0
"""Rotary.rerotate_ for PyTorch: an operator that moves rotated keys in place, in a tensor or in a paged cache; and the short way past the dispatcher."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasor import _core
from phasor._torch import checks, private, sharding
from phasor._torch.eager import positions_and_first
from phasor._torch.kernels import rotary_of, where_of
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import TYPES, direct, written
from phasor._torch.prepare.caches import list_beside, tensor_of, words_beside
from phasor._torch.recorded import below_autograd

_WHERE = "rerotate_"
_compiling = torch.compiler.is_dynamo_compiling
# Words of what the keys were rotated by and of what they are to be rotated by, as those of `rotary`, and where; slots of a paged cache.
LIBRARY.define(
    "rerotate_(Tensor(a!) k, Tensor source, Tensor? from_positions, SymInt from_first, Tensor target, Tensor? to_positions, SymInt to_first,"
    " Tensor? slots) -> ()",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides),
)
_OVERLOAD = torch.ops.phasor.rerotate_.default


def _wide(slots: Any) -> Any:
    """Slots as the core takes them, of 64 bits; None: keys lie token by token."""
    if isinstance(slots, Tensor):
        return slots.to(torch.int64) if slots.dtype == torch.int32 else slots
    return slots.astype(np.int64) if slots is not None and slots.dtype == np.int32 else slots


def _check_slots(slots: Any, k: Tensor) -> None:
    checks.beside(_WHERE, "slots", slots, k)
    if slots.dtype not in (torch.int32, torch.int64) or slots.ndim != 1:
        raise TypeError(f"{_WHERE}: slots are {slots.dtype} of {slots.ndim} axes, wanted a list of int32 or int64")


def _check(k: Tensor, source: Any, before: Any, before_first: Any, target: Any, after: Any, after_first: Any, slots: Any) -> None:
    """What can be known without values. Positions of a paged cache are those of its slots."""
    if slots is not None:
        _check_slots(slots, k)
    for words, positions, first in ((source, before, before_first), (target, after, after_first)):
        checks.shapes_by_positions(_WHERE, (k,), words, positions if slots is None else None, first, 0)
        if slots is None or positions is None:
            continue
        checks.position_values(_WHERE, positions)
        checks.beside(_WHERE, "positions", positions, k)
        if positions.shape[-1] != slots.shape[0]:
            raise ValueError(f"{_WHERE}: positions are of {positions.shape[-1]} tokens, slots of {slots.shape[0]}")


def _kernel(k: Tensor, source: Tensor, before: Any, before_first: int, target: Tensor, after: Any, after_first: int, slots: Any) -> None:
    at = (where_of(before, before_first), where_of(after, after_first))
    _core.rerotate((rotary_of(source), rotary_of(target)), k, at, _wide(slots), None)
    written(k, None)


LIBRARY.impl(_WHERE, private.guarded(_kernel), "CompositeExplicitAutograd")
torch.library.register_fake("phasor::rerotate_", _check, lib=LIBRARY)


def _refuse_gradients(*tensors: Any) -> None:
    """Keys come from a cache: there is no gradient."""
    if torch.is_grad_enabled() and any([isinstance(x, Tensor) and x.requires_grad for x in tensors]):
        raise NotImplementedError(f"{_WHERE}: k or positions require a gradient, wanted keys of a cache")


def _autograd(keyset: Any, k: Tensor, *rest: Any) -> None:
    private.refuse_forward(_WHERE, [k, rest[1], rest[4]])
    _refuse_gradients(k, rest[1], rest[4])
    checks.writable((k,))
    below_autograd(_OVERLOAD, keyset)(k, *rest)


def _no_vmap(*_: Any) -> Any:
    raise NotImplementedError(f"{_WHERE}: called inside of vmap, wanted the mapped axis as batch rows")


if private.OWN_KERNELS:
    LIBRARY.impl(_WHERE, _autograd, "Autograd", with_keyset=True)
    torch.library.register_vmap("phasor::rerotate_", _no_vmap, lib=LIBRARY)


def _plain(x: Any) -> bool:
    return not isinstance(x, Tensor) or (type(x) in TYPES and not x.is_neg())


def rerotate_(rotaries: tuple[Any, Any], k: Tensor, positions: tuple[Any, Any], slots: Any) -> Tensor:
    """Keys moved in place, from the first rotary and position to the second."""
    at = list_beside(k, _WHERE)(slots, "slots")
    tokens = at.shape[0] if isinstance(at, Tensor) and at.ndim == 1 else None  # k's own axis is that of a page
    before, before_first = positions_and_first(positions[0], k, tokens)
    after, after_first = positions_and_first(positions[1], k, tokens)
    sharding.refuse(_WHERE, (k, before, after, at))
    checks.rotated(_WHERE, (k,))
    checks.one_device(_WHERE, k=k, from_positions=before, to_positions=after, slots=at)
    words = words_beside((k,), list(rotaries))
    _refuse_gradients(k, before, after)
    if not _compiling():
        checks.writable((k,))
        private.refuse_forward(_WHERE, [x for x in (k, before, after) if isinstance(x, Tensor)])
    if _compiling() or not (direct(k, None, before) and direct(k, None, after) and _plain(at)):
        _OVERLOAD(k, words[0], before, before_first, words[1], after, after_first, tensor_of(at))
        return k
    where = (before_first if before is None else before, after_first if after is None else after)
    try:
        _core.rerotate((rotaries[0]._core, rotaries[1]._core), k, where, _wide(at), None)
    except Exception:
        checks.explain(_WHERE, (k,), from_positions=before, to_positions=after, slots=at)
        raise
    written(k, None)
    return k
