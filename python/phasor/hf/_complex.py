# SPDX-License-Identifier: Apache-2.0
"""PyTorch's complex product: whether its bits are those of separate roundings here, and the rotation that a model makes of it."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ._forms import Call
from ._variants import ALIGN, Misfit, Variant

# Pairs that fill the registers of every processor: what is left over of one, PyTorch computes by another loop, with other roundings.
ROW = 16
FUSED = "PyTorch fuses its complex product on this processor, so only its own function has its bits"


@functools.cache
def separate_roundings(device: str = "cpu") -> bool:
    """Whether PyTorch rounds every product of a complex product in whole registers; asked by trying, because compilers decide it.

    (a + bi)(c + si), seen with PyTorch 2.13. x86-64: separate in whole registers; in what is left over of a register the first products
    are fused. aarch64 (NEON): nothing is separate. In whole registers the real part fuses b s, the imaginary part a s in every fourth
    pair and b c in the others; in what is left over they fuse a c and a s.
    """
    generator = torch.Generator().manual_seed(20)
    for pairs in (ROW, 4 * ROW):
        parts = torch.randn(4, 64, pairs, generator=generator, device="cpu").to(device)
        a, b, c, s = parts
        got = torch.complex(a, b) * torch.complex(c, s)
        if not (torch.equal(got.real, a * c - b * s) and torch.equal(got.imag, a * s + b * c)):
            return False
    return True


def by_product(variant: Variant, packing: str, call: Call) -> list[Tensor | None]:
    """What the variant makes of a call when PyTorch's complex product does the rotation, as it does in the models."""
    plain = variant.pairing == variant.output_pairing == "interleaved" and variant.sense == "counterclockwise"
    if packing != "complex" or not plain or variant.width != "pairs" or variant.place != "leading":
        raise Misfit
    table = ALIGN[variant.align](call.tables[0], call.axis)

    def turned(x: Tensor) -> Tensor:
        return torch.view_as_real(torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * table).flatten(-2).type_as(x)

    return [None if x is None else turned(x) for x in call.tensors]
