# SPDX-License-Identifier: Apache-2.0
"""An attention scheme as values alone, without its tensors: the structs of scheme.hpp. `phasor.scheme_of` makes one, `spec_to_json` writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# The core looks for every part of a scheme here.
from phasor._bias_specs import *  # noqa: F403
from phasor._bias_specs import BiasSpec, Mlp, Window
from phasor._spec import *  # noqa: F403
from phasor._spec import RotarySpec
from phasor._types.positions import DualChunk, LeakyReRope, PositionMap, ReRope, SelfExtend

__all__ = [
    "AttentionScheme",
    "BiasScheme",
    "ClipRows",
    "ContentScheme",
    "CopeScheme",
    "DecomposedScheme",
    "DenseScheme",
    "GridScheme",
    "PlainScheme",
    "RotaryScheme",
    "SegmentScheme",
    "TableScheme",
    "TermScheme",
    "XposScheme",
]

_PARTS = (DualChunk, LeakyReRope, Mlp, ReRope, SelfExtend)


@dataclass(frozen=True)
class BiasScheme:
    """gate * bias(distance); parameters: in the place of the spec's own numbers."""

    bias: BiasSpec
    first_head: int = 0
    gate: bool = False
    parameters: bool = False


@dataclass(frozen=True)
class ClipRows:
    """Row clamp(key - query, -left, right) + left of a table; outside: what farther distances read."""

    left: int = 0
    right: int = 0
    outside: Literal["clamp", "zero"] = "clamp"


@dataclass(frozen=True)
class TableScheme:
    """A table on the query or key side, or added to values; rows: which of them a distance reads."""

    side: Literal["query", "key", "value"] = "query"
    rows: ClipRows | BiasSpec = field(default_factory=ClipRows)
    features: bool = False
    shift: bool = False
    scale: float | None = None


@dataclass(frozen=True)
class SegmentScheme:
    """A row of a table for keys of the query's segment, another for the rest."""

    shift: bool = False
    scale: float | None = None


@dataclass(frozen=True)
class GridScheme:
    """One number per pair of offsets in a grid."""

    window: Window = field(default_factory=Window)
    class_token: Literal["absent", "first"] = "absent"


@dataclass(frozen=True)
class DecomposedScheme:
    """Rows for each of the two offsets in a grid."""

    query_grid: Window = field(default_factory=Window)
    key_grid: Window = field(default_factory=Window)
    scale: float = 1.0


@dataclass(frozen=True)
class DenseScheme:
    """A bias given in full."""


@dataclass(frozen=True)
class CopeScheme:
    """Contextual positions."""

    gate_scale: float = 1.0
    scale: float = 1.0


TermScheme = BiasScheme | TableScheme | SegmentScheme | GridScheme | DecomposedScheme | DenseScheme | CopeScheme


@dataclass(frozen=True)
class PlainScheme:
    """q meets k as they are."""


@dataclass(frozen=True)
class RotaryScheme:
    """q and k rotated inside attention."""

    rotary: RotarySpec
    keys: Literal["unrotated", "rotated"] = "unrotated"
    map: PositionMap | None = None


@dataclass(frozen=True)
class XposScheme:
    """Rotary with a decay."""

    rotary: RotarySpec
    gamma: float = 0.4
    scale_base: float = 512.0


ContentScheme = PlainScheme | RotaryScheme | XposScheme

# Made here: compilers of Python programs do not follow the making of what has no fields.
DENSE = DenseScheme()
PLAIN = PlainScheme()


@dataclass(frozen=True)
class AttentionScheme:
    """Everything of a call that is a value; flags say which tensors come with each call.

    >>> AttentionScheme(mask="causal", softcap=30.0).terms
    ()
    """

    content: ContentScheme = field(default_factory=lambda: PLAIN)  # PyTorch 2.11 does not follow an object as a default
    content_shift: bool = False
    terms: tuple[TermScheme, ...] = ()
    scale: float | None = None
    softcap: float = 0.0
    sinks: bool = False
    mask: Literal["full", "causal"] = "full"
    left: int | None = None
    right: int | None = None
    skip: Literal["none", "certified"] = "none"
    dropout: float = 0.0
