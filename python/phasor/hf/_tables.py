# SPDX-License-Identifier: Apache-2.0
"""What a rotary embedding module makes of positions, found by asking it: which channel turns by which frequency along which axis."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from .. import Axes, GivenFrequencies, Rotary

Tensor = torch.Tensor

ROWS = 5
# Shapes of position_ids: the shape for some axes and rows, and where the axis of the axes is (None: positions have one axis).
SHAPES: list[tuple[int, int | None]] = [(3, 0), (2, 0), (4, 0), (2, -1), (3, -1), (1, None)]
CLOSE = 2e-5  # of an angle at a position below 50: a few float32 roundings of the angle, the cosine and the scaling


@dataclasses.dataclass(frozen=True)
class Layout:
    """Channel c of the tables is amplitude * cos(position[axis] * frequency), (axis, frequency) being turns[channels[c]]."""

    axes: int
    axis_at: int | None  # where position_ids have their axes: 0, -1, or None when they have one
    turns: tuple[tuple[int, int, int], ...]  # (axis, index into inv_freq or -1 for no turn, sign)
    channels: tuple[int, ...]
    extra: int  # unit axes in front of the result
    complex: bool
    follows_dtype: bool  # tables in the dtype of x, else float32

    def rotary(self, frequencies: tuple[float, ...], amplitude: float) -> Rotary:
        """The encoding whose pairs are the turns."""
        given = tuple(0.0 if index < 0 else sign * frequencies[index] for _, index, sign in self.turns)
        axes = Axes() if self.axes == 1 else Axes(order="given", axis_of_pair=tuple(axis for axis, _, _ in self.turns))
        return Rotary(2 * len(given), scaling=GivenFrequencies(given, amplitude), axes=axes)

    def tables(self, rotary: Rotary, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Exact cosines and sines in the module's own layout, (..., channels)."""
        axes, shape = self._by_axis(positions)
        at = axes.contiguous()[:, None] if self.axes > 1 else axes[0].contiguous()  # (axes, 1, rows) or (rows)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        index = torch.tensor(self.channels)
        cos, sin = (t.reshape(-1, len(self.turns))[:, index].reshape(*shape, len(index)) for t in rotary.cos_sin(at, dtype=wide))
        return cos[(None,) * self.extra], sin[(None,) * self.extra]

    def _by_axis(self, positions: Tensor) -> tuple[Tensor, torch.Size]:
        """(axes, rows) as the library takes them, and the shape of the rows."""
        positions = positions.to(torch.float64 if positions.is_floating_point() else torch.int64)
        if self.axis_at is None:
            return positions.reshape(1, -1), positions.shape
        if self.axis_at == 0 and positions.ndim == 2:
            positions = positions.expand(self.axes, -1, -1)  # text: every axis at the same position
        by_axis = positions.movedim(self.axis_at, 0).expand(self.axes, *positions.movedim(self.axis_at, 0).shape[1:])
        return by_axis.reshape(self.axes, -1), by_axis.shape[1:]


class Unlike(Exception):
    """The module's tables are not cosines and sines of positions times its frequencies: why."""


def ask(module: torch.nn.Module, positions: Tensor, layer_type: str | None, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, bool]:
    """The module's cosines and sines, and whether they came as one complex tensor."""
    x = torch.zeros(1, positions.shape[-1], 4, dtype=dtype)
    with torch.no_grad():
        got = module(x, positions) if layer_type is None else module(x, positions, layer_type)
    if isinstance(got, Tensor) and got.is_complex():
        return got.real, got.imag, True
    if not (isinstance(got, tuple) and len(got) == 2 and all(isinstance(t, Tensor) for t in got)):
        raise Unlike("it does not answer with cosines and sines")
    return got[0], got[1], False


def position_ids(axes: int, axis_at: int | None, values: list[list[int]]) -> Tensor:
    """values[axis][row] in the module's shape: (axes, 1, rows), (rows, axes) or (1, rows)."""
    by_axis = torch.tensor(values)
    return by_axis[:, None] if axis_at == 0 else by_axis.T if axis_at == -1 else by_axis


def find_layout(module: torch.nn.Module, inv_freq: Tensor, amplitude: float, layer_type: str | None) -> Layout:
    """The layout of the module's tables; Unlike when it has none that we know."""
    for axes, axis_at in SHAPES:
        zeros = [[0] * ROWS for _ in range(axes)]
        try:
            cos, _, is_complex = ask(module, position_ids(axes, axis_at, zeros), layer_type)
        except Unlike:
            raise
        except Exception:  # noqa: BLE001  positions of this shape are not taken
            continue
        rows = cos.shape[-2]
        if rows != ROWS or math.prod(cos.shape[:-2]) != 1:
            continue  # the axes were taken for batch rows
        return _layout_of(module, inv_freq, amplitude, (axes, axis_at, cos.ndim, is_complex, layer_type))
    raise Unlike("it takes positions of no shape that we know")


def _layout_of(module: torch.nn.Module, inv_freq: Tensor, amplitude: float, seen: tuple) -> Layout:
    """Turns one axis at a time by one position, and reads the frequency of every channel off the angle."""
    axes, axis_at, ndim, is_complex, layer_type = seen
    known = inv_freq.double().tolist()
    found: list[tuple[int, int, int]] | None = None
    for axis in range(axes):
        values = [[1 if a == axis else 0] * ROWS for a in range(axes)]
        cos, sin, _ = ask(module, position_ids(axes, axis_at, values), layer_type)
        angles = torch.atan2(sin.double(), cos.double()).reshape(-1, cos.shape[-1])[0].tolist()
        found = found or [(0, -1, 1)] * len(angles)
        for channel, angle in enumerate(angles):
            if abs(angle) < min(1e-30, min(known)):
                continue
            if found[channel][1] >= 0:
                raise Unlike("a channel turns along two axes at once")
            found[channel] = (axis, _nearest(known, abs(angle)), 1 if angle > 0 else -1)
    turns = tuple(dict.fromkeys(found))
    expected = 3 if axis_at == 0 or axis_at is None else 2
    _, _, _ = ask(module, position_ids(axes, axis_at, [[0] * ROWS] * axes), layer_type)
    narrow = ask(module, position_ids(axes, axis_at, [[0] * ROWS] * axes), layer_type, torch.bfloat16)[0].dtype
    layout = Layout(axes, axis_at, turns, tuple(turns.index(t) for t in found), ndim - expected, is_complex, narrow == torch.bfloat16)
    _check(module, layout, (known, amplitude), layer_type)
    return layout


def _nearest(known: list[float], angle: float) -> int:
    index = min(range(len(known)), key=lambda i: abs(known[i] - angle))
    if abs(known[index] - angle) > 1e-5 * angle:
        raise Unlike(f"a channel turns by {angle:.6g} a position, which is none of its frequencies")
    return index


def _check(module: torch.nn.Module, layout: Layout, numbers: tuple[list[float], float], layer_type: str | None) -> None:
    """Small positions, where float32 angles are still good: our tables must be the module's."""
    values = [[(7 * row + 13 * axis + 3) % 50 for row in range(ROWS)] for axis in range(layout.axes)]
    positions = position_ids(layout.axes, layout.axis_at, values)
    theirs = ask(module, positions, layer_type)[:2]
    ours = layout.tables(layout.rotary(tuple(numbers[0]), numbers[1]), positions, torch.float32)
    for own, got in zip(ours, theirs):
        if own.shape != got.shape or (own - got).abs().max() > CLOSE * max(1, abs(numbers[1])):
            raise Unlike("its tables are not the cosines and sines of positions times its frequencies")
