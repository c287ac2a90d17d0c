# SPDX-License-Identifier: Apache-2.0
"""The core's gradients of learned rotations, against NumPy's formula bit for bit and PyTorch's autograd in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import phasor
from phasor import _core
from phasor._rotary import layout_of
from phasor._spec import TableLayout

RNG_SEED = 7


def draw(*shape: int, dtype: Any = np.float64, seed: int = RNG_SEED) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = x.shape[-1] // 2
    return x[..., :pairs], x[..., pairs:]


def by_formula(rotated: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Of half pairing, heads summed in their order."""
    y0, y1 = (part.astype(np.float64) for part in halves(rotated))
    g0, g1 = (part.astype(np.float64) for part in halves(gradient))
    each = g1 * y0 - g0 * y1
    total = np.zeros((*each.shape[:2], 1, each.shape[3]))
    for head in range(each.shape[2]):
        total += each[:, :, head : head + 1]
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_phase_gradient_is_the_formula_bit_for_bit(dtype: Any) -> None:
    rotated, gradient = draw(2, 5, 3, 14, dtype=dtype), draw(2, 5, 3, 14, dtype=dtype, seed=8)
    out = np.full((2, 5, 1, 7), np.nan)
    _core.phase_gradient(out, rotated, gradient, layout_of(TableLayout()), False)
    np.testing.assert_array_equal(out, by_formula(rotated, gradient))
    _core.phase_gradient(out, rotated, gradient, layout_of(TableLayout(sense="clockwise")), True)
    np.testing.assert_array_equal(out, 0)


def test_bfloat16_tensors_with_strides_and_fewer_axes_enter_as_they_are() -> None:
    rotated = torch.from_numpy(draw(3, 5, 16)).bfloat16().transpose(0, 1)  # (T, H, D) of (H, T, D) memory
    gradient = torch.from_numpy(draw(5, 3, 16, seed=8)).bfloat16()
    out = torch.full((5, 1, 6), torch.nan)
    _core.phase_gradient(out, rotated, gradient, layout_of(TableLayout(rotary_width=12, rotary_offset=3)), False)
    wanted = by_formula(rotated.double().numpy()[None, ..., 3:15], gradient.double().numpy()[None, ..., 3:15])
    np.testing.assert_array_equal(out.numpy(), wanted[0].astype(np.float32))


def turned(x: Any, angle: Any) -> Any:
    """The rotation as PyTorch differentiates it: x (B, T, H, R), angle (B, T, 1 or H, P)."""
    x0, x1 = x.chunk(2, -1)
    return torch.cat((x0 * angle.cos() - x1 * angle.sin(), x1 * angle.cos() + x0 * angle.sin()), -1)


def angles(positions: Any, frequencies: Any, axis_of_pair: list[int] | None) -> Any:
    """positions (axes, B, T); frequencies (P), or (axes, heads, P)."""
    if axis_of_pair is not None:
        return (positions[axis_of_pair].permute(1, 2, 0) * frequencies)[:, :, None]
    return torch.einsum("abt,ahp->bthp", positions, frequencies if frequencies.ndim == 3 else frequencies[None, None])


def learned_spec(frequencies: Any, axis_of_pair: list[int] | None) -> phasor.RotarySpec:
    listed = frequencies.flatten().tolist()
    width = 2 * frequencies.shape[-1]
    if frequencies.ndim == 3:
        scaling: Any = phasor.GivenDirections(axes=frequencies.shape[0], heads=frequencies.shape[1], frequencies=listed)
        return phasor.RotarySpec(head_dim=width, scaling=scaling)
    axes = phasor.Axes() if axis_of_pair is None else phasor.Axes(order="given", axis_of_pair=axis_of_pair)
    return phasor.RotarySpec(head_dim=width, scaling=phasor.GivenFrequencies(frequencies=listed), axes=axes)


CASES = {
    "one axis": ((6,), None, 1, (6, 2)),
    "two axes by pair": ((6,), [0, 1, 1, 0, 1, 1], 2, (3, 1)),
    "directions": ((2, 1, 6), None, 2, (3, 1)),
    "directions a head": ((3, 3, 6), None, 3, (3, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_learned_frequencies_and_positions_get_what_autograd_gives(name: str) -> None:
    shape, axis_of_pair, axes, heads = CASES[name]
    frequencies = torch.from_numpy(draw(*shape)).requires_grad_()
    positions = torch.from_numpy(draw(axes, 2, 5, seed=9)).requires_grad_()
    rotary = phasor.Rotary.from_spec(learned_spec(frequencies.detach(), axis_of_pair))._core
    own = shape[1] if len(shape) == 3 else 1
    phase = np.empty((2, 5, own, 6))
    loss = torch.zeros((), dtype=torch.float64)
    for number, count in enumerate(heads):  # q, then k of fewer heads into the same angles
        x, g = (torch.from_numpy(draw(2, 5, count, 12, seed=20 + 2 * number + i)) for i in (0, 1))
        y = turned(x, angles(positions, frequencies, axis_of_pair))
        loss = loss + (g * y).sum()
        _core.phase_gradient(phase, y.detach(), g, layout_of(TableLayout()), number > 0)
    loss.backward()
    total = torch.zeros(shape, dtype=torch.float64)
    _core.frequency_gradient(rotary, total, phase, positions.detach())
    assert torch.allclose(total, frequencies.grad, rtol=1e-12, atol=1e-12)
    at = np.full((axes, 2, 5), np.nan)
    _core.position_gradient(rotary, at, phase)
    assert np.allclose(at, positions.grad.numpy(), rtol=1e-12, atol=1e-12)
    shared = np.full(5, np.nan)  # one position a token, for every axis and batch row
    _core.position_gradient(rotary, shared, phase)
    assert np.allclose(shared, at.sum((0, 1)), rtol=1e-12, atol=1e-12)


def test_integer_offsets_and_no_positions_are_consecutive_ones() -> None:
    rotary = phasor.Rotary(head_dim=12)._core
    phase = draw(2, 5, 1, 6)
    sums = np.zeros((3, 6))
    for total, positions in zip(sums, (None, 0, np.arange(5, dtype=np.int32)), strict=True):
        _core.frequency_gradient(rotary, total, phase, positions)
    np.testing.assert_array_equal(sums[1:], sums[[0, 0]])
    np.testing.assert_allclose(sums[0], np.einsum("t,bthp->p", np.arange(5.0), phase), rtol=1e-12)


def test_results_have_the_same_bits_for_any_number_of_threads() -> None:
    rotary = phasor.Rotary(head_dim=64)._core
    rotated, gradient = draw(3, 401, 3, 64, dtype=np.float32), draw(3, 401, 3, 64, dtype=np.float32, seed=8)
    results = []
    before = phasor.get_num_threads()
    try:
        for threads in (1, 2, 5):
            phasor.set_num_threads(threads)
            phase, total, at = np.empty((3, 401, 3, 32)), np.zeros(32), np.empty((3, 401))
            _core.phase_gradient(phase, rotated, gradient, layout_of(TableLayout()), False)
            _core.frequency_gradient(rotary, total, phase, 17)
            _core.position_gradient(rotary, at, phase)
            results.append((phase, total, at))
    finally:
        phasor.set_num_threads(before)
    for other in results[1:]:
        for is_, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(is_, wanted)


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        ({"out": np.zeros((5, 3, 6))}, ValueError, "phase_gradient: out has width 6, wanted 7"),
        ({"out": np.zeros((5, 2, 7))}, ValueError, "phase_gradient: out has 2 heads, wanted 1 or 3"),
        ({"out": np.zeros((5, 1, 7), np.float16)}, ValueError, "phase_gradient: out is f16, wanted f32 or f64"),
        ({"out": np.zeros((5, 1, 7), np.int64)}, TypeError, "out: is of int64"),
        ({"out": read_only(np.zeros((5, 1, 7)))}, ValueError, "read-only"),
        ({"gradient": np.zeros((5, 3, 14), np.float32)}, ValueError, "rotated is f64 and gradient is f32, wanted one dtype"),
        ({"gradient": [1.0]}, TypeError, "gradient"),
        ({"layout": TableLayout(rotary_width=16)}, ValueError, "does not fit head_dim 14"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_nothing_is_written(changed: dict[str, Any], kind: type, message: str) -> None:
    call = {"out": np.zeros((5, 1, 7)), "rotated": draw(5, 3, 14), "gradient": draw(5, 3, 14), "layout": TableLayout()} | changed
    with pytest.raises(kind, match=message):
        _core.phase_gradient(call["out"], call["rotated"], call["gradient"], layout_of(call["layout"]), False)
    assert not call["out"].any()


def test_sums_that_do_not_fit_are_refused() -> None:
    rotary = phasor.Rotary(head_dim=14)._core
    phase = draw(2, 5, 1, 7)
    for total, kind, message in [
        (np.zeros(6), ValueError, "frequency_gradient: sum has 6 entries, the spec has 7 frequencies"),
        (np.zeros(7, np.float32), TypeError, "sum: wanted float64"),
        (np.zeros(14)[::2], ValueError, "sum: has gaps between its elements, wanted it contiguous"),
    ]:
        with pytest.raises(kind, match=message):
            _core.frequency_gradient(rotary, total, phase, None)
        assert not total.any()
    with pytest.raises(ValueError, match="positions have 4 tokens, wanted 5"):
        _core.frequency_gradient(rotary, np.zeros(7), phase, np.arange(4))
    with pytest.raises(ValueError, match="position_gradient: out is i64, wanted f64"):
        _core.position_gradient(rotary, np.zeros((2, 5), np.int64), phase)
    per_channel = phasor.Rotary(head_dim=14, pairing="interleaved", lanes="per_channel_frequencies")._core
    with pytest.raises(NotImplementedError, match="frequency_gradient: lanes are per_channel_frequencies"):
        _core.frequency_gradient(per_channel, np.zeros(7), phase, None)
