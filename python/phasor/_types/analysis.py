# SPDX-License-Identifier: Apache-2.0
"""What analysis gives, as values: the structs of analysis.hpp and additive_properties.hpp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasor._spec import *  # noqa: F403 - the core finds every dataclass of a plan here
from phasor._spec import Scaling

__all__ = [
    "AddingConcatenating",
    "AngleError",
    "DistanceCheck",
    "DistanceWeights",
    "EncodingProperties",
    "Gap",
    "Orthogonality",
    "PairTurns",
    "PlannedPair",
    "PlannedScaling",
    "PrecisionError",
    "ProfileError",
    "ScoreTerms",
]


@dataclass(frozen=True)
class AngleError:
    """Largest error of cos and sin at one position: of this library's float32 values, and of float32(position) * float32(frequency)."""

    exact: float
    float32: float


@dataclass(frozen=True)
class ProfileError:
    """Largest error of cos and sin at one position, for the float32 tables of each numerics; None where the peer has no such scaling."""

    position: int
    exact: float
    hf: float | None
    vllm: float | None
    ggml: float | None


@dataclass(frozen=True)
class DistanceCheck:
    """Scores of the same q and k near 0 and far away; they depend on the distance alone when a difference is at most `rounding`."""

    scores: int
    largest_score: float
    exact_difference: float
    float32_difference: float
    rounding: float


@dataclass(frozen=True, eq=False)
class DistanceWeights:
    """By distance, from 0 on: S, S / P, the score and the weight that the softmax gives; weights sum to 1."""

    sum: np.ndarray
    share: np.ndarray
    score: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Orthogonality:
    """How near to orthogonal two sets of rows are; the mean square is 1 / D for directions at random."""

    cosines: int
    mean: float
    mean_square: float
    largest: float


@dataclass(frozen=True)
class Gap:
    """The two positions whose encodings are nearest to each other, and their Euclidean distance."""

    gap: float
    first: int
    second: int


@dataclass(frozen=True, eq=False)
class ScoreTerms:
    """The score of x + p, (T, T), queries by keys, and its four terms, the query's part named first."""

    content_content: np.ndarray
    content_position: np.ndarray
    position_content: np.ndarray
    position_position: np.ndarray
    score: np.ndarray


@dataclass(frozen=True)
class PairTurns:
    """A pair's frequency, wavelength, and turns in a length; below 1 it never comes round."""

    frequency: float
    wavelength: float
    turns: float


@dataclass(frozen=True)
class PrecisionError:
    """Errors of one numerics for tensors of one dtype at one position: of cos and sin, and of a score."""

    position: int
    numerics: str
    dtype: str
    cos_sin: float
    score: float


@dataclass(frozen=True)
class PlannedPair:
    """A pair under a scaling: its frequency, the ratio to the trained one, turns in either length, first position of an unseen phase."""

    frequency: float
    ratio: float
    trained_turns: float
    wanted_turns: float
    unseen_from: int | None


@dataclass(frozen=True)
class PlannedScaling:
    """What a scaling does to every pair when the context grows; `error` says why the spec cannot have it."""

    name: str
    scaling: Scaling
    error: str
    amplitude: float
    softmax_scale: float
    unseen_pairs: int
    unseen_from: int | None
    pairs: tuple[PlannedPair, ...]


@dataclass(frozen=True)
class EncodingProperties:
    """What the values of positions 0 to length - 1, and some beyond, show of an encoding that is added."""

    smallest_gap: float
    unique: bool
    independent_of_length: bool
    largest: float
    growth: float
    bounded: bool
    relative_defect: float
    relative: bool
    defined_beyond: bool
    alternations: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class AddingConcatenating:
    """(x + p) W, and the concatenation of x and p times W stacked on itself: the same but for rounding."""

    added: np.ndarray
    concatenated: np.ndarray
    extra_parameters: int
