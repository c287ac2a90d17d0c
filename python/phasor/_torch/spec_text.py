# SPDX-License-Identifier: Apache-2.0
"""Specs of sinusoids and biases as text (docs/spec-format.md): what operators carry, so that compiled and exported programs hold them."""

from __future__ import annotations

from phasor import _core
from phasor._torch.caches import cached

text_of = _core.spec_to_json
sinusoidal_of = cached(_core.sinusoidal_from_json)
bias_of = cached(_core.bias_from_json)
