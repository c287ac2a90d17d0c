# SPDX-License-Identifier: Apache-2.0
"""Specs and encodings as values: whatever their lists were made of they compare, hash, copy and pickle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import phasor

MAKERS: dict[str, Callable[[Any], Any]] = {
    "GivenFrequencies": lambda values: phasor.GivenFrequencies(values),
    "GivenFactors": lambda values: phasor.GivenFactors(values),
    "GivenDirections": lambda values: phasor.GivenDirections(axes=2, heads=1, frequencies=values),
    "LongRopeScaling": lambda values: phasor.LongRopeScaling(values, values, original_length=4096, factor=2.0),
}
VALUES = (1.0, 0.5, 2.0, 0.25)
KINDS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "list": list,
    "numpy": np.array,
    "torch": torch.tensor,
    "parameter": lambda values: torch.nn.Parameter(torch.tensor(values)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKERS)
def test_specs_of_lists_and_arrays_equal_those_of_tuples(name: str, kind: str) -> None:
    spec, wanted = MAKERS[name](KINDS[kind](VALUES)), MAKERS[name](VALUES)
    assert spec == wanted and hash(spec) == hash(wanted) and repr(spec) == repr(wanted)
    whole = phasor.RotarySpec(8, scaling=spec)
    assert whole == phasor.RotarySpec(8, scaling=wanted)
    assert pickle.loads(pickle.dumps(whole)) == whole


@pytest.mark.parametrize("kind", ["list", "numpy", "torch"])
def test_axes_of_lists_and_arrays_equal_those_of_tuples(kind: str) -> None:
    spec = phasor.Axes(sections=KINDS[kind]((3, 1)), order="given", axis_of_pair=KINDS[kind]((0, 0, 1, 0)))
    wanted = phasor.Axes(sections=(3, 1), order="given", axis_of_pair=(0, 0, 1, 0))
    assert spec == wanted and hash(spec) == hash(wanted)
    assert phasor.Rotary(8, axes=spec) == phasor.Rotary(8, axes=wanted)


def test_a_spec_does_not_change_with_the_array_that_it_was_made_of() -> None:
    values = np.array(VALUES)
    spec = phasor.GivenFrequencies(values)
    values[:] = 0
    assert spec.frequencies == VALUES


def test_lists_of_what_are_no_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="GivenFactors: factors is of .*wanted numbers"):
        phasor.GivenFactors(["a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Axes: sections is of float64, wanted integers"):
        phasor.Axes(sections=[1.5])  # type: ignore[arg-type]


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda x, n=n: pickle.loads(pickle.dumps(x, n)) for n in range(2, pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("how", COPIES)
def test_a_shift_is_copied_and_pickled(how: str) -> None:
    shift = phasor.Sinusoidal(6, base=100.0).shift(2.5)
    other = COPIES[how](shift)
    assert other.pairs == shift.pairs
    assert np.array_equal(other.matrix, shift.matrix)
    assert np.array_equal(other(np.arange(6.0)), shift(np.arange(6.0)))


class Named(phasor.Rotary):
    """A subclass with something of its own."""

    name: str = ""


@pytest.mark.parametrize("how", COPIES)
def test_a_subclass_stays_one_when_it_is_copied_or_pickled(how: str) -> None:
    rope = Named(head_dim=8, base=5e5)
    rope.name = "mine"
    other = COPIES[how](rope)
    assert type(other) is Named and other == rope and other.name == "mine"
    assert type(COPIES[how](phasor.Rotary(8))) is phasor.Rotary
