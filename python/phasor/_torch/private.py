# SPDX-License-Identifier: Apache-2.0
"""The private names of PyTorch that are used, and what is done where one is gone: results stay, speed may go. No other file has any."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

NAMES = (
    "torch._C._are_functorch_transforms_active",
    "torch._C._len_torch_dispatch_stack",
    "torch._C._len_torch_function_stack",
    "torch._C._is_tracing",
    "torch._C._increment_version",
    "torch._C._AutoDispatchBelowAutograd",
    "torch._C._after_autograd_keyset",
    "torch._C._autograd._get_creation_meta",
    "torch._C._autograd.CreationMeta",
    "torch.Tensor._base",
    "torch.Tensor._version",
    "torch._functorch.utils.enable_single_level_autograd_function",
    "torch.autograd.forward_ad._current_level",
    "torch.autograd.forward_ad._set_fwd_grad_enabled",
    "torch.utils._python_dispatch._disable_current_modes",
)


def _module(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ImportError:
        return None


_C: Any = getattr(torch, "_C", None)
_transforms: Any = getattr(_C, "_are_functorch_transforms_active", None)
_modes: Any = getattr(_C, "_len_torch_dispatch_stack", None)
_function_modes: Any = getattr(_C, "_len_torch_function_stack", None)
_tracing = getattr(_C, "_is_tracing", None) or torch.jit.is_tracing
_below_autograd: Any = getattr(_C, "_AutoDispatchBelowAutograd", None)
_after_autograd: Any = getattr(_C, "_after_autograd_keyset", None)
_autograd = getattr(_C, "_autograd", None)
_creation_meta: Any = getattr(_autograd, "_get_creation_meta", None)
_creation_default = getattr(getattr(_autograd, "CreationMeta", None), "DEFAULT", None)
_forward_enabled: Any = getattr(forward_ad, "_set_fwd_grad_enabled", None)
_single_level: Any = getattr(_module("torch._functorch.utils"), "enable_single_level_autograd_function", None)
_without_modes: Any = getattr(_module("torch.utils._python_dispatch"), "_disable_current_modes", None)

# Whether PyTorch can be asked who looks on at a call. Where it cannot, no call goes past its dispatcher.
CAN_ASK = all(x is not None for x in (_transforms, _modes, _function_modes, getattr(forward_ad, "_current_level", None)))
# Whether kernels for the dispatch key of autograd can be written here. Where they cannot, torch.library.register_autograd makes them, which
# knows nothing of forward-mode gradients and of torch.func's.
OWN_KERNELS = _below_autograd is not None and _after_autograd is not None
# What the core asks before it writes past the dispatcher: each must answer 0, False or None.
SILENT = (_transforms, _modes, _function_modes, _tracing)

increment_version: Callable[[Iterable[Tensor]], None] = getattr(_C, "_increment_version", None) or torch.autograd.graph.increment_version


def transforms_active() -> bool:
    """Whether a transform of torch.func is at work; True where that cannot be known."""
    return True if _transforms is None else _transforms()


def forward_gradients() -> bool:
    """Whether forward-mode gradients may be at work; True where that cannot be known."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def has_tangent(tensors: Iterable[Any]) -> bool:
    """Whether a forward-mode gradient comes with one of them."""
    return forward_gradients() and any([isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in tensors])


def refuse_forward(where: str, tensors: Iterable[Any]) -> None:
    """Refuses what an operator with gradients backward alone would lose, or what PyTorch would refuse in words of its own."""
    if _transforms is not None and _transforms():
        raise NotImplementedError(f"{where}: called inside of a transform of torch.func (grad, vmap, jvp, ...), wanted torch.autograd")
    refuse_tangents(where, tensors)


def refuse_tangents(where: str, tensors: Iterable[Any]) -> None:
    """Refuses forward-mode gradients, of torch.func's transforms too, where an operator has backward ones alone."""
    if has_tangent(tensors):
        raise NotImplementedError(f"{where}: a tensor has a forward-mode gradient, which would be lost; wanted torch.autograd's backward one")


def nobody_watches() -> bool:
    """Whether no transform, mode, trace or forward-mode gradient looks on at a call."""
    return CAN_ASK and not (_transforms() or _modes() or _function_modes() or _tracing() or forward_ad._current_level >= 0)


def redispatched(overload: Any, keyset: Any, args: tuple[Any, ...], recording: bool) -> Any:
    """The operator below autograd; where transforms are at work, with gradients as they were outside, for those further out to record."""
    with _below_autograd():
        if not transforms_active():
            return overload.redispatch(keyset & _after_autograd, *args)
        with torch.set_grad_enabled(recording), _forward_enabled(True) if _forward_enabled is not None else _refused():
            return overload.redispatch(keyset & _after_autograd, *args)


def single_level() -> Any:
    """The context in which an autograd function may be called inside of a transform, at its level."""
    if not transforms_active():
        return contextlib.nullcontext()
    return _refused() if _single_level is None else _single_level()


def _refused() -> Any:
    raise NotImplementedError("phasor: in this PyTorch our operators have no gradients inside of torch.func; use torch.autograd")


def guarded(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel; where forward-mode gradients would be lost without a word, one that refuses them."""
    if OWN_KERNELS:
        return kernel

    def refusing(*args: Any) -> Any:
        if has_tangent([x for arg in args for x in (arg if isinstance(arg, (list, tuple)) else (arg,))]):
            raise NotImplementedError("phasor: this PyTorch has no way to forward-mode gradients of our operators; use backward ones")
        return kernel(*args)

    return refusing


def written_through_copy(x: Tensor) -> bool:
    """Whether x is a view that PyTorch may refuse to write in place: one of several views of a call, or one made without gradients."""
    if _creation_meta is None or _creation_default is None:
        return True
    base = getattr(x, "_base", x)
    return base is x or (base is not None and _creation_meta(x) != _creation_default)


def real_tensor(values: list[int]) -> Tensor:
    """Integers as a tensor on the CPU that holds them, even where a model is being made without any memory."""
    with contextlib.nullcontext() if _without_modes is None else _without_modes():
        return torch.tensor(values, dtype=torch.int64, device="cpu")
