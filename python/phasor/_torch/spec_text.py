# SPDX-License-Identifier: Apache-2.0
"""Specs of sinusoids and biases as text: what operators carry, so that compiled and exported programs hold them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

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
    try:
        return _made(json.loads(text))
    except (KeyError, TypeError, json.JSONDecodeError):
        shown = text if len(text) < 80 else text[:77] + "..."
        raise ValueError(f"spec: is {shown!r}, wanted the text of a sinusoidal encoding or a bias of phasor.nn") from None


def _of_kind(text: str, what: str, kinds: tuple[type, ...]) -> Any:
    spec = spec_of(text)
    if not isinstance(spec, kinds):
        raise ValueError(f"spec: is the text of {type(spec).__name__}, wanted that of a {what}")
    return spec


def sinusoidal_spec_of(text: str) -> _additive.SinusoidalSpec:
    """The spec of a sinusoidal encoding's text."""
    return _of_kind(text, "sinusoidal encoding", (_additive.SinusoidalSpec,))


@cached
def sinusoidal_of(text: str) -> Any:
    """The core's sinusoidal encoding."""
    return _core.Sinusoidal(sinusoidal_spec_of(text))


@cached
def bias_of(text: str) -> Any:
    """The core's bias."""
    return _core.Bias(_of_kind(text, "bias", get_args(_bias_specs.BiasSpec)))
