# SPDX-License-Identifier: Apache-2.0
"""What a rotary embedding module makes of positions, found by asking it: which channel turns by which frequency along which axis."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor

from .. import GivenFrequencies, Rotary


ROWS = 5
# Shapes of position_ids that models use: how many axes, where the axis of the axes is (None: there is one), the rank.
SHAPES: list[tuple[int, int | None, int]] = [
    *((axes, 0, 3) for axes in (3, 2, 4)),  # (axes, B, T): text with images
    *((axes, -1, 2) for axes in (2, 3)),  # (T, axes): patches
    *((axes, -1, 3) for axes in (2, 3)),  # (B, T, axes): patches of a batch
    (1, None, 2),  # (B, T)
]
CLOSE = 4e-6  # of an angle at a position below 8: a few float32 roundings of the angle, the cosine and the scaling


@dataclasses.dataclass(frozen=True)
class Layout:
    """Channel c of the tables turns by sign * frequency[index] along an axis of the position, (axis, index, sign) being turns[c]."""

    shape: tuple[int, int | None, int]  # of position_ids, as in SHAPES
    turns: tuple[tuple[int, int, int], ...]  # index into inv_freq, -1 for a channel that does not turn
    extra: int  # unit axes in front of the result
    complex: bool
    follows_dtype: bool  # tables in the dtype of x, else float32

    @property
    def axes(self) -> int:
        """Axes that turn something."""
        return 1 + max(axis for axis, _, _ in self.turns)

    def fits(self, positions: Tensor) -> bool:
        """Whether the layout was found with positions of this shape."""
        axes, axis_at, rank = self.shape
        if axis_at is None or (axis_at == 0 and positions.ndim == 2):
            return True
        return positions.ndim == rank and positions.shape[axis_at] == axes

    def tables(self, cos_sin: Callable, amplitude: float, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Exact cosines and sines in the module's own layout, (..., channels); cos_sin has a pair for each of the module's frequencies."""
        by_axis, rows = self._by_axis(positions)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        axis, index, sign = (torch.tensor(column) for column in zip(*self.turns))
        cos, sin = cos_sin(by_axis.contiguous(), wide)  # (axes, rows, pairs)
        still = index < 0
        cos = cos[axis, :, index.clamp(min=0)].T.masked_fill(still, amplitude)  # (rows, channels)
        sin = (sin[axis, :, index.clamp(min=0)].T * sign).masked_fill(still, 0)
        return tuple(t.reshape(*rows, len(self.turns))[(None,) * self.extra] for t in (cos, sin))

    def _by_axis(self, positions: Tensor) -> tuple[Tensor, torch.Size]:
        """(axes, rows) as the library takes them, and the shape of the rows."""
        positions = positions.to(torch.float64 if positions.is_floating_point() else torch.int64)
        axes, axis_at, rank = self.shape
        if axis_at is None:
            return positions.reshape(1, -1), positions.shape
        if positions.ndim < rank:
            positions = positions.expand(axes, -1, -1)  # text: every axis at the same position
        by_axis = positions.movedim(axis_at, 0)
        return by_axis[: self.axes].reshape(self.axes, -1), by_axis.shape[1:]


def given_rotary(frequencies: list[float], amplitude: float) -> Rotary:
    """One pair for each frequency."""
    return Rotary(2 * len(frequencies), scaling=GivenFrequencies(tuple(frequencies), amplitude))


class Unlike(Exception):
    """The module's tables are not cosines and sines of positions times its frequencies: why."""


def ask(
    module: torch.nn.Module, positions: Tensor, layer_type: str | None, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, bool]:
    """The module's cosines and sines, and whether they came as one complex tensor."""
    x = torch.zeros(1, positions.shape[-1], 4, dtype=dtype)
    with torch.no_grad():
        got = module(x, positions) if layer_type is None else module(x, positions, layer_type)
    if isinstance(got, Tensor) and got.is_complex():
        return got.real, got.imag, True
    if not (isinstance(got, tuple) and len(got) == 2 and all(isinstance(t, Tensor) for t in got)):
        raise Unlike("it does not answer with cosines and sines")
    return got[0], got[1], False


def position_ids(shape: tuple[int, int | None, int], values: list[list[int]]) -> Tensor:
    """values[axis][row] in a shape of SHAPES."""
    by_axis = torch.tensor(values)
    _, axis_at, rank = shape
    if axis_at == 0:
        return by_axis[:, None]
    if axis_at is None:
        return by_axis
    return by_axis.T if rank == 2 else by_axis.T[None]


def numbers_of(module: torch.nn.Module, layer_type: str | None) -> tuple[Tensor, float]:
    """The module's frequencies and amplitude as they are now: dynamic ones change with the length."""
    prefix = "" if layer_type is None else f"{layer_type}_"
    return buffer_of(module, layer_type).detach().float().cpu(), float(getattr(module, f"{prefix}attention_scaling", 1.0))


def buffer_of(module: torch.nn.Module, layer_type: str | None) -> Tensor:
    """The module's inv_freq, in whatever dtype and on whatever device it is now."""
    return getattr(module, "inv_freq" if layer_type is None else f"{layer_type}_inv_freq")


def find_layout(module: torch.nn.Module, layer_type: str | None, like: Tensor | None = None) -> Layout:
    """The layout of the module's tables for positions shaped like these (None: the first shape it takes); Unlike when it is not known."""
    for shape in SHAPES:
        axes, axis_at, rank = shape
        if like is not None and (rank != like.ndim or (axis_at is not None and like.shape[axis_at] != axes)):
            continue
        try:
            cos, _, _ = ask(module, position_ids(shape, [[0] * ROWS] * axes), layer_type)
        except Unlike:
            raise
        except Exception:  # noqa: BLE001  positions of this shape are not taken
            continue
        if cos.shape[-2] == ROWS and math.prod(cos.shape[:-2]) == 1:  # else the axes were taken for something else
            return _layout_of(module, shape, layer_type)
    raise Unlike("it takes positions of no shape that we know")


def _layout_of(module: torch.nn.Module, shape: tuple, layer_type: str | None) -> Layout:
    """Turns one axis at a time by one position, and reads the frequency of every channel off the angle."""
    known = numbers_of(module, layer_type)[0].double().tolist()
    axes, _, rank = shape
    found: list[tuple[int, int, int]] = []
    for axis in range(axes):
        cos, sin, is_complex = ask(module, position_ids(shape, [[int(a == axis)] * ROWS for a in range(axes)]), layer_type)
        angles = torch.atan2(sin.double(), cos.double()).reshape(-1, cos.shape[-1])[0].tolist()
        found = found or [(0, -1, 1)] * len(angles)
        for channel, angle in enumerate(angles):
            if angle == 0:
                continue
            if found[channel][1] >= 0:
                raise Unlike("a channel turns along two axes at once")
            found[channel] = (axis, _nearest(known, abs(angle)), 1 if angle > 0 else -1)
    rows = 1 if shape[1] == -1 and rank == 2 else 2  # axes of the rows: (T) or (B, T)
    narrow = ask(module, position_ids(shape, [[0] * ROWS] * axes), layer_type, torch.bfloat16)[0].dtype == torch.bfloat16
    layout = Layout(shape, tuple(found), cos.ndim - rows - 1, is_complex, narrow)
    _check(module, layout, layer_type)
    return layout


def _nearest(known: list[float], angle: float) -> int:
    index = min(range(len(known)), key=lambda i: abs(known[i] - angle))
    if abs(known[index] - angle) > 1e-5 * angle:
        raise Unlike(f"a channel turns by {angle:.6g} a position, which is none of its frequencies")
    return index


def _check(module: torch.nn.Module, layout: Layout, layer_type: str | None) -> None:
    """Small positions, where float32 angles are still good and no length has been exceeded: our tables must be the module's."""
    values = [[(3 * row + 5 * axis + 2) % 8 for row in range(ROWS)] for axis in range(layout.shape[0])]
    positions = position_ids(layout.shape, values)
    theirs = ask(module, positions, layer_type)[:2]
    frequencies, amplitude = numbers_of(module, layer_type)
    ours = layout.tables(given_rotary(frequencies.double().tolist(), amplitude).cos_sin, amplitude, positions, torch.float32)
    for own, got in zip(ours, theirs):
        if own.shape != got.shape or (own - got).abs().max() > CLOSE * max(1, abs(amplitude)):
            raise Unlike("its tables are not the cosines and sines of positions times its frequencies")
