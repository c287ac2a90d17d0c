# SPDX-License-Identifier: Apache-2.0
"""Arrays of schemes in the axes that the core wants, by operations that NumPy and PyTorch share (and PyTorch differentiates)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phasor._arrays import Array, empty_on_gpu, gpu_of, is_torch, is_traced
from phasor._numbers import integers


def rows_of_heads(table: Array) -> Array:
    """(rows, width), (H, rows, width) or (B, H, rows, width) as (B, rows, H, width)."""
    if table.ndim == 2:
        return table[None, :, None]
    if table.ndim == 3:
        return table.swapaxes(0, 1)[None]
    return table.swapaxes(1, 2)


def vector_of_heads(vector: Array) -> Array:
    """(H, width) or (width) as (1, 1, H, width)."""
    return vector[None, None] if vector.ndim == 2 else vector[None, None, None]


def column(table: Array) -> Array:
    """(H, rows) as (1, rows, H, 1)."""
    return table.swapaxes(0, 1)[None, ..., None]


def parameter_list(values: Any) -> Array:
    """Numbers as (1, 1, 1, count)."""
    if not is_torch(values):
        values = on_host_or_gpu(values)
        if values.dtype.kind != "f" and not is_traced(values):
            values = values.astype(np.float64)
    return values.reshape(-1)[None, None, None]


# ---- Where arrays are ----


def on_host_or_gpu(x: Any) -> Array:
    """An array of a GPU as it is, and one that JAX traces (phasor.jax), which has no values yet; anything else as NumPy's."""
    return x if is_traced(x) or gpu_of(x) is not None else np.asarray(x)


def dense(x: Array) -> Array:
    """x, copied if the channels of a head do not lie side by side. JAX's arrays always do, and say no strides."""
    strides = getattr(x, "strides", None)
    return x if strides is None or x.shape[-1] <= 1 or strides[-1] == x.dtype.itemsize else x.copy()


def integer_list(values: Any, where: str) -> Array:
    """Integers as the core takes them; those on a GPU stay there."""
    if gpu_of(values) is None:
        return integers(values, where)
    return _torch_integers(values, where) if is_torch(values) else values


def _torch_integers(values: Array, where: str) -> Array:
    import torch

    if values.is_floating_point() or values.is_complex():
        raise TypeError(f"{where}: is of {values.dtype}, wanted integers")
    taken = (torch.bool, torch.uint8, torch.int32, torch.int64)
    return (values if values.dtype in taken else values.to(torch.int64)).contiguous()


def workspace_beside(x: Array) -> Callable[[int], Array] | None:
    """What makes bytes that a call works in, where x is, by x's library; None on the CPU, where the core has its own."""
    return None if gpu_of(x) is None else lambda size: empty_on_gpu((size,), np.uint8, x)
