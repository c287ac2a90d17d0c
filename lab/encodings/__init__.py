# SPDX-License-Identifier: Apache-2.0
"""Every way of telling positions, by its label, in the order in which the queue trains them: what decides most, and what is fast, first."""

from __future__ import annotations

from collections.abc import Callable

from lab.encodings import additive, biases, rotary, tables
from lab.encodings.base import Encoding
from lab.presets import LLAMA4_LAYERS, Shape

__all__ = ["TRAINED", "Encoding", "file_name"]

TRAINED: dict[str, Callable[[Shape], Encoding]] = {
    "rotary": rotary.Rotated,
    "none": lambda shape: Encoding(),
    "alibi": biases.alibi,
    "rotary bf16 tables": lambda shape: rotary.Rotated(shape, numerics="hf"),
    "rotary adjacent": lambda shape: rotary.Rotated(shape, pairing="interleaved"),
    "t5": biases.Bucketed,
    "sinusoidal": additive.sinusoidal,
    "learned": additive.learned,
    "kerple": biases.kerple,
    "rotary 500000": lambda shape: rotary.Rotated(shape, base=500000.0),
    "rotary 3 of 4": lambda shape: rotary.Rotated(shape, one_in=LLAMA4_LAYERS),
    "shaw": lambda shape: tables.Shaw(shape, values=False),
    "transformer-xl": tables.TransformerXL,
    "xpos": rotary.Xpos,
    "sandwich": biases.sandwich,
    "rotary quarter": lambda shape: rotary.Rotated(shape, rotary_width=shape.head_dim // 4),
    "fire": biases.fire,
    "deberta": tables.Deberta,
    "cope": tables.Cope,
    "shaw values": lambda shape: tables.Shaw(shape, values=True),
}


def file_name(label: str, seed: int) -> str:
    """Of a run's result: the label with dashes."""
    return f"{label.replace(' ', '-')}-{seed}.json"
