# SPDX-License-Identifier: Apache-2.0
"""What phasor.apply_rotaries asks of PyTorch tensors: it goes straight to the core, so whatever wants to see an operator is refused."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._torch import checks
from phasor._torch.eager import positions_and_first
from phasor._torch.plain import TYPES, direct
from phasor._torch.prepare.caches import list_beside

_compiling = torch.compiler.is_dynamo_compiling


def rows(where: str, spec_of: Any, q: Tensor, k: Any, positions: Any, in_place: bool) -> tuple[Any, Any]:
    """Indices and positions as the core takes them beside q and k."""
    if k is not None and not isinstance(k, Tensor):
        raise TypeError(f"{where}: q is a PyTorch tensor and k is {type(k).__name__}, wanted both of one library")
    tensors = (q,) if k is None else (q, k)
    checks.rotated(where, tensors)
    at, first = positions_and_first(positions, q)
    of = list_beside(q, where)(spec_of, "spec_of")
    checks.one_device(where, q=q, k=k, positions=at, spec_of=of)
    given = first if at is None else at.detach().resolve_neg()  # a gradient was refused before
    if _compiling() or not direct(q, k, given) or (isinstance(of, Tensor) and type(of) not in TYPES):
        raise NotImplementedError(f"{where}: a tensor is not a plain one of an eager call, wanted no transform, trace, mode or subclass")
    if in_place:
        checks.writable(tensors)
    return of, given
