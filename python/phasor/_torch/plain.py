# SPDX-License-Identifier: Apache-2.0
"""Whether a call may go past the dispatcher, and what it then owes to autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, _C
from torch.autograd import forward_ad

TYPES = frozenset((Tensor, torch.nn.Parameter))  # exactly these: a subclass wants to see operators

_increment_version = _C._increment_version
_DEFAULT = _C._autograd.CreationMeta.DEFAULT


def unwatched() -> bool:
    """No transform, mode, trace or forward-mode gradient wants to see operators."""
    if _C._are_functorch_transforms_active() or _C._len_torch_dispatch_stack() or _C._len_torch_function_stack():
        return False
    return _C._get_tracing_state() is None and forward_ad._current_level < 0


def all_plain(args: tuple[Any, ...]) -> bool:
    """`unwatched`, and every tensor lies in memory as it seems to."""
    for x in args:
        if isinstance(x, Tensor) and not (type(x) in TYPES and x.is_cpu and not x.is_neg()):
            return False
    return unwatched()


def written(q: Tensor, k: Tensor | None) -> None:
    """Tells autograd that tensors have changed: who saved one for a gradient must hear of it."""
    _increment_version((q,) if k is None else (q, k))


def in_place_through_copy(x: Tensor) -> bool:
    """Whether x is a view that PyTorch may refuse to write: one of several views of a call, or one made without gradients."""
    return x._is_view() and _C._autograd._get_creation_meta(x) != _DEFAULT
