# SPDX-License-Identifier: Apache-2.0
"""What a trained model is measured with besides its own encoding, for documents of `factor` times its length and without further training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import phasor
from lab.encodings.maps import DualChunked, Mapped
from lab.encodings.base import Encoding
from lab.encodings.rotary import Rotated
from lab.presets import Shape

SCALINGS: dict[str, Callable[[float, Shape], Any]] = {
    "linear": lambda factor, shape: phasor.LinearScaling(factor),
    "ntk": lambda factor, shape: phasor.NtkScaling(factor),
    "ntk dynamic": lambda factor, shape: phasor.DynamicNtkScaling(2, shape.length, round(factor * shape.length)),
    "ntk fixed": lambda factor, shape: phasor.NtkMixedScaling(factor),
    "ntk mixed": lambda factor, shape: phasor.NtkMixedScaling(factor, mixed_exponent=0.625),
    "yarn": lambda factor, shape: phasor.YarnScaling(factor, shape.length),
    "llama3": lambda factor, shape: phasor.Llama3Scaling(factor, original_length=shape.length),
}
LONGROPE = "longrope"  # whose factors are searched: lab/search.py


def _squeeze(factor: float) -> float:
    """By how much distances over half the trained length go into the other half."""
    return max(1.0, 2 * factor - 1)


MAPS: dict[str, Callable[[float, Shape], Any]] = {
    "rerope": lambda factor, shape: phasor.positions.ReRope(shape.length // 2),
    "leaky rerope": lambda factor, shape: phasor.positions.LeakyReRope(shape.length // 2, _squeeze(factor)),
    "self-extend": lambda factor, shape: phasor.positions.SelfExtend(shape.length // 2, math.ceil(_squeeze(factor))),
    # Chunks of three quarters; the greatest distance that it shows is the greatest that training had, as its paper has it.
    "dual chunk": lambda factor, shape: phasor.positions.DualChunk(shape.length - 1, shape.length // 4 - 1),
}
TUNED = ("linear", "yarn", LONGROPE)  # whose papers train on at the new length


def rotary_changed(how: str, factor: float, shape: Shape) -> Encoding:
    """Of any scaling but LongRoPE's, and of any map."""
    if how in SCALINGS:
        return Rotated(shape, scaling=SCALINGS[how](factor, shape))
    if how not in MAPS:
        raise ValueError(f"rotary_changed: how is {how!r}, wanted one of {', '.join((*SCALINGS, *MAPS))}")
    return (DualChunked if how == "dual chunk" else Mapped)(shape, MAPS[how](factor, shape))
