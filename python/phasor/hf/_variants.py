# SPDX-License-Identifier: Apache-2.0
"""The ways in which models rotate by given tables, as values, and the one function that does any of them with phasor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import apply_rotary



@dataclasses.dataclass(frozen=True)
class Variant:
    """How one function rotates: what it does with its tables, which channels form pairs, in which arithmetic."""

    align: str = "none"  # where the tables get the axis of the heads: see ALIGN
    width: str = "lanes"  # what a row of the tables holds: see WIDTHS
    pairing: str = "half"
    output_pairing: str = "half"
    sense: str = "counterclockwise"
    place: str = "leading"  # of the rotary width within the head: leading or trailing
    arithmetic: str = "dtype"  # see ARITHMETIC

    def __str__(self) -> str:
        pairing = self.pairing if self.pairing == self.output_pairing else f"{self.pairing} to {self.output_pairing}"
        parts = [pairing, ARITHMETIC[self.arithmetic]]
        parts += ["clockwise"] if self.sense == "clockwise" else []
        parts += ["trailing"] if self.place == "trailing" else []
        return ", ".join(parts)


# Each takes tables and the value of `unsqueeze_dim` (None where there is no such parameter).
ALIGN: dict[str, Callable[[Tensor, int | None], Tensor]] = {
    "parameter": lambda table, axis: table.unsqueeze(axis),
    "none": lambda table, axis: table,
    "-2": lambda table, axis: table.unsqueeze(-2),
    "1": lambda table, axis: table.unsqueeze(1),
    "2": lambda table, axis: table.unsqueeze(2),
    "outer": lambda table, axis: table[None, :, None],
    "rows": lambda table, axis: table.reshape(1, table.shape[0], 1, table.shape[-1]),
    "time_first": lambda table, axis: table.transpose(0, 1),
}
# A row of the tables: one value per channel; one per channel, of which the first half counts; one per pair.
WIDTHS = ("lanes", "first_half", "pairs")
# dtype: in what PyTorch promotes tensor and table to, and so is the result; dtype_back: the result in the tensor's dtype;
# float32, float64: the tensor is widened, the result rounded once.
ARITHMETIC = {"dtype": "hf", "dtype_back": "hf, dtype kept", "float32": "hf_float32", "float64": "float64"}

PAIRINGS = [("half", "half"), ("interleaved", "interleaved"), ("interleaved", "half")]


def all_variants(aligns: Sequence[str]) -> list[Variant]:
    """Every variant with one of these alignments, in plain arithmetic."""
    return [
        Variant(align, width, pairing, output, sense, place)
        for align in aligns
        for width in WIDTHS
        for pairing, output in PAIRINGS
        for sense in ("counterclockwise", "clockwise")
        for place in ("leading", "trailing")
    ]


class Misfit(Exception):
    """The tensors of a call have no place in this variant: the model's own function is to be used."""


def rotate(variant: Variant, tensors: Sequence[Tensor | None], tables: tuple[Tensor, Tensor], axis: int | None) -> list[Tensor | None]:
    """The rotated tensors (None stays None), bit for bit what the function of this variant returns."""
    cos, sin = (ALIGN[variant.align](table, axis) for table in tables)
    if variant.width == "first_half":
        half = cos.shape[-1] // 2
        cos, sin = cos[..., :half], sin[..., :half]
    given = [t for t in tensors if t is not None]
    if len(given) == 2 and given[0].ndim == given[1].ndim and given[0].shape[-2] == given[1].shape[-2]:
        done = list(_rotate_two(variant, given[0], given[1], (cos, sin)))
    else:
        done = [_rotate_two(variant, t, None, (cos, sin))[0] for t in given]
    rotated = iter(done)
    return [None if t is None else next(rotated) for t in tensors]


def _rotate_two(variant: Variant, q: Tensor, k: Tensor | None, tables: tuple[Tensor, Tensor]) -> list[Tensor | None]:
    """One or two tensors of the same layout, cut to the tokens that the tables have rows for."""
    q_head, q, tables = _cut(q, tables)
    k_head = None
    if k is not None:
        k_head, k, _ = _cut(k, tables)
    rotated = _rotate_tokens(variant, q, k, tables)
    return [_joined(q_head, rotated[0]), _joined(k_head, rotated[1])]


def _cut(x: Tensor, tables: tuple[Tensor, Tensor]) -> tuple[Tensor | None, Tensor, tuple[Tensor, Tensor]]:
    """Tokens before the first row of the tables stay as they are (DINOv3); rows before the first token are not used."""
    cos, sin = tables
    rows = cos.shape[-2] if cos.ndim > 1 else 1
    tokens = x.shape[-2]
    if rows in (1, tokens):
        return None, x, tables
    if rows > tokens:
        return None, x, (cos[..., rows - tokens :, :], sin[..., rows - tokens :, :])
    return x[..., : tokens - rows, :], x[..., tokens - rows :, :], tables


def _joined(head: Tensor | None, rest: Tensor | None) -> Tensor | None:
    return rest if head is None else torch.cat((head, rest), dim=-2)


def _rotate_tokens(variant: Variant, q: Tensor, k: Tensor | None, tables: tuple[Tensor, Tensor]) -> list[Tensor | None]:
    """Chooses dtype and layout, and calls phasor."""
    cos, sin = tables
    dtype = q.dtype
    if variant.arithmetic == "dtype":
        dtype = torch.promote_types(q.dtype, cos.dtype)
    elif variant.arithmetic == "float64":
        dtype, cos, sin = torch.float64, cos.double(), sin.double()
    given = [None if t is None else _unit_stride(t.to(dtype)) for t in (q, k)]
    order, cos = order_of(q, cos)
    cos, sin = _unit_stride(cos), _unit_stride(order_of(q, sin)[1])
    if k is not None and k.ndim == 4 and order == "BHTD" and cos.shape[2] not in (1, k.shape[1]):
        raise Misfit
    views = [None if t is None else _INTO[order](t) for t in given]
    turned = apply_rotary(views[0], views[1], cos, sin, **keywords(variant, q.shape[-1], cos.shape[-1]))
    turned = (turned, None) if k is None else turned
    back = q.dtype if variant.arithmetic == "float64" else dtype
    return [None if t is None else _OUT_OF[order](t).to(back) for t in turned]


def _unit_stride(t: Tensor) -> Tensor:
    """The library wants the channels of a head side by side."""
    return t if t.stride(-1) == 1 else t.contiguous()


# The library's layout is (B, T, H, D): other orders are views.
_INTO = {
    "BHTD": lambda t: t.transpose(1, 2),
    "BTHD": lambda t: t,
    "THD": lambda t: t.unsqueeze(0),
    "BTD": lambda t: t.unsqueeze(2),
    "TD": lambda t: t[None, :, None],
}
_OUT_OF = {
    "BHTD": lambda t: t.transpose(1, 2),
    "BTHD": lambda t: t,
    "THD": lambda t: t.squeeze(0),
    "BTD": lambda t: t.squeeze(2),
    "TD": lambda t: t[0, :, 0],
}


def order_of(x: Tensor, table: Tensor) -> tuple[str, Tensor]:
    """Which axis of x is tokens, from how the table broadcasts against it; the table as (B or 1, T, 1 or H, width)."""
    if table.ndim > x.ndim:
        raise Misfit
    table = table[(None,) * (x.ndim - table.ndim)]
    sizes, shape = x.shape, table.shape
    if any(shape[i] not in (1, sizes[i]) for i in range(x.ndim - 1)):
        raise Misfit
    if x.ndim == 4:
        if shape[2] == 1 and shape[1] != 1:
            return "BTHD", table
        return "BHTD", table.expand(-1, -1, sizes[2], -1).transpose(1, 2)
    if x.ndim == 3:
        if shape[1] == 1 and shape[0] != 1:
            return "THD", table.unsqueeze(0)
        return "BTD", table.expand(-1, sizes[1], -1).unsqueeze(2)
    if x.ndim == 2:
        return "TD", table.expand(sizes[0], -1)[None, :, None]
    raise Misfit


def keywords(variant: Variant, head: int, row: int) -> dict[str, object]:
    """The layout of the tables in the words of `phasor.apply_rotary`."""
    rotary_width = row if variant.width == "lanes" else 2 * row
    if rotary_width > head:
        raise Misfit
    return {
        "rotary_width": rotary_width,
        "rotary_offset": head - rotary_width if variant.place == "trailing" else 0,
        "pairing": variant.pairing,
        "output_pairing": None if variant.output_pairing == variant.pairing else variant.output_pairing,
        "sense": variant.sense,
        "numerics": "hf_float32" if variant.arithmetic == "float32" else "hf",
    }
