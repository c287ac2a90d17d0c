# SPDX-License-Identifier: Apache-2.0
"""Whether a call may go past the dispatcher, and what it then owes to autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

TYPES = frozenset((Tensor, torch.nn.Parameter))  # exactly these: a subclass wants to see operators

_transforms = _C._are_functorch_transforms_active
_modes = _C._len_torch_dispatch_stack
_function_modes = _C._len_torch_function_stack
_tracing = _C._get_tracing_state
_increment_version = _C._increment_version
_DEFAULT = _C._autograd.CreationMeta.DEFAULT


def quiet(args: tuple[Any, ...], count: int, by_tables: bool) -> bool:
    """Every tensor lies in memory as it seems to and wants no gradient; no transform, mode, trace or forward-mode gradient looks on."""
    q = args[0]
    if type(q) not in TYPES or q.requires_grad or not q.is_cpu or q.is_neg():
        return False
    if count == 2:
        k = args[1]
        if type(k) not in TYPES or k.requires_grad or k.is_neg():
            return False
    first, second = args[count], args[count + 1]  # words and positions, or cos and sin
    if type(first) not in TYPES or (second is not None and (type(second) not in TYPES or second.requires_grad)):
        return False
    if by_tables and (first.requires_grad or first.is_neg() or second.is_neg()):
        return False
    if _transforms() or _modes() or _function_modes():
        return False
    return _tracing() is None and forward_ad._current_level < 0


def written(q: Tensor, k: Tensor | None) -> None:
    """Tells autograd that tensors have changed: who saved one for a gradient must hear of it."""
    _increment_version((q,) if k is None else (q, k))


def in_place_through_copy(x: Tensor) -> bool:
    """Whether x is a view that PyTorch may refuse to write: one of several views of a call, or one made without gradients."""
    return x._is_view() and _C._autograd._get_creation_meta(x) != _DEFAULT
