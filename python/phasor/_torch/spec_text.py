# SPDX-License-Identifier: Apache-2.0
"""Specs of sinusoids and biases as text: what operators carry, so that compiled and exported programs hold them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from phasor import _additive, _bias_specs, _core
from phasor._torch.caches import cached

_TYPES: dict[str, type] = {
    name: kind
    for module in (_additive, _bias_specs)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, "fields": fields}
    return list(value) if isinstance(value, tuple) else value


def _made(value: Any) -> Any:
    if isinstance(value, dict):
        return _TYPES[value["type"]](**{name: _made(field) for name, field in value["fields"].items()})
    return tuple(value) if isinstance(value, list) else value


def text_of(spec: Any) -> str:
    """A spec as text. Floats are written so that they come back as they were."""
    return json.dumps(_plain(spec), separators=(",", ":"))


@cached
def spec_of(text: str) -> Any:
    """The spec of a text."""
    return _made(json.loads(text))


@cached
def sinusoidal_of(text: str) -> Any:
    """The core's sinusoidal encoding."""
    return _core.Sinusoidal(spec_of(text))


@cached
def bias_of(text: str) -> Any:
    """The core's bias."""
    return _core.Bias(spec_of(text))
