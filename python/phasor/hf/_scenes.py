# SPDX-License-Identifier: Apache-2.0
"""Probes: the kinds of call that a rotating function might take, at several lengths and widths, as random tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from ._complex import ROW
from ._forms import Call, Form

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a probe is."""

    width: int  # of a head
    tokens: int
    batch: int = 2
    heads: int = 3

    def __str__(self) -> str:
        return f"{self.tokens} tokens of width {self.width}"


FIRST = Size(24, 5)  # a variant is found at this size, and must hold at the further ones: functions may branch on lengths and widths
FURTHER = (Size(8, 1), Size(64, 2, 1, 2), Size(128, 40, 1, 2), Size(256, 9), Size(16, 300, 1, 2))


def plain_shapes(size: Size) -> list[tuple[Shape, Shape, Shape]]:
    """(shape of q, of k and v, of the tables without their width): ranks and orders that models use."""
    D, T, B, H = size.width, size.tokens, size.batch, size.heads  # noqa: N806
    return [
        ((B, H, T, D), (B, 1, T, D), (B, T)),
        ((B, H, T, D), (B, 1, T, D), (1, T)),
        ((B, T, H, D), (B, T, 1, D), (B, T)),
        ((T, H, D), (T, 1, D), (T,)),
        ((1, T, H, D), (1, T, 1, D), (T,)),
        ((B, H, T, D), (B, 1, T, D), (T,)),
        ((B, H, T, D), (B, 1, T, D), (1, 1, T)),
        ((B, H, T, D), (B, 1, T, D), (B, 1, T)),
        ((B, T, H, D), (B, T, 1, D), (T, 1)),
        ((B, T, D), (B, T, D), (B, T)),
        ((B, H, T + 2, D), (B, 1, T + 2, D), (T,)),  # tokens without a row come first: DINOv3
        ((B, H, max(T - 2, 1), D), (B, 1, T, D), (B, T)),  # q has the last rows
    ]


def packed_shapes(size: Size) -> list[tuple[Shape, Shape, Shape]]:
    """The same where cosines and sines lie in one tensor."""
    D, T, B, H = size.width, size.tokens, size.batch, size.heads  # noqa: N806
    return [((B, H, T, D), (B, H, T, D), (1, 1, T)), ((B, T, D), (B, T, D), (2, T + 2, 1, 1))]


@dataclasses.dataclass(frozen=True)
class Scene:
    """One kind of call."""

    tables: str  # separate, complex or packed: see Form
    shape: int  # which of those above
    part: int  # the tables are for one of so many parts of the head
    axis: int | None
    given: int  # tensors; the others are None
    heads: tuple[int, int] | None = None  # their number and width, where the function reads them from its module
    size: Size = FIRST
    device: str = "cpu"  # where the model is

    def shapes(self) -> tuple[Shape, Shape, Shape]:
        """Of q, of k and v, and of the tables."""
        size = self.size
        if self.heads is not None:
            packed = (size.batch, size.tokens, self.heads[0] * self.heads[1])
            return packed, packed, (*packed_shapes(size)[1][2], self.heads[1])
        width = size.width
        if self.tables == "complex":
            width = -(-width // (2 * ROW)) * 2 * ROW  # whole registers
        made = packed_shapes if self.tables == "packed" else plain_shapes
        q, others, rows = made(dataclasses.replace(size, width=width))[self.shape]
        return q, others, (*rows, max(width // self.part // 2 * 2, 2))


def scenes(form: Form, heads: tuple[int, int] | None, device: str = "cpu") -> Iterator[Scene]:
    """Every kind of call that might be taken; `heads` (their number and width) where the function reads them from its module."""
    shapes = 1 if heads is not None else len((packed_shapes if form.tables == "packed" else plain_shapes)(FIRST))
    parts = (1,) if heads is not None else (2, 1) if form.tables == "complex" else (1, 2, 3)
    for shape in range(shapes):
        for part in parts:
            for axis in (0, 1, 2, -2) if "axis" in form.roles else (None,):
                for given in range(1, form.roles.count("tensor") + 1):
                    yield Scene(form.tables, shape, part, axis, given, heads, device=device)


def random(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Normal numbers of any dtype, the same for every device."""
    return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)


def call_of(form: Form, scene: Scene, dtypes: tuple[torch.dtype, torch.dtype], generator: torch.Generator) -> Call:
    """Random tensors and tables of one probe."""
    q, others, table = scene.shapes()
    count = form.roles.count("tensor")
    tensors = [random(q if i == 0 else others, dtypes[0], generator).to(scene.device) if i < scene.given else None for i in range(count)]
    kind = torch.complex64 if form.tables == "complex" else dtypes[1]
    tables = tuple(random(table, kind, generator).to(scene.device) for _ in range(2 if form.tables == "separate" else 1))
    rows = torch.arange(scene.size.tokens, device=scene.device).flip(0)[None] if "rows" in form.roles else None
    return Call(tensors, tables, rows, scene.axis)
