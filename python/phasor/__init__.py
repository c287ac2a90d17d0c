# SPDX-License-Identifier: Apache-2.0
"""Phasor: position encodings for Transformers, exact at every position and at the speed of memory."""

from phasor._core import get_num_threads, set_num_threads
from phasor._rotary import Rotary, apply_rotary, apply_rotary_
from phasor._spec import (
    Axes,
    DynamicNtkScaling,
    GivenDirections,
    GivenFactors,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NtkMixedScaling,
    NtkScaling,
    ProportionalScaling,
    RotarySpec,
    TableLayout,
    Unscaled,
    YarnScaling,
)

__all__ = [
    "Axes",
    "DynamicNtkScaling",
    "GivenDirections",
    "GivenFactors",
    "GivenFrequencies",
    "LinearScaling",
    "Llama3Scaling",
    "LongRopeScaling",
    "NtkMixedScaling",
    "NtkScaling",
    "ProportionalScaling",
    "Rotary",
    "RotarySpec",
    "TableLayout",
    "Unscaled",
    "YarnScaling",
    "apply_rotary",
    "apply_rotary_",
    "get_num_threads",
    "set_num_threads",
]
