# SPDX-License-Identifier: Apache-2.0
"""Biases on attention scores as values: one frozen dataclass for each published scheme, with the fields of include/phasor/bias.hpp."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from phasor._numbers import freeze

__all__ = [
    "Alibi",
    "T5Buckets",
    "DebertaBuckets",
    "ShawClip",
    "Kerple",
    "Sandwich",
    "Mlp",
    "Fire",
    "DynamicMlp",
    "Window",
    "SwinTable",
    "SwinV2",
    "XlSinusoids",
    "BiasSpec",
]

# r is the distance, query position - key position; h counts heads from 0. Tables are (H, rows): arrays are taken as they are, row by row.


@dataclass(frozen=True)
class Alibi:
    """-s_h |r| (symmetric), -s_h r with keys ahead 0 (causal), or +s_h times the key's position (key_position).

    >>> Alibi(heads=8).max_bias
    8.0
    """

    heads: int = 0  # 0: those of the tensors, in phasor.attention
    slopes: tuple[float, ...] = ()  # given (explicit or learned), H of them; empty: by the formula
    max_bias: float = 8.0
    form: Literal["symmetric", "causal", "key_position"] = "symmetric"
    rounding: Literal["float64", "bf16"] = "float64"

    def __post_init__(self) -> None:
        freeze(self, "slopes")


@dataclass(frozen=True)
class T5Buckets:
    """T5's buckets of distances, near ones exact, far ones in equal ratios up to max_distance.

    >>> T5Buckets(heads=2, sides="behind").buckets
    32
    """

    heads: int
    buckets: int = 32
    max_distance: int = 128
    sides: Literal["both", "behind"] = "both"
    table: tuple[float, ...] = ()  # (H, buckets); empty: zeros

    def __post_init__(self) -> None:
        freeze(self, "table")


@dataclass(frozen=True)
class DebertaBuckets:
    """DeBERTa's rows: v2 and v3 with log buckets, v1 with buckets=0.

    >>> DebertaBuckets(heads=2).max_distance
    512
    """

    heads: int
    buckets: int = 256
    max_distance: int = 512
    reading: Literal["hf", "microsoft", "hf_swapped"] = "hf"
    table: tuple[float, ...] = ()  # (H, 2 span); empty: zeros

    def __post_init__(self) -> None:
        freeze(self, "table")


@dataclass(frozen=True)
class ShawClip:
    """Row clamp(-r, -left, right) + left: the table runs by key - query.

    >>> ShawClip(heads=1, left=2, right=1, table=[0.1, 0.2, 0.3, 0.4]).table
    (0.1, 0.2, 0.3, 0.4)
    """

    heads: int
    left: int = 0
    right: int = 0
    table: tuple[float, ...] = ()  # (H, left + 1 + right); empty: zeros

    def __post_init__(self) -> None:
        freeze(self, "table")


@dataclass(frozen=True)
class Kerple:
    """-r1 ln(1 + r2 |r|) (logarithmic) or -r1 |r|^r2 (power), one r1 and r2 for each head.

    >>> Kerple(r1=[1.0, 2.0], r2=[1.0, 0.5]).r2
    (1.0, 0.5)
    """

    kind: Literal["logarithmic", "power"] = "logarithmic"
    r1: tuple[float, ...] = ()
    r2: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "r1", "r2")


@dataclass(frozen=True)
class Sandwich:
    """H / (8 (h + 1)) times the sum of cos(r base^(-2i / width)) over width / 2 pairs.

    >>> Sandwich(heads=8).width
    128
    """

    heads: int
    width: int = 128
    base: float = 10000.0


@dataclass(frozen=True)
class Mlp:
    """A perceptron: widths of its input, hidden layers and output; parameters layer by layer, W (out, in) then b (out).

    >>> Mlp(widths=[1, 2], parameters=[1, 2, 0, 0]).parameters
    (1.0, 2.0, 0.0, 0.0)
    """

    widths: tuple[int, ...] = ()
    parameters: tuple[float, ...] = ()
    activation: Literal["relu", "silu"] = "relu"

    def __post_init__(self) -> None:
        freeze(self, "parameters")
        freeze(self, "widths", kind=int)


@dataclass(frozen=True)
class Fire:
    """mlp(psi(|r|) / (psi(max(length, query position)) + epsilon)), psi(x) = ln(c x + 1).

    >>> Fire(mlp=Mlp(widths=(1, 2), parameters=(1, 2, 0, 0))).c
    0.1
    """

    mlp: Mlp = field(default_factory=Mlp)  # 1 -> ... -> H
    c: float = 0.1
    length: float = 512.0
    epsilon: float = 0.0


@dataclass(frozen=True)
class DynamicMlp:
    """mlp(r), or mlp(sign(r) ln(1 + |r|)).

    >>> DynamicMlp(mlp=Mlp(widths=(1, 2), parameters=(1, 2, 0, 0))).scale
    'linear'
    """

    mlp: Mlp = field(default_factory=Mlp)  # 1 -> ... -> H
    scale: Literal["linear", "logarithmic"] = "linear"


@dataclass(frozen=True)
class Window:
    """A window of tokens; `phasor.positions.window` gives their positions.

    >>> Window(height=7, width=7).height
    7
    """

    height: int = 0
    width: int = 0


@dataclass(frozen=True)
class SwinTable:
    """Row (dy + height - 1) (2 width - 1) + dx + width - 1, offsets query - key (Swin, BEiT).

    >>> SwinTable(heads=3, window=Window(7, 7)).table
    ()
    """

    heads: int
    window: Window = field(default_factory=Window)
    table: tuple[float, ...] = ()  # (H, (2 height - 1) (2 width - 1)); empty: zeros

    def __post_init__(self) -> None:
        freeze(self, "table")


@dataclass(frozen=True)
class SwinV2:
    """16 sigmoid(mlp(g(dy), g(dx))), g logarithmic in the trained window.

    >>> SwinV2(window=Window(8, 8)).trained
    Window(height=0, width=0)
    """

    window: Window = field(default_factory=Window)
    trained: Window = field(default_factory=Window)  # 0 x 0: window
    mlp: Mlp = field(default_factory=Mlp)  # 2 -> ... -> H


@dataclass(frozen=True)
class XlSinusoids:
    """The rows that Transformer-XL and XLNet project: [sin | cos], or sin and cos in turn, of distance * base^(-2i / width).

    >>> XlSinusoids(width=64).order
    'halves'
    """

    width: int
    base: float = 10000.0
    order: Literal["halves", "interleaved"] = "halves"
    clamp: int = 0  # distances are cut to -clamp ... clamp; 0: not


BiasSpec = Alibi | T5Buckets | DebertaBuckets | ShawClip | Kerple | Sandwich | Fire | DynamicMlp | SwinTable | SwinV2
