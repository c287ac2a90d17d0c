# SPDX-License-Identifier: Apache-2.0
"""Lists of numbers as the caller has them (lists, NumPy arrays, tensors), made into what specs and the extension take; new arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor import _core
from phasor._arrays import Array, empty_like, empty_on_gpu, gpu_of, is_torch, torch_backend

__all__ = [
    "empty",
    "freeze",
    "host_array",
    "integers",
    "new_like",
    "one_device",
    "past_torch",
    "reals",
    "torch_dtype",
    "ungraded",
    "written",
]


def host_array(values: Any) -> np.ndarray:
    """`values` as a NumPy array; of a tensor that learns, its values."""
    if hasattr(values, "detach"):
        values = values.detach()
    return np.asarray(values)


def freeze(spec: Any, *names: str, kind: type = float) -> None:
    """Makes the named fields of a frozen dataclass tuples of numbers, so that specs compare and hash."""
    for name in names:
        value = getattr(spec, name)
        if getattr(value, "requires_grad", False):
            object.__setattr__(spec, "_learned_field", name)  # whoever would lose its gradient can say so
        if isinstance(value, tuple) and all(type(entry) is kind for entry in value):
            continue
        array = host_array(value)
        allowed = "iu" if kind is int else "iuf"
        if array.size and array.dtype.kind not in allowed:
            raise TypeError(f"{type(spec).__name__}: {name} is of {array.dtype}, wanted {'integers' if kind is int else 'numbers'}")
        object.__setattr__(spec, name, tuple(kind(entry) for entry in array.reshape(-1).tolist()))


def integers(values: Any, where: str) -> np.ndarray:
    """`values` as contiguous integers of a type the library takes: bool, uint8, int32 or int64. An empty array is for what is not given."""
    if values is None:
        return np.empty(0, np.int64)
    array = host_array(values)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "biu":
        raise TypeError(f"{where}: is of {array.dtype}, wanted integers")
    if array.dtype not in (np.bool_, np.uint8, np.int32, np.int64):
        if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{where}: {array.max()} does not fit in 64 bits with a sign")
        array = array.astype(np.int64)
    return np.ascontiguousarray(array)


def reals(values: Any, where: str) -> np.ndarray:
    """`values` as contiguous float64."""
    array = host_array(values)
    if array.dtype.kind not in "iuf" and array.dtype.name not in ("bfloat16",):
        raise TypeError(f"{where}: is of {array.dtype}, wanted numbers")
    return np.ascontiguousarray(array, dtype=np.float64)


def _numpy_dtype(dtype: Any) -> np.dtype:
    if str(dtype) == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise NotImplementedError("dtype: is bfloat16, which NumPy arrays have with the package ml_dtypes alone") from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(np.float32 if dtype is None else dtype)


def empty(shape: tuple[int, ...], dtype: Any, like: Any = None) -> Array:
    """Memory of that shape beside `like`: a PyTorch tensor where that or the dtype is PyTorch's, else a NumPy array. dtype None: float32."""
    if is_torch(like) or type(dtype).__module__ == "torch":
        import torch

        return torch.empty(shape, dtype=torch_dtype(dtype), device=like.device if is_torch(like) else None)
    dtype = _numpy_dtype(dtype)
    return np.empty(shape, dtype) if gpu_of(like) is None else empty_on_gpu(shape, dtype, like)


def torch_dtype(dtype: Any) -> Any:
    """PyTorch's dtype of that name. None: float32."""
    import torch

    name = "float32" if dtype is None else np.dtype(dtype).name if isinstance(dtype, type) else str(dtype).removeprefix("torch.")
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise TypeError(f"dtype: is {dtype!r}, wanted a floating type")
    return found


def past_torch(x: Array) -> bool:
    """Whether x may be written in place without PyTorch seeing it: any array but tensors that it watches."""
    if not is_torch(x):
        return True
    import torch

    from phasor._torch import plain

    return not torch.compiler.is_compiling() and _core.may_write_past_torch(x, None, None) and not plain.in_place_through_copy(x)


def written(array: Array) -> Array:
    """The array, after it was written past PyTorch: whoever saved it for a gradient must hear of it."""
    if is_torch(array):
        from phasor._torch import plain

        plain.written(array, None)
    return array


def ungraded(where: str, *arrays: Any) -> None:
    """Refuses PyTorch tensors whose gradient would be lost here, and shards of them, which the core cannot read."""
    if any([is_torch(array) for array in arrays]):
        torch_backend().refuse(where, arrays)
    for array in arrays:
        if is_torch(array) and array.requires_grad:
            import torch

            if torch.is_grad_enabled():
                raise ValueError(
                    f"{where}: a tensor requires a gradient, wanted tensor.detach(), torch.no_grad(), or the modules of phasor.nn"
                )


def one_device(where: str, **arrays: Any) -> None:
    """Refuses PyTorch tensors of several devices, and shards, which the core cannot read; lists of them count too."""
    tensors = {name: x for name, x in arrays.items() if is_torch(x)}
    for name, x in arrays.items():
        if isinstance(x, (list, tuple)):
            tensors |= {f"{name}[{i}]": one for i, one in enumerate(x) if is_torch(one)}
    if tensors:
        torch_backend().refuse(where, tuple(tensors.values()))
    if len(tensors) > 1:  # else there may be no PyTorch to import
        from phasor._torch import checks

        checks.one_device(where, **tensors)


def new_like(x: Array) -> Array:
    """Memory for a result of x's shape and dtype."""
    if is_torch(x):
        import torch

        return torch.empty_like(x, requires_grad=False)
    return empty_like(x)
