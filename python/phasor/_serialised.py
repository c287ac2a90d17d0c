# SPDX-License-Identifier: Apache-2.0
"""Specs as text and back: one form for files, for PyTorch's operators and for C++."""

from __future__ import annotations

from phasor import _core
from phasor._additive import SinusoidalSpec
from phasor._bias_specs import BiasSpec
from phasor._spec import RotarySpec

__all__ = ["spec_from_json", "spec_to_json"]


def spec_to_json(spec: RotarySpec | SinusoidalSpec | BiasSpec) -> str:
    """A spec as JSON: what is not as by default, every number so that it comes back as it was. Equal specs have equal texts.

    >>> spec_to_json(RotarySpec(head_dim=64, base=5e5))
    '{"phasor":1,"type":"RotarySpec","head_dim":64,"base":500000}'
    """
    return _core.spec_to_json(spec)


def spec_from_json(text: str) -> RotarySpec | SinusoidalSpec | BiasSpec:
    """The spec of a text, checked as every spec is.

    >>> spec_from_json('{"phasor": 1, "type": "Alibi", "heads": 8}')
    Alibi(heads=8, slopes=(), max_bias=8.0, form='symmetric', rounding='float64')
    """
    return _core.spec_from_json(text)
