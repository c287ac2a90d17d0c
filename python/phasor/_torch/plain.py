# SPDX-License-Identifier: Apache-2.0
"""Whether a call may go past the dispatcher, and what it then owes to autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._torch import private

TYPES = frozenset((Tensor, torch.nn.Parameter))  # exactly these: a subclass wants to see operators

_increment_version = private.increment_version
_nobody_watches = private.nobody_watches
_PLAIN_POSITIONS = frozenset((int, type(None)))
in_place_through_copy = private.written_through_copy


def direct(q: Any, k: Any, first: Any, second: Any = None) -> bool:
    """Whether a call may go past the dispatcher: `first` are the positions, or cos where `second` is sin.

    Every tensor lies in memory as it seems to, none but q and k wants a gradient, and no transform, mode, trace or forward-mode gradient
    looks on. What torch_plain.cpp asks for the fast path, here for calls with a gradient or a copy.
    """
    if type(q) not in TYPES or not (q.is_cpu or q.is_cuda) or q.is_neg() or (k is not None and (type(k) not in TYPES or k.is_neg())):
        return False
    if type(first) not in _PLAIN_POSITIONS and (type(first) not in TYPES or first.requires_grad or first.is_neg()):
        return False
    if second is not None and (type(first) not in TYPES or type(second) not in TYPES or second.requires_grad or second.is_neg()):
        return False
    return _nobody_watches()


def quiet(args: tuple[Any, ...], count: int, by_tables: bool) -> bool:
    """`direct` for the arguments of an operator, of which nothing wants a gradient."""
    q, k = args[0], args[1] if count == 2 else None
    if q.requires_grad or (k is not None and k.requires_grad):
        return False
    first, second = args[count], args[count + 1]  # cos and sin, or words and positions
    return direct(q, k, first, second) if by_tables else type(first) in TYPES and direct(q, k, second)


def dense(x: Tensor) -> Tensor:
    """x, copied if the channels of a head do not lie side by side: gradients come with any strides."""
    return x if x.stride(-1) == 1 else x.contiguous()


def written(q: Tensor, k: Tensor | None) -> None:
    """Tells autograd that tensors have changed: who saved one for a gradient must hear of it."""
    _increment_version((q,) if k is None else (q, k))
