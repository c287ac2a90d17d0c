# SPDX-License-Identifier: Apache-2.0
"""Rotation by learned frequencies or positions: the operator, and its gradients by tensor, frequencies and positions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._spec import GivenDirections, GivenFrequencies, RotarySpec, TableLayout
from phasor._torch import checks, private, recorded
from phasor._torch.caches import cached
from phasor._torch.kernels import FORWARD, INVERSE_TRANSPOSE, TRANSPOSED, rotary_of, turn
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import dense

_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
ops = torch.ops.phasor
# Without frequencies they are the spec's own.
LIBRARY.define(
    "learned_rotary(Tensor x, Tensor words, Tensor? frequencies, Tensor? positions, SymInt offset, int direction) -> Tensor", tags=_TAGS
)
LIBRARY.define(
    "learned_rotary_gradient(Tensor rotated, Tensor gradient, Tensor words, Tensor? frequencies, Tensor? positions, SymInt offset, "
    "int direction) -> (Tensor, Tensor)",
    tags=_TAGS,
)


@cached
def _core_of(spec: RotarySpec) -> Any:
    return _core.Rotary(spec)


@cached
def _spec_of(core: Any) -> RotarySpec:
    return core.spec


def given_scaling(frequencies: Any, amplitude: float) -> GivenFrequencies | GivenDirections:
    """The scaling of frequencies (P) or (axes, heads, P), a tensor or a NumPy array; of a tensor on the meta device its shape."""
    if isinstance(frequencies, Tensor):
        frequencies = frequencies.detach()
        frequencies = torch.zeros(frequencies.shape, device="cpu") if frequencies.device.type == "meta" else frequencies
    values = tuple(float(x) for x in frequencies.reshape(-1).tolist())
    if frequencies.ndim == 1:
        return GivenFrequencies(frequencies=values, amplitude=amplitude)
    if amplitude != 1:
        raise NotImplementedError(f"learned_rotary: the amplitude is {amplitude}, frequencies of (axes, heads, P) have one of 1 alone")
    return GivenDirections(axes=frequencies.shape[0], heads=frequencies.shape[1], frequencies=values)


def _made(words: Tensor, frequencies: Tensor | None) -> Any:
    """The spec of the words with these frequencies: (P), or (axes, heads, P)."""
    core = rotary_of(words)
    if frequencies is None:
        return core
    return _core_of(replace(_spec_of(core), scaling=given_scaling(frequencies, core.amplitude)))


def _learned_rotary(x: Tensor, words: Tensor, frequencies: Tensor | None, positions: Tensor | None, offset: int, direction: int) -> Tensor:
    _check(x, words, frequencies, positions, offset, direction)
    out = torch.empty_like(x)
    turn(_made(words, frequencies), (x, None, out, None), offset if positions is None else positions, direction)
    return out


def _check(x: Tensor, words: Tensor, frequencies: Tensor | None, positions: Tensor | None, offset: int, direction: int) -> None:
    checks.shapes_by_positions("learned_rotary", (x,), words, positions, offset, direction)
    if frequencies is not None:
        checks.beside("learned_rotary", "frequencies", frequencies, x)
        if frequencies.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"learned_rotary: frequencies are {frequencies.dtype}, wanted float32 or float64")
        if frequencies.ndim not in (1, 3):
            raise ValueError(f"learned_rotary: frequencies have {frequencies.ndim} axes, wanted (P) or (axes, heads, P)")


def _phase_gradient(core: Any, spec: RotarySpec, rotated: Tensor, gradient: Tensor, direction: int) -> Tensor:
    """(B, T, H or 1, P), radians, as if the rotation had been forward."""
    own = isinstance(spec.scaling, GivenDirections) and spec.scaling.heads > 1
    rows, tokens = (rotated.shape[:2]) if rotated.ndim == 4 else (1, rotated.shape[0])
    heads = rotated.shape[-2] if own else 1
    forwards = direction in (FORWARD, INVERSE_TRANSPOSE)
    pairing = spec.output_pairing if forwards and spec.output_pairing is not None else spec.pairing
    layout = TableLayout(core.rotary_width, spec.rotary_offset, pairing, None, spec.sense, "exact", spec.segments)
    out = rotated.new_empty((rows, tokens, heads, core.rotary_width // 2), dtype=torch.float64)
    _core.phase_gradient(out, rotated, gradient, _core.TableLayout(layout), False)
    return out if forwards else out.neg_()


def _learned_rotary_gradient(
    rotated: Tensor, gradient: Tensor, words: Tensor, frequencies: Tensor | None, positions: Tensor | None, offset: int, direction: int
) -> tuple[Tensor, Tensor]:
    core = _made(words, frequencies)
    spec = _spec_of(core)
    phase = _phase_gradient(core, spec, rotated, dense(gradient), direction)
    by_frequency = rotated.new_zeros(() if frequencies is None else frequencies.shape, dtype=torch.float64)
    if frequencies is not None:
        _core.frequency_gradient(core, by_frequency, phase, offset if positions is None else positions)
        by_frequency = by_frequency * (2 * math.pi if spec.unit == "turns" else 1)
        by_frequency = by_frequency.to(frequencies.dtype)
    by_position = rotated.new_zeros(_learning_shape(positions), dtype=torch.float64)
    if positions is not None and positions.is_floating_point():
        _core.position_gradient(core, by_position, phase)
    return by_frequency, by_position


def _learning_shape(positions: Tensor | None) -> tuple[int, ...]:
    """That of float positions; integers have no gradient."""
    return tuple(positions.shape) if positions is not None and positions.is_floating_point() else ()


LIBRARY.impl("learned_rotary", private.guarded(_learned_rotary), "CompositeExplicitAutograd")
LIBRARY.impl("learned_rotary_gradient", _learned_rotary_gradient, "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::learned_rotary", lib=LIBRARY)
def _(x: Tensor, words: Tensor, frequencies: Tensor | None, positions: Tensor | None, offset: int, direction: int) -> Tensor:
    _check(x, words, frequencies, positions, offset, direction)
    return torch.empty_like(x)


@torch.library.register_fake("phasor::learned_rotary_gradient", lib=LIBRARY)
def _(
    rotated: Tensor, gradient: Tensor, words: Tensor, frequencies: Tensor | None, positions: Tensor | None, offset: int, direction: int
) -> tuple[Tensor, Tensor]:
    by_frequency = rotated.new_empty((), dtype=torch.float64) if frequencies is None else frequencies.new_empty(frequencies.shape)
    return by_frequency, rotated.new_empty(_learning_shape(positions), dtype=torch.float64)


_X, _WORDS, _FREQUENCIES, _POSITIONS, _OFFSET, _DIRECTION, _RESULT = range(7)


def _backward(needs: tuple[bool, ...], args: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    (gradient,) = gradients
    *by, direction = args[_WORDS:_RESULT]
    by_x = by_frequency = by_position = None
    if needs[_X]:
        by_x = ops.learned_rotary(dense(gradient), *by, TRANSPOSED[direction])
    if needs[_FREQUENCIES] or needs[_POSITIONS]:
        by_frequency, by_position = ops.learned_rotary_gradient(args[_RESULT], gradient, *by, direction)
    return by_x, None, by_frequency if needs[_FREQUENCIES] else None, by_position if needs[_POSITIONS] else None, None, None


def _tangent(args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    if tangents[_FREQUENCIES] is not None or tangents[_POSITIONS] is not None:
        raise NotImplementedError("learned_rotary: forward-mode gradients are by tensors only, not by frequencies or positions")
    return ops.learned_rotary(dense(tangents[_X]), *args[_WORDS:_RESULT])


def _no_second_order(*_: Any) -> Any:
    raise NotImplementedError("learned_rotary: second derivatives by frequencies or positions are not there; those by tensors are")


_KEPT = frozenset((_WORDS, _FREQUENCIES, _POSITIONS, _RESULT))
recorded.register(recorded.Rule(ops.learned_rotary.default, frozenset((_X, _FREQUENCIES, _POSITIONS)), _KEPT, _backward, _tangent))
recorded.register(
    recorded.Rule(ops.learned_rotary_gradient.default, frozenset((0, 1, 3, 4)), frozenset(), _no_second_order, _no_second_order)
)
