# SPDX-License-Identifier: Apache-2.0
"""The function that stands in for a recognised rotation: phasor where the proof holds, the model's own everywhere else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ._forms import Call, answer, cos_sin, read_call
from ._recognise import COMPLEX_ROW, Rotation, pattern
from ._variants import Misfit

_WIDE = (torch.float32, torch.float64)
_NARROW = (torch.bfloat16, torch.float16)


def turned(rotation: Rotation, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the rotation makes of a call, or None where the proof does not hold."""
    call = read_call(rotation.form, args, kwargs)
    if call is None or not _is_ours(rotation, call):
        return None
    count = rotation.proven.get(pattern(rotation.variant, call, cos_sin(rotation.packing, call)[0]))
    if count is None:
        return None
    try:
        rotated = answer(rotation.variant, rotation.packing, call)
    except Misfit:
        return None
    return tuple(rotated[:count]) if count else rotated[0]


def replacement(original: Callable, rotation: Rotation, *, method: bool = False) -> Callable:
    """A function with the original's signature and bits. A method's first argument is its module, which the rotation does not see."""

    @functools.wraps(original)
    def rotated(*args: Any, **kwargs: Any) -> Any:
        got = turned(rotation, args[1:] if method else args, kwargs)
        return original(*args, **kwargs) if got is None else got

    rotated.phasor_rotation = rotation  # how `patch` knows its own
    return rotated


def _is_ours(rotation: Rotation, call: Call) -> bool:
    """Whether the tensors are of the kinds that were compared, and the tables constant."""
    first = call.tensors[0]
    if first is None:
        return False
    dtype = first.dtype
    for tensor in call.tensors:
        if tensor is None:
            continue
        if tensor.dtype != dtype or tensor.device.type != "cpu" or tensor.numel() == 0:
            return False
    table = call.tables[0]
    if any(t.requires_grad or t.dtype != table.dtype or t.device.type != "cpu" for t in call.tables):
        return False  # learned tables (LightGlue) need a gradient that only the model's own function gives
    if rotation.packing == "complex":
        return table.dtype == torch.complex64 and dtype in (torch.float32, *_NARROW) and table.shape[-1] % COMPLEX_ROW == 0
    if rotation.variant.arithmetic == "float32":
        return dtype in (torch.float32, *_NARROW) and table.dtype in (torch.float32, *_NARROW)
    if rotation.variant.arithmetic == "dtype_back":
        return torch.promote_types(dtype, table.dtype) in (dtype, torch.float32)
    return dtype in (*_WIDE, *_NARROW) and table.dtype in (*_WIDE, *_NARROW)
