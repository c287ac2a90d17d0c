# SPDX-License-Identifier: Apache-2.0
"""Cosines and sines of a spec as the library itself applies them: what it makes of a vector that is 1 where a pair begins and 0 where it ends.

So amplitude, sense, direction, unit and numerics are in the tables, by the one implementation that there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from phasor._rotary import Rotary
from phasor._spec import GivenDirections
from phasor._torch.kernels import rotary_of, turn

_FAR = 1_000_003  # a position at which no pair that turns at all is where it was


def _first_and_second(spec: Any) -> tuple[slice, slice]:
    """The channels that pairs begin and end with."""
    first, end = spec.rotary_offset, spec.rotary_offset + spec.rotary_width
    if spec.pairing == "interleaved":
        return slice(first, end, 2), slice(first + 1, end, 2)
    return slice(first, first + spec.rotary_width // 2), slice(first + spec.rotary_width // 2, end)


@dataclass(frozen=True)
class Turns:
    """A rotation as the operators carry it: the words of a spec and a direction; dtype is that of the tensors, by which profiles round."""

    words: tuple[int, ...]
    direction: int
    dtype: torch.dtype

    @property
    def spec(self) -> Any:
        return rotary_of(torch.tensor(self.words)).spec

    def rows(self, positions: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin, float32, (..., P) for positions (...) or, of several axes, (axes, ...)."""
        spec = self.spec
        core = Rotary.from_spec(replace(spec, output_pairing=None))._core
        first, second = _first_and_second(spec)
        tokens = positions.shape[1:] if positions.ndim == 3 else positions.shape
        x = torch.zeros((1, *tokens)[-2:] + (1, spec.head_dim), dtype=torch.float32 if spec.numerics == "exact" else self.dtype)
        x[..., first] = 1
        out = torch.empty_like(x)
        turn(core, (x, None, out, None), positions.contiguous(), self.direction)
        turned = out.float().reshape(*tokens, spec.head_dim).numpy()
        return np.ascontiguousarray(turned[..., first]), np.ascontiguousarray(turned[..., second])

    def table(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin of positions 0 to length - 1, (length, P); of several axes each pair at a position of its own axis."""
        at = torch.arange(length)
        if self.axes == 1:
            return self.rows(at)
        cos, sin = self.rows(at.expand(self.axes, 1, length))
        return cos[0], sin[0]

    @property
    def axes(self) -> int:
        """How many numbers a position is."""
        spec = self.spec
        given = (1 + axis for axis in spec.axes.axis_of_pair)
        return max(1, len(spec.axes.sections), getattr(spec.scaling, "axes", 1), *given)

    def axis_of_pair(self) -> np.ndarray:
        """Which axis turns each pair (P), seen by moving along one axis at a time."""
        pairs = self.spec.rotary_width // 2
        found = np.zeros(pairs, np.int64)
        for axis in range(1, self.axes):
            at = torch.zeros(self.axes, 1, 2, dtype=torch.int64)
            at[axis, 0, 1] = _FAR
            cos, sin = (x[0] for x in self.rows(at))
            found[(cos[0] != cos[1]) | (sin[0] != sin[1])] = axis
        return found


def refuse_spec(spec: Any, constant: bool) -> None:
    """Refuses what RotaryEmbedding cannot say."""
    if spec.output_pairing not in (None, spec.pairing):
        raise NotImplementedError(f"onnx: the spec has output_pairing {spec.output_pairing!r}, wanted that of the input: RotaryEmbedding has one")
    if spec.lanes != "alike":
        raise NotImplementedError(f"onnx: the spec has lanes {spec.lanes!r}, wanted 'alike': RotaryEmbedding has one frequency per pair")
    if spec.segments != 1:
        raise NotImplementedError(f"onnx: the spec has {spec.segments} segments, wanted 1: RotaryEmbedding turns one run of channels")
    if isinstance(spec.scaling, GivenDirections) and (spec.scaling.heads != 1 or not constant):
        raise NotImplementedError(
            "onnx: the spec has GivenDirections, wanted one of one head and positions that are constants: a table by position cannot hold it"
        )
