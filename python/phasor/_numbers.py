# SPDX-License-Identifier: Apache-2.0
"""Lists of numbers as the caller has them (lists, NumPy arrays, tensors), made into what specs and the extension take."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["freeze", "host_array", "integers", "reals"]


def host_array(values: Any) -> np.ndarray:
    """`values` as a NumPy array; of a tensor that learns, its values."""
    if hasattr(values, "detach"):
        values = values.detach()
    return np.asarray(values)


def freeze(spec: Any, *names: str, kind: type = float) -> None:
    """Makes the named fields of a frozen dataclass tuples of numbers, so that specs compare and hash."""
    for name in names:
        value = getattr(spec, name)
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
