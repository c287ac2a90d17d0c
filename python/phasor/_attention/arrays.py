# SPDX-License-Identifier: Apache-2.0
"""Arrays of schemes in the axes that the core wants, by operations that NumPy and PyTorch share (and PyTorch differentiates)."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor._arrays import Array, is_torch


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
        values = np.asarray(values)
        if values.dtype.kind != "f":
            values = values.astype(np.float64)
    return values.reshape(-1)[None, None, None]
