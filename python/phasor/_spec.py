# SPDX-License-Identifier: Apache-2.0
"""The specs of rotary encoding as frozen dataclasses: values to print, compare, hash and pickle. The compiled core checks them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from phasor import _core
from phasor._numbers import freeze

if TYPE_CHECKING:
    from phasor._additive import SinusoidalSpec
    from phasor._bias_specs import BiasSpec
    from phasor._attention.types import AttentionScheme

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
    "RotarySpec",
    "Scaling",
    "TableLayout",
    "Unscaled",
    "YarnScaling",
    "spec_from_json",
    "spec_to_json",
]


@dataclass(frozen=True)
class Unscaled:
    """w_i = base^(-2i / R), R being the rotary width."""


@dataclass(frozen=True)
class LinearScaling:
    """w_i / factor."""

    factor: float = 1.0


@dataclass(frozen=True)
class NtkScaling:
    """base * alpha^(R / (R - 2))."""

    alpha: float = 1.0


@dataclass(frozen=True)
class NtkMixedScaling:
    """Su's corrections of NTK: base * factor, then w_i * factor^(-2/R); with `mixed_exponent` b: w_i * exp(-a (i + 1)^b), a = ln(factor) / (R/2)^b."""

    factor: float = 1.0
    mixed_exponent: float | None = None


@dataclass(frozen=True)
class DynamicNtkScaling:
    """base * (factor * L / trained - (factor - 1))^(R / (R - 2)), L = max(length, trained_length); length 0: trained_length."""

    factor: float = 1.0
    trained_length: int = 0
    length: int = 0


@dataclass(frozen=True)
class YarnScaling:
    """A ramp between w_i / factor and w_i over the pairs that turn beta_slow to beta_fast times in original_length."""

    factor: float = 1.0
    original_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: str = "truncated"  # or "exact" (gpt-oss)
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    softmax: str = "mscale_all_dim_squared"  # or "unchanged"


@dataclass(frozen=True)
class LongRopeScaling:
    """w_i / factor_i, by the short or the long list of R/2 factors."""

    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    original_length: int = 0
    factor: float = 1.0
    attention_factor: float | None = None
    choice: str = "by_length"  # or "short_factors", "long_factors"
    length: int = 0

    def __post_init__(self) -> None:
        freeze(self, "short_factors", "long_factors")


@dataclass(frozen=True)
class Llama3Scaling:
    """Wavelengths below original_length / high_freq_factor: w_i; above original_length / low_freq_factor: w_i / factor; a ramp between."""

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_length: int = 8192


@dataclass(frozen=True)
class ProportionalScaling:
    """The first floor(share * R / 2) pairs turn by w_i / factor, the others not at all."""

    factor: float = 1.0
    share: float = 1.0


@dataclass(frozen=True)
class GivenFactors:
    """w_i / factors[i], R/2 of them."""

    factors: tuple[float, ...] = ()
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        freeze(self, "factors")


@dataclass(frozen=True)
class GivenFrequencies:
    """frequencies[i] radians per position, R/2 of them, of any sign; the base is not used."""

    frequencies: tuple[float, ...] = ()
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        freeze(self, "frequencies")


@dataclass(frozen=True)
class GivenDirections:
    """Every pair of every head turns along its own direction (RoPE-Mixed): frequencies (axes, heads, R/2), flat."""

    axes: int = 2
    heads: int = 1
    frequencies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "frequencies")


Scaling = (
    Unscaled
    | LinearScaling
    | NtkScaling
    | NtkMixedScaling
    | DynamicNtkScaling
    | YarnScaling
    | LongRopeScaling
    | Llama3Scaling
    | ProportionalScaling
    | GivenFactors
    | GivenFrequencies
    | GivenDirections
)


@dataclass(frozen=True)
class Axes:
    """Which axis of a multi-dimensional position turns which pair: sections of pairs, their order and their ladder."""

    sections: tuple[int, ...] = ()
    order: str = "chunked"  # or "interleaved", "alternating", "given"
    ladder: str = "shared"  # or "own", "dealt"
    axis_of_pair: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "sections", "axis_of_pair", kind=int)


@dataclass(frozen=True)
class RotarySpec:
    """What a rotary encoding is. The fields are those of the C++ RotarySpec; enumerations are strings."""

    head_dim: int
    rotary_width: int = 0  # 0: head_dim
    rotary_offset: int = 0
    base: float = 10000.0
    scaling: Scaling = field(default_factory=Unscaled)
    pairing: str = "half"  # or "interleaved"
    output_pairing: str | None = None
    sense: str = "counterclockwise"  # or "clockwise"
    axes: Axes = field(default_factory=Axes)
    segments: int = 1
    lanes: str = "alike"  # or "per_channel_frequencies"
    unit: str = "radians"  # or "turns"
    numerics: str = "exact"  # or "hf", "hf_float32", "vllm", "ggml"


@dataclass(frozen=True)
class TableLayout:
    """How given tables are applied."""

    rotary_width: int = 0
    rotary_offset: int = 0
    pairing: str = "half"
    output_pairing: str | None = None
    sense: str = "counterclockwise"
    numerics: str = "exact"
    segments: int = 1


# ---- Specs as text, of every kind: docs/spec-format.md ----


def spec_to_json(spec: RotarySpec | SinusoidalSpec | BiasSpec | AttentionScheme) -> str:
    """A spec as JSON: what is not as by default, every number so that it comes back as it was. Equal specs have equal texts.

    >>> spec_to_json(RotarySpec(head_dim=64, base=5e5))
    '{"phasor":1,"type":"RotarySpec","head_dim":64,"base":500000}'
    """
    return _core.spec_to_json(spec)


def spec_from_json(text: str) -> RotarySpec | SinusoidalSpec | BiasSpec | AttentionScheme:
    """The spec of a text, checked as every spec is.

    >>> spec_from_json('{"phasor": 1, "type": "Alibi", "heads": 8}')
    Alibi(heads=8, slopes=(), max_bias=8.0, form='symmetric', rounding='float64')
    """
    return _core.spec_from_json(text)
