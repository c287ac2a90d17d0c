# SPDX-License-Identifier: Apache-2.0
"""The operator of biases on scores: filled from the positions of queries and keys. Parameters and their gradients are phasor.nn's."""

from __future__ import annotations

import torch
from torch import Tensor

from phasor._torch import checks, recorded
from phasor._torch.operators import LIBRARY
from phasor._torch.spec_text import bias_of

LIBRARY.define("bias(Tensor q_positions, Tensor k_positions, str spec, ScalarType dtype) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))


def _shape(q_positions: Tensor, k_positions: Tensor, spec: str) -> tuple[int, ...]:
    """(heads, Tq, Tk), or (B, heads, Tq, Tk) where queries or keys have rows of their own."""
    checks.one_device("bias", q_positions=q_positions, k_positions=k_positions)
    for name, x in (("q_positions", q_positions), ("k_positions", k_positions)):
        checks.position_values(f"bias: {name}", x)
        if x.ndim > 2:
            raise ValueError(f"bias: {name} have {x.ndim} axes, wanted (T) or (B, T)")
    shape = (bias_of(spec).heads, q_positions.shape[-1], k_positions.shape[-1])
    if q_positions.ndim == 1 and k_positions.ndim == 1:
        return shape
    q_rows, k_rows = (x.shape[0] if x.ndim == 2 else 1 for x in (q_positions, k_positions))
    if q_rows != k_rows and q_rows != 1 and k_rows != 1:
        raise ValueError(f"bias: q_positions are of {q_rows} batch rows and k_positions of {k_rows}, wanted as many, or 1")
    return (k_rows if q_rows == 1 else q_rows, *shape)


def _bias(q_positions: Tensor, k_positions: Tensor, spec: str, dtype: torch.dtype) -> Tensor:
    out = q_positions.new_empty(_shape(q_positions, k_positions, spec), dtype=dtype)
    bias_of(spec).fill(out, q_positions, k_positions, 0)
    return out


LIBRARY.impl("bias", _bias, "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::bias", lib=LIBRARY)
def _(q_positions: Tensor, k_positions: Tensor, spec: str, dtype: torch.dtype) -> Tensor:
    return q_positions.new_empty(_shape(q_positions, k_positions, spec), dtype=dtype)


recorded.register_without(torch.ops.phasor.bias.default)
