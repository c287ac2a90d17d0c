# SPDX-License-Identifier: Apache-2.0
"""Position encodings as PyTorch modules. State dicts hold only what is learned, and no cast of a model spoils a position."""

from phasor._needed import needed as _needed

_needed("torch", by="phasor.nn")

from phasor.nn._additive import Learned, Sinusoidal
from phasor.nn._bias import AlibiBias, T5Bias
from phasor.nn._rotary import LearnedRotary, Rotary
from phasor.nn._schemes import (
    AlibiScheme,
    CopeScheme,
    DebertaScheme,
    DecomposedScheme,
    FireScheme,
    GridScheme,
    KerpleScheme,
    LearnedBiasScheme,
    ShawScheme,
    T5Scheme,
    TransformerXLScheme,
    WavLMScheme,
    XLNetScheme,
)

__all__ = [
    "AlibiBias",
    "AlibiScheme",
    "CopeScheme",
    "DebertaScheme",
    "DecomposedScheme",
    "FireScheme",
    "GridScheme",
    "KerpleScheme",
    "Learned",
    "LearnedBiasScheme",
    "LearnedRotary",
    "Rotary",
    "ShawScheme",
    "Sinusoidal",
    "T5Bias",
    "T5Scheme",
    "TransformerXLScheme",
    "WavLMScheme",
    "XLNetScheme",
]
