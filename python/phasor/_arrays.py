# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library: which road they take, and where a new result of the same kind lies."""

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
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


_torch_road: Any = None
_torch_types: frozenset[type] = frozenset()  # the usual types of a tensor, once PyTorch has been seen


def torch_road() -> Any:
    """The functions for PyTorch tensors."""
    global _torch_road, _torch_types  # importing on every call costs as much as a rotation
    if _torch_road is None:
        from phasor import _torch

        _torch_road, _torch_types = _torch, _torch.TYPES
    return _torch_road


def torch_road_of(x: object) -> Any:
    """torch_road() for a PyTorch tensor, None for anything else."""
    if type(x) in _torch_types:
        return _torch_road
    return torch_road() if is_torch(x) else None


def positions_argument(positions: Positions) -> Positions:
    """What the core takes: lists become arrays, NumPy's integers plain ones."""
    if positions is None or isinstance(positions, (int, np.ndarray)):
        if isinstance(positions, bool):
            raise TypeError("positions: is bool, wanted an array, an int or None")
        return positions
    if isinstance(positions, (np.integer,)):
        return operator.index(positions)
    if isinstance(positions, Sequence):
        return np.asarray(positions)
    if not hasattr(positions, "__dlpack__"):
        raise TypeError(f"positions: is {type(positions).__name__}, wanted an array, an int or None")
    return positions


def _is_jax(x: object) -> bool:
    return type(x).__module__.startswith("jax")


def empty_like(x: Array) -> Array:
    """Memory for a result of x's shape and dtype; strides as x's where its library keeps them."""
    if isinstance(x, np.ndarray):
        return np.empty_like(x)
    if _is_jax(x):
        return np.empty(x.shape, x.dtype)  # jax.numpy arrays cannot be written: see returned()
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().empty_like(x)
    if hasattr(x, "__dlpack__"):
        return np.empty_like(np.from_dlpack(x))
    raise TypeError(f"q: is {type(x).__name__}, wanted an array (NumPy, PyTorch, JAX, CuPy, DLPack)")


def returned(x: Array, out: Array) -> Array:
    """The result as an array of x's library."""
    if _is_jax(x):
        import jax.numpy as jnp

        return jnp.asarray(out)
    return out


def tables_for(shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    """Two empty tables."""
    dtype = np.dtype(np.float32 if dtype is None else dtype)
    return np.empty(shape, dtype), np.empty(shape, dtype)
