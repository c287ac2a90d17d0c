# SPDX-License-Identifier: Apache-2.0
"""What tensors may be, checked without looking at their values: for fake tensors, and to say why others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._torch import layouts

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_POSITION_DTYPES = (torch.int32, torch.int64, torch.float64)
# Asked once: a compiler that looks at a call cannot follow a question to the core.
_HAS_CUDA, _ADVICE = _core.has_cuda(), _core.cuda_advice()
_LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
_INFERENCE = "Inplace update to inference tensor outside InferenceMode is not allowed."


def kind(where: str, name: str, x: Any) -> None:
    """Refuses what is no dense tensor of a dtype and on a device that the core knows."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{where}: {name} is a {type(x).__name__}, wanted a torch.Tensor like the other tensors of the call")
    if x.is_nested:
        raise NotImplementedError(f"{where}: {name} is a nested tensor; rotate its values (T, H, D) with a position for each token")
    if x.layout is not torch.strided:
        raise NotImplementedError(f"{where}: {name} has layout {x.layout}, wanted a dense tensor ({torch.strided})")
    if x.is_quantized:
        raise NotImplementedError(f"{where}: {name} is quantised ({x.dtype}), wanted float32, float64, float16 or bfloat16")
    device = x.device
    if device.type not in ("cpu", "meta", "cuda"):
        raise NotImplementedError(f"{where}: {name} is on {device}, wanted a tensor on the CPU or on CUDA")
    if device.type == "cuda" and not _HAS_CUDA:
        raise NotImplementedError(f"{where}: {name} is on {device}, and this phasor has no CUDA kernels; {_ADVICE}")


def beside(where: str, name: str, x: Tensor, q: Tensor) -> None:
    """Refuses a tensor on another device than that of q."""
    kind(where, name, x)
    one_device(where, q=q, **{name: x})


def one_device(where: str, **tensors: Any) -> None:
    """Refuses tensors that are not all on one device, as PyTorch does; what is no tensor is on none."""
    given = [(name, x.device) for name, x in tensors.items() if isinstance(x, Tensor)]
    for name, device in given[1:]:
        if device != given[0][1]:
            raise ValueError(f"{where}: {name} on {device} and {given[0][0]} on {given[0][1]}, wanted one device")


def rotated(where: str, tensors: tuple[Any, ...]) -> None:
    """Refuses q and k that cannot be rotated together."""
    for name, x in zip("qk", tensors):
        kind(where, name, x)
        if x.dtype not in _DTYPES:
            raise TypeError(f"{where}: {name} is {x.dtype}, wanted float32, float64, float16 or bfloat16")
        if not 2 <= x.ndim <= 4:
            raise ValueError(f"{where}: {name} has {x.ndim} axes, wanted (B, T, H, D), (T, H, D) or (T, D)")
    if len(tensors) == 2:
        one_device(where, q=tensors[0], k=tensors[1])
        _alike(where, *tensors)


def _alike(where: str, q: Tensor, k: Tensor) -> None:
    if q.dtype != k.dtype:
        raise ValueError(f"{where}: q is {q.dtype} and k is {k.dtype}, wanted one dtype")
    if q.ndim != k.ndim or q.shape[-1] != k.shape[-1] or q.shape[: max(q.ndim - 2, 1)] != k.shape[: max(k.ndim - 2, 1)]:
        raise ValueError(f"{where}: q is {tuple(q.shape)} and k is {tuple(k.shape)}, only their heads may differ in number")


def _direction(where: str, direction: int, count: int) -> None:
    """Refuses what is no direction: with positions 3 is the transpose of the inverse."""
    if not 0 <= direction < count:
        raise ValueError(f"{where}: direction is {direction}, wanted 0 (forward), 1 (inverse) or 2 (transpose)")


def shapes_by_positions(where: str, tensors: tuple[Any, ...], words: Tensor, positions: Tensor | None, offset: int, direction: int) -> None:
    rotated(where, tensors)
    kind(where, "words", words)
    if words.is_meta and not tensors[0].is_meta:  # the spec stays on the CPU, where the core reads it; for shapes alone it may be anywhere
        raise ValueError(f"{where}: words on {words.device} and q on {tensors[0].device}, wanted those of a phasor.Rotary")
    _direction(where, direction, 4)
    if words.dtype != torch.int64 or words.ndim != 1:
        raise TypeError(f"{where}: words are {words.dtype} of {words.ndim} axes, wanted the int64 tensor of a phasor.Rotary")
    if positions is None:
        return
    beside(where, "positions", positions, tensors[0])
    if positions.dtype not in _POSITION_DTYPES:
        raise TypeError(f"{where}: positions are {positions.dtype}, wanted int32, int64 or float64")
    if not 1 <= positions.ndim <= 3:
        raise ValueError(f"{where}: positions have {positions.ndim} axes, wanted (T), (B, T) or (axes, B, T)")
    q = tensors[0]
    tokens = q.shape[max(q.ndim - 3, 0)]
    if positions.shape[-1] != tokens:
        raise ValueError(f"{where}: positions are of {positions.shape[-1]} tokens, q has {tokens}")
    if positions.ndim > 1 and positions.shape[-2] not in (1, q.shape[0] if q.ndim == 4 else 1):
        raise ValueError(f"{where}: positions are of {positions.shape[-2]} batch rows, q has {q.shape[0] if q.ndim == 4 else 1}")


def shapes_by_tables(where: str, tensors: tuple[Any, ...], cos: Tensor, sin: Tensor, layout: Sequence[int], direction: int) -> None:
    rotated(where, tensors)
    for name, x in (("cos", cos), ("sin", sin)):
        beside(where, name, x, tensors[0])
        if x.dtype not in _DTYPES:
            raise TypeError(f"{where}: {name} is {x.dtype}, wanted float32, float64, float16 or bfloat16")
        if not 2 <= x.ndim <= 4:
            raise ValueError(f"{where}: {name} has {x.ndim} axes, wanted (T, P or R), (B, T, P or R) or (B, T, H, P or R)")
    if cos.shape != sin.shape:
        raise ValueError(f"{where}: cos is {tuple(cos.shape)} and sin is {tuple(sin.shape)}, wanted one shape")
    layouts.check(where, layout)
    _direction(where, direction, 3)


def writable(tensors: tuple[Tensor, ...]) -> None:
    """PyTorch's own refusals of writing in place, before anything is written."""
    recording = torch.is_grad_enabled()
    for x in tensors:
        if recording and x.requires_grad and x.is_leaf:
            raise RuntimeError(_LEAF)
        if x.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(_INFERENCE)


def explain(where: str, tensors: tuple[Any, ...], **others: Any) -> None:
    """Raises a clearer error than the core's where the tensors are not such as it takes."""
    rotated(where, tuple(x for x in tensors if x is not None))
    for name, x in others.items():
        if isinstance(x, Tensor):
            beside(where, name, x, tensors[0])


def tokens(where: str, name: str, x: Any) -> None:
    """Refuses what is no (B, T, D) or (T, D)."""
    kind(where, name, x)
    if x.dtype not in _DTYPES:
        raise TypeError(f"{where}: {name} is {x.dtype}, wanted float32, float64, float16 or bfloat16")
    if not 2 <= x.ndim <= 3:
        raise ValueError(f"{where}: {name} has {x.ndim} axes, wanted (B, T, D) or (T, D)")


def position_values(where: str, positions: Any) -> None:
    """Refuses what holds no positions."""
    kind(where, "positions", positions)
    if positions.dtype not in _POSITION_DTYPES:
        raise TypeError(f"{where}: positions are {positions.dtype}, wanted int32, int64 or float64")
    if not 1 <= positions.ndim <= 3:
        raise ValueError(f"{where}: positions have {positions.ndim} axes, wanted (T), (B, T) or (axes, B, T)")


def positions_of_tokens(where: str, positions: Any, x: Tensor) -> None:
    """Refuses positions that are not those of the tokens x."""
    position_values(where, positions)
    beside(where, "positions", positions, x)
    rows = x.shape[0] if x.ndim == 3 else 1
    if positions.shape[-1] != x.shape[-2] or (positions.ndim > 1 and positions.shape[-2] not in (1, rows)):
        raise ValueError(f"{where}: positions are {tuple(positions.shape)} and x is {tuple(x.shape)}, wanted a position for each token")
