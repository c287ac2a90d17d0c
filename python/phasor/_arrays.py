# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library: which code takes them, and where a new result of the same kind lies."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any
Positions = Any  # an array, an int offset, or None


def is_torch(x: object) -> bool:
    """Whether x is a PyTorch tensor, of whatever subclass. PyTorch is not imported for it."""
    if type(x) in _torch_types:  # a compiler that traces sys.modules may find that it changes meanwhile (PyTorch 2.11)
        return True
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


_WANTED_TORCH = "2.10"
_torch_backend: Any = None
_torch_trouble = ""  # why it cannot be used; found out once, because half of it is registered then
_torch_types: frozenset[type] = frozenset()  # the usual types of a tensor, once PyTorch has been seen


def torch_backend() -> Any:
    """The functions for PyTorch tensors. ImportError where there is no PyTorch, or one too old."""
    global _torch_backend, _torch_types, _torch_trouble  # importing on every call costs as much as a rotation
    if _torch_backend is None:
        if _torch_trouble:
            raise ImportError(_torch_trouble)
        try:
            from phasor import _torch
        except Exception as error:  # whatever an older PyTorch does not have
            found = getattr(sys.modules.get("torch"), "__version__", "not there")
            _torch_trouble = f"phasor: PyTorch is {found}, wanted {_WANTED_TORCH} or newer ({type(error).__name__}: {error})"
            raise ImportError(_torch_trouble) from error
        _torch_backend, _torch_types = _torch, _torch.TYPES
    return _torch_backend


def torch_backend_if_usable() -> Any:
    """torch_backend() once PyTorch is imported; None before, and where it cannot be used: whoever has NumPy's arrays alone needs none."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(getattr(torch, "__spec__", None), "_initializing", False):  # another thread may be importing it
        return None
    try:
        return torch_backend()
    except ImportError:
        return None


def torch_backend_of(x: object) -> Any:
    """torch_backend() for a PyTorch tensor, None for anything else."""
    if type(x) in _torch_types:
        return _torch_backend
    return torch_backend() if is_torch(x) else None


def positions_argument(positions: Positions) -> Positions:
    """What the core takes: lists become arrays, NumPy's integers plain ones."""
    if positions is None or isinstance(positions, (int, np.ndarray)):
        if isinstance(positions, bool):
            raise TypeError("positions: is bool, wanted an array, an int or None")
        return positions
    if isinstance(positions, (np.integer,)):
        return operator.index(positions)
    if isinstance(positions, Sequence) and not isinstance(positions, (str, bytes)):
        return _positions_array(positions)
    if not hasattr(positions, "__dlpack__"):
        raise TypeError(f"positions: is {type(positions).__name__}, wanted an array, an int or None")
    return positions


def _positions_array(positions: Sequence[Any]) -> np.ndarray:
    """A list as an array. Of integers that are too large NumPy makes other types, or rounds them to float64."""
    array = np.asarray(positions)
    if array.dtype.kind != "i" and array.size:
        entries = np.asarray(positions, object).reshape(-1).tolist()
        if all(isinstance(entry, int) for entry in entries) and not -(2**63) <= (worst := max(entries, key=abs)) < 2**63:
            raise ValueError(f"positions: {worst} does not fit in 64 bits")
    return array


def _is_jax(x: object) -> bool:
    return type(x).__module__.startswith("jax")


def is_traced(x: object) -> bool:
    """Whether x stands for an array in a program that JAX makes. JAX is not imported for it."""
    jax = sys.modules.get("jax")
    return jax is not None and _is_jax(x) and isinstance(x, jax.core.Tracer)


_GPU_KINDS = (2, 13)  # DLPack's CUDA, and its managed memory


def gpu_of(x: Any) -> int | None:
    """The number of the GPU that an array is on; None on the CPU."""
    if x is None or isinstance(x, np.ndarray) or not hasattr(x, "__dlpack_device__"):
        return None
    kind, index = x.__dlpack_device__()
    return int(index) if kind in _GPU_KINDS else None


def empty_on_gpu(shape: tuple[int, ...], dtype: Any, like: Array) -> Array:
    """Memory of that shape on the GPU of `like`: CuPy's for its arrays, else PyTorch's, which hands it on in the order of its stream."""
    if type(like).__module__.startswith("cupy"):
        import cupy

        with cupy.cuda.Device(gpu_of(like)):
            return cupy.empty(shape, dtype)
    try:
        import torch
    except ImportError:
        raise NotImplementedError(f"{type(like).__name__} on a GPU: a result on it needs memory of PyTorch, wanted that installed") from None
    torch_backend()  # from now on such arrays come on its stream
    return torch.empty(shape, dtype=getattr(torch, np.dtype(dtype).name), device=f"cuda:{gpu_of(like)}")


def empty_like(x: Array) -> Array:
    """Memory for a result of x's shape and dtype; strides as x's where its library keeps them."""
    if isinstance(x, np.ndarray):
        return np.empty_like(x)
    if gpu_of(x) is not None:
        return empty_on_gpu(tuple(x.shape), x.dtype, x)
    if _is_jax(x):
        return np.empty(x.shape, x.dtype)  # jax.numpy arrays cannot be written: see returned()
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().empty_like(x)
    if hasattr(x, "__dlpack__"):
        return np.empty_like(np.from_dlpack(x))
    raise TypeError(f"q: is {type(x).__name__}, wanted an array (NumPy, PyTorch, JAX, CuPy, DLPack)")


def read(*arrays: Array) -> None:
    """After work that reads them: waits for it where one is JAX's and on a GPU, since JAX cannot be told until when its memory is read."""
    index = next((gpu_of(x) for x in arrays if _is_jax(x) and gpu_of(x) is not None), None)
    if index is None:
        return
    if _torch_backend is not None:  # the core works on the streams of PyTorch then, else on CuPy's
        sys.modules["torch"].cuda.current_stream(index).synchronize()
    elif (cupy := sys.modules.get("cupy")) is not None:
        with cupy.cuda.Device(index):
            cupy.cuda.get_current_stream().synchronize()


def returned(x: Array, out: Array) -> Array:
    """The result as an array of x's library."""
    if _is_jax(x) and is_torch(out):
        from jax import dlpack

        read(x)
        return dlpack.from_dlpack(out)
    if _is_jax(x) and isinstance(out, np.ndarray):
        import jax.numpy as jnp

        made = jnp.asarray(out)
        if made.dtype != out.dtype:
            raise NotImplementedError(f"dtype: is {out.dtype}, which JAX has with jax_enable_x64 alone")
        return made
    return out
