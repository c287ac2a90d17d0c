# SPDX-License-Identifier: Apache-2.0
"""A rotation a*c - b*d written out with one rounding more or less, and how far such results can be from each other."""

from __future__ import annotations

import torch
from torch import Tensor

UNIT = 2.0**-24  # half an ulp of float32, of a number near 1: what one rounding can move it, as a share of it


def unfused(a: Tensor, c: Tensor, b: Tensor, d: Tensor) -> Tensor:
    """a*c + b*d in float32: three roundings, of both products and the sum."""
    return a.float() * c.float() + b.float() * d.float()


def fused(a: Tensor, c: Tensor, b: Tensor, d: Tensor) -> Tensor:
    """fma(a, c, b*d) in float32: two roundings, of b*d and of all."""
    return _nearest_sum(a.double() * c.double(), (b.float() * d.float()).double())  # the product of two float32 fits into a double


def _nearest_sum(x: Tensor, y: Tensor) -> Tensor:
    """x + y rounded once, to float32. By way of a double that is rounded to odd: the second rounding then sees on which side of a half it is."""
    total = x + y
    part = total - x
    rest = (x - (total - part)) + (y - part)  # what the first rounding lost, exactly (Knuth's TwoSum)
    even = (total.view(torch.int64) & 1) == 0
    towards = torch.nextafter(total, torch.where(rest > 0, torch.inf, -torch.inf).double())
    return torch.where((rest != 0) & even, towards, total).float()


def cut(x: Tensor) -> Tensor:
    """bfloat16 by the upper half of a float32's bits: towards zero, not to the nearest."""
    return (x.contiguous().view(torch.int32) & -65536).view(torch.float32).bfloat16()


def room(dtype: torch.dtype, length: Tensor) -> Tensor:
    """How far apart two ways of rounding a*c + b*d can be: one fuses a product, the other does not, one may cut to bfloat16.

    Let L = |a*c| + |b*d|. The product that one way rounds and the other does not: UNIT * L at most, if it is all of L. Each way rounds its sum
    once, UNIT * L (1 + 2 UNIT) each. Together 3 UNIT * L, and UNIT**2 terms. bfloat16 rounds that again, by half its eps or, where it is cut,
    by a whole one. L is at most the length of the turned pair, hypot(a, b) * hypot(c, d) (Cauchy and Schwarz), which is `length` here: the
    length of the pair that one way found, itself off by some eps, which the last factor is for."""
    share = 3 * UNIT
    if dtype != torch.float32:
        share += 1.5 * torch.finfo(dtype).eps
    return share * length * (1 + 4 * torch.finfo(dtype).eps)


def lengths(x: Tensor, width: int, neox: bool) -> Tensor:
    """For each channel of heads (..., D): the length of its pair, of the first `width` channels; the others do not turn, 0."""
    turned = x[..., :width].double()
    if neox:
        half = torch.hypot(*turned.chunk(2, -1))
        pairs = torch.cat((half, half), -1)
    else:
        pairs = torch.hypot(turned[..., ::2], turned[..., 1::2]).repeat_interleave(2, -1)
    return torch.nn.functional.pad(pairs, (0, x.shape[-1] - width))
