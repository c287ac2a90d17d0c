# SPDX-License-Identifier: Apache-2.0
"""register: exact initialisers in transformers' ROPE_INIT_FUNCTIONS, for every model that is built from then on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import Rotary

# The exact frequencies must be those of the initialiser they replace, up to what its float32 steps cost.
SAME = 1e-5


class Registration:
    """What `register` replaced; `undo` puts it back. Usable as a context."""

    def __init__(self, functions: dict[str, Callable], replaced: dict[str, Callable]):
        self._functions, self._replaced = functions, replaced
        self.rope_types = tuple(replaced)

    def undo(self) -> None:
        """The initialisers that were there before, where ours still stand; a second call does nothing."""
        for name, original in self._replaced.items():
            if getattr(self._functions.get(name), "phasor_original", None) is original:
                self._functions[name] = original
        self._replaced = {}

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def register() -> Registration:
    """Replaces every initialiser of transformers by one whose frequencies are the float32 nearest to the exact ones.

    Models built afterwards, and dynamic ones that recompute, use them. The type "default" has no entry there: each model class has its
    own function for it. A config that phasor cannot read, or reads otherwise than the initialiser, keeps the initialiser's numbers.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    replaced = {name: function for name, function in ROPE_INIT_FUNCTIONS.items() if not hasattr(function, "phasor_original")}
    for name, original in replaced.items():
        ROPE_INIT_FUNCTIONS[name] = _exact(original)
    return Registration(ROPE_INIT_FUNCTIONS, replaced)


def _exact(original: Callable) -> Callable:
    @functools.wraps(original)
    def initialiser(config: Any, device: Any = None, seq_len: Any = None, layer_type: str | None = None, **more: Any) -> tuple[Any, float]:
        inv_freq, amplitude = original(config, device, seq_len=seq_len, layer_type=layer_type, **more)
        rotary = _read(config, 0 if seq_len is None else int(seq_len), layer_type)
        if rotary is None:
            return inv_freq, amplitude
        exact = torch.from_numpy(rotary.frequencies.reshape(-1))
        own = inv_freq.detach().double().cpu()
        if exact.shape != own.shape or bool(((exact - own).abs() > SAME * own.abs()).any()) or abs(rotary.amplitude - amplitude) > SAME:
            return inv_freq, amplitude
        return exact.to(device=inv_freq.device, dtype=inv_freq.dtype), rotary.amplitude

    initialiser.phasor_original = original
    return initialiser


def _read(config: Any, length: int, layer_type: str | None) -> Rotary | None:
    layers = list(getattr(config, "layer_types", None) or [])
    layer = layers.index(layer_type) if layer_type in layers else 0
    try:
        return Rotary.from_config(config, layer, length=length)
    except (ValueError, TypeError, NotImplementedError, LookupError):
        return None
