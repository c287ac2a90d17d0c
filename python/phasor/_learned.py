# SPDX-License-Identifier: Apache-2.0
"""Learned encodings: rows of a table added to tokens, their gradient, longer and resized tables, tables read from files."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from phasor import _core
from phasor._arrays import Array, Positions, is_torch, positions_argument, returned, torch_backend
from phasor._numbers import _numpy_dtype, empty, new_like, one_device, past_torch, ungraded, written

__all__ = ["hierarchical_table", "lookup_add", "lookup_add_", "read_learned_table", "resample_table", "scatter_gradient_"]


def _each(table: Array | Sequence[Array]) -> Sequence[Array]:
    return table if isinstance(table, (list, tuple)) else (table,)


def lookup_add(x: Array, table: Array | Sequence[Array], positions: Positions = None, *, offset: int = 0) -> Array:
    """x (B, T, D) or (T, D) plus a row of the table (N, D) for each token, as a new array: one addition, one rounding.

    A list of tables has one for each axis of the positions, their rows one after the other (DETR). `offset` is added to every position
    (OPT: 2). A position outside the table is a ValueError.

    >>> import numpy as np, phasor
    >>> table = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    >>> phasor.lookup_add(np.zeros((2, 2), np.float32), table, [2, 0]).tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """
    if is_torch(x) and is_torch(table):
        import torch

        at, first = torch_backend().positions_and_first(positions, x)
        return torch.ops.phasor.lookup_add(x, table, at, first, offset, None)
    ungraded("lookup_add", x, *_each(table))
    one_device("lookup_add", x=x, table=table, positions=positions)
    out = new_like(x)
    _core.lookup_add(x, table, positions_argument(positions), out, offset)
    return returned(x, out)


def lookup_add_(x: Array, table: Array | Sequence[Array], positions: Positions = None, *, offset: int = 0) -> Array:
    """lookup_add in place; gives x back.

    >>> import numpy as np, phasor
    >>> phasor.lookup_add_(np.zeros((1, 2), np.float32), np.ones((3, 2), np.float32), 2).tolist()
    [[1.0, 1.0]]
    """
    if is_torch(x) and (not past_torch(x) or (is_torch(table) and getattr(table, "requires_grad", False))):
        return x.copy_(lookup_add(x, table, positions, offset=offset))
    ungraded("lookup_add_", *_each(table))
    one_device("lookup_add_", x=x, table=table, positions=positions)
    _core.lookup_add(x, table, positions_argument(positions), None, offset)
    return written(x)


def scatter_gradient_(
    table_gradient: Array, gradient: Array, positions: Positions = None, *, offset: int = 0, padding_row: int | None = None
) -> Array:
    """Adds to every row of table_gradient (N, D) the gradients (B, T, D) or (T, D) of its tokens; gives table_gradient back.

    Summed in float64 in the order of the tokens, whatever the threads. `padding_row` gets none.

    >>> import numpy as np, phasor
    >>> phasor.scatter_gradient_(np.zeros((3, 1)), np.array([[1.0], [2.0], [4.0]]), [0, 2, 0]).tolist()
    [[5.0], [0.0], [2.0]]
    """
    ungraded("scatter_gradient_", gradient)
    one_device("scatter_gradient_", table_gradient=table_gradient, gradient=gradient, positions=positions)
    if is_torch(table_gradient):
        torch_backend().output("scatter_gradient_", table_gradient)
    _core.scatter_gradient(table_gradient, gradient, positions_argument(positions), offset, padding_row)
    return written(table_gradient)


def hierarchical_table(table: Array, rows: int, alpha: float = 0.4) -> Array:
    """Su's hierarchical decomposition: `rows` rows, up to n^2, from the n of `table` (n, D); the first n are the table's.

    >>> import numpy as np, phasor
    >>> table = np.array([[1.0], [2.0]])
    >>> phasor.hierarchical_table(table, 4, alpha=0.25).round(6).tolist()
    [[1.0], [2.0], [1.333333], [2.333333]]
    """
    if is_torch(table):
        torch_backend()
        import torch

        return torch.ops.phasor.hierarchical_table(table, rows, alpha)
    out = empty((rows, int(table.shape[-1])), table.dtype, table)
    _core.fill_hierarchical(out, table, alpha)
    return returned(table, out)


def resample_table(table: Array, size: int | tuple[int, int], *, kernel: str = "cubic", align_corners: bool = False) -> Array:
    """A table (N, D) of `size` rows, or a grid (rows, columns, D) of another size: PyTorch's interpolate, linear or cubic.

    >>> import numpy as np, phasor
    >>> phasor.resample_table(np.array([[0.0], [1.0]]), 3, kernel="linear", align_corners=True).tolist()
    [[0.0], [0.5], [1.0]]
    """
    ungraded("resample_table", table)
    extents = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if len(extents) != len(table.shape) - 1:
        raise ValueError(f"resample_table: size has {len(extents)} numbers, the table {len(table.shape) - 1} axes beside its channels")
    out = empty((*extents, int(table.shape[-1])), table.dtype, table)
    _core.resample_table(out, table, kernel, align_corners)
    return returned(table, out)


def read_learned_table(path: str | os.PathLike[str], tensor: str) -> np.ndarray:
    """A tensor (N, D), or (1, ..., N, D), of a safetensors file, as it is there; bfloat16 as ml_dtypes'.

    >>> import phasor
    >>> phasor.read_learned_table("missing.safetensors", "wpe.weight")
    Traceback (most recent call last):
    ...
    FileNotFoundError: missing.safetensors: cannot be found: No such file or directory
    """
    content, dtype, rows, width = _core.read_learned_table(os.fspath(path), tensor)
    names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
    return np.frombuffer(bytearray(content), _numpy_dtype(names[dtype])).reshape(rows, width)
