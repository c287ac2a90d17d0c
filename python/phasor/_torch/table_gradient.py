# SPDX-License-Identifier: Apache-2.0
"""The gradient of a rotation by its tables. A rotation is linear in them too, so it is made of rotations by tables of ones and zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._torch.kernels import FORWARD
from phasor._torch.plain import dense

_INTERLEAVED = 1


def _as_batch(x: Tensor) -> Tensor:
    """(B, T, H, D)."""
    return {2: lambda: x[None, :, None], 3: lambda: x[None], 4: lambda: x}[x.ndim]()


def _lanes_together(x: Tensor, layout: Any) -> Tensor:
    """(..., R) to (..., P): the sum over the two channels of each pair, as the output has them."""
    _, _, pairing, output, _, _, segments = layout
    x = x.unflatten(-1, (segments, -1))
    interleaved = (pairing if output < 0 else output) == _INTERLEAVED
    return x.unflatten(-1, (-1, 2) if interleaved else (2, -1)).sum(-1 if interleaved else -2).flatten(-2)


def _to_table(x: Tensor, table: Tensor, layout: Any) -> Tensor:
    """The sum of (B, T, H, D) over what the table shares: batch rows, heads, lanes."""
    width = layout[0] or x.shape[-1]
    x = x.narrow(-1, layout[1], width)
    if table.shape[-1] != width:
        x = _lanes_together(x, layout)
    if table.ndim < 4 or table.shape[2] == 1:
        x = x.sum(2, keepdim=True)
    if table.ndim == 2 or table.shape[0] == 1:
        x = x.sum(0, keepdim=True)
    return x.reshape(table.shape).to(table.dtype)


def by_tables(
    tensors: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...], tables: tuple[Tensor, Tensor], layout: Any, direction: int
) -> Any:
    """The gradients by cos and sin, from what was rotated and the gradients by the results."""
    cos, sin = tables
    results = []
    for table, units in ((cos, (torch.ones_like(cos), torch.zeros_like(sin))), (sin, (torch.zeros_like(cos), torch.ones_like(sin)))):
        total = torch.zeros_like(table)
        for x, gradient in zip(tensors, gradients):
            if gradient is None:
                continue
            # <g, R x> and <g, R^T x> = <x, R g>: what is turned forward has its channels where the table's are.
            turned, other = (x, gradient) if direction == FORWARD else (gradient, x)
            wide = torch.promote_types(x.dtype, torch.float32)
            product = torch.ops.phasor.rotary_tables(dense(turned), *units, layout, FORWARD).to(wide) * other.to(wide)
            total = total + _to_table(_as_batch(product), table, layout)
        results.append(total)
    return results
