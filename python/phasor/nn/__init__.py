# SPDX-License-Identifier: Apache-2.0
"""Position encodings as PyTorch modules. State dicts hold only what is learned, and no cast of a model spoils a position."""

from phasor.nn._additive import Learned, Sinusoidal
from phasor.nn._bias import AlibiBias, T5Bias
from phasor.nn._rotary import LearnedRotary, Rotary

__all__ = ["AlibiBias", "Learned", "LearnedRotary", "Rotary", "Sinusoidal", "T5Bias"]
