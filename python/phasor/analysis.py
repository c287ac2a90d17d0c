# SPDX-License-Identifier: Apache-2.0
"""What tables, words and plots are made of: decay, similarity, wavelengths, accuracy, planning to longer contexts, properties.

Where a rotary encoding is taken, a `phasor.Rotary`, a `RotarySpec`, or a config as `Rotary.from_config` takes it will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasor import _core
from phasor._additive import Sinusoidal, SinusoidalSpec
from phasor._arrays import Array
from phasor._numbers import integers, reals
from phasor._rotary import Rotary
from phasor._spec import RotarySpec, Scaling
from phasor._types.analysis import (
    AddingConcatenating,
    AngleError,
    DistanceCheck,
    DistanceWeights,
    EncodingProperties,
    Gap,
    Orthogonality,
    PairTurns,
    PlannedPair,
    PlannedScaling,
    PrecisionError,
    ProfileError,
    ScoreTerms,
)

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
    "angle_error",
    "compare_adding",
    "decay",
    "distance_check",
    "distance_weights",
    "first_negative",
    "measure_encoding",
    "orthogonality",
    "pair_turns",
    "plan_scalings",
    "precision_report",
    "profile_errors",
    "properties",
    "relative_matrix",
    "rotation_matrix",
    "score_terms",
    "similarity",
    "smallest_gap",
    "softmax_weights",
    "wavelengths",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def rotary_of(rotary: Any) -> Rotary:
    """`rotary` as a Rotary, whatever names it."""
    if isinstance(rotary, Rotary):
        return rotary
    return Rotary.from_spec(rotary) if isinstance(rotary, RotarySpec) else Rotary.from_config(rotary)


def _list(numbers: Any, where: str) -> list[int]:
    return integers(numbers, where).reshape(-1).tolist()


def rotation_matrix(rotary: Any, position: int) -> np.ndarray:
    """amplitude * R(position), (R, R), over the rotated channels: columns in the spec's pairing, rows in the pairing it writes.

    >>> import phasor
    >>> rotation_matrix(phasor.Rotary(head_dim=2), 1).round(4).tolist()
    [[0.5403, -0.8415], [0.8415, 0.5403]]
    """
    return _core.rotation_matrix(rotary_of(rotary)._core, position)


def relative_matrix(rotary: Any, query_position: int, key_position: int) -> np.ndarray:
    """R(query)^T R(key) = amplitude^2 R(key - query), (R, R), so that score = q^T M k.

    >>> import phasor
    >>> bool((relative_matrix(phasor.Rotary(head_dim=2), 5, 6) == rotation_matrix(phasor.Rotary(head_dim=2), 1)).all())
    True
    """
    return _core.relative_matrix(rotary_of(rotary)._core, query_position, key_position)


def wavelengths(rotary: Any) -> np.ndarray:
    """Positions in a full turn of each pair; infinite for a pair that never turns.

    >>> import phasor
    >>> wavelengths(phasor.Rotary(head_dim=4)).round(3).tolist()
    [6.283, 628.319]
    """
    return _core.wavelengths(rotary_of(rotary)._core)


def angle_error(rotary: Any, position: int) -> AngleError:
    """Largest error of cos and sin over the pairs at one position: this library's float32, and the float32 angles of the peers.

    >>> import phasor
    >>> error = angle_error(phasor.Rotary(head_dim=128), 1_000_000)
    >>> error.exact < 3e-8, error.float32 > 1e-2
    (True, True)
    """
    return _core.angle_error(rotary_of(rotary)._core, position)


def profile_errors(rotary: Any, positions: Any) -> tuple[ProfileError, ...]:
    """Largest error of cos and sin at each position, for the float32 tables of each numerics.

    >>> import phasor
    >>> [error.exact < error.hf for error in profile_errors(phasor.RotarySpec(head_dim=8), [10**5, 10**6])]
    [True, True]
    """
    return _core.profile_errors(rotary_of(rotary).spec, _list(positions, "positions"))


def precision_report(rotary: Any, at: Any, distance: int) -> tuple[PrecisionError, ...]:
    """Errors of every numerics in f32, f16 and bf16 at each position: of cos and sin, and of a score at a distance.

    >>> import phasor
    >>> sorted({error.dtype for error in precision_report(phasor.RotarySpec(head_dim=8), [1000], 3)})
    ['bf16', 'f16', 'f32']
    """
    return _core.precision_report(rotary_of(rotary).spec, _list(at, "at"), distance)


def distance_check(rotary: Any, q: Array, k: Array, far_position: int) -> DistanceCheck:
    """Scores of the same q and k, (T, H, D), at positions from 0 on and from far_position on.

    >>> import numpy as np, phasor
    >>> q = np.random.default_rng(0).standard_normal((9, 2, 8)).astype(np.float32)
    >>> found = distance_check(phasor.Rotary(head_dim=8), q, q, 10**6)
    >>> found.exact_difference <= found.rounding < found.float32_difference
    True
    """
    return _core.distance_check(rotary_of(rotary)._core, q, k, far_position)


def decay(rotary: Any, distances: Any) -> np.ndarray:
    """S(distance) = amplitude^2 * sum over the pairs of cos(distance * frequency); of a list of encodings, a column for each.

    >>> import phasor
    >>> decay(phasor.Rotary(head_dim=4), [0, 1]).round(4).tolist()
    [2.0, 1.5403]
    >>> decay([phasor.Rotary(head_dim=4), phasor.Rotary(head_dim=4, base=100)], range(3)).shape
    (3, 2)
    """
    several = isinstance(rotary, (list, tuple))
    found = _core.decay([rotary_of(one)._core for one in (rotary if several else [rotary])], _list(distances, "distances"))
    return found if several else found[:, 0]


def first_negative(rotary: Any, length: int) -> int | None:
    """The smallest distance below `length` at which S is below 0, if there is one.

    >>> import phasor
    >>> first_negative(phasor.Rotary(head_dim=2), 10)
    2
    """
    return _core.first_negative(rotary_of(rotary)._core, length)


def distance_weights(rotary: Any, context: int, bias: Any = None) -> DistanceWeights:
    """What each key of a causal context gets from the last query, by distance; `bias` has a number for each distance.

    >>> import phasor
    >>> round(float(distance_weights(phasor.Rotary(head_dim=8), 16).weight.sum()), 12)
    1.0
    """
    added = None if bias is None else reals(bias, "bias")
    return DistanceWeights(*_core.distance_weights(rotary_of(rotary)._core, context, added))


def softmax_weights(scores: Any) -> np.ndarray:
    """Softmax of scores by distance, a bias diagonal say; -infinity gets weight 0.

    >>> softmax_weights([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    return _core.softmax_weights(reals(scores, "scores"))


def similarity(rows: Any, others: Any = None, *, positions: Any = None, kind: str = "cosine") -> np.ndarray:
    """Every row with every other: of arrays (N, D), or, with `positions`, of a rotary encoding at those. kind: cosine, inner_product.

    >>> import numpy as np, phasor
    >>> similarity(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> similarity(phasor.Rotary(head_dim=2), positions=[0, 1]).round(4).tolist()
    [[1.0, 0.5403], [0.5403, 1.0]]
    """
    if positions is not None:
        if others is not None:
            raise ValueError("similarity: others and positions are both given, wanted one of them")
        return _core.similarity(rotary_of(rows)._core, _list(positions, "positions"), kind)
    return _core.similarity_of_rows(rows, rows if others is None else others, kind)


def orthogonality(rows: Array, others: Array) -> Orthogonality:
    """How near to orthogonal the rows of two arrays (N, D) are, encodings and embeddings say.

    >>> import numpy as np
    >>> orthogonality(np.eye(2), np.eye(2)).mean_square
    0.5
    """
    return _core.orthogonality(rows, others)


def smallest_gap(rows: Any, length: int | None = None) -> Gap:
    """The two rows of an array (N, D) that are nearest to each other, or, with `length`, the positions of a rotary encoding.

    >>> import numpy as np, phasor
    >>> smallest_gap(np.array([[0.0], [3.0], [4.0]]))
    Gap(gap=1.0, first=1, second=2)
    >>> smallest_gap(phasor.Rotary(head_dim=2), 50).second
    44
    """
    return _core.smallest_gap_of_rows(rows) if length is None else _core.smallest_gap(rotary_of(rows)._core, length)


def score_terms(x: Array, p: Array, query_weights: Array | None = None, key_weights: Array | None = None, scale: float = 1.0) -> ScoreTerms:
    """The score of tokens x plus encodings p, (T, D), and its four terms; projections are (D, E), y = x W.

    >>> import numpy as np
    >>> score_terms(np.ones((1, 2)), np.full((1, 2), 3.0)).content_position.tolist()
    [[6.0]]
    """
    return ScoreTerms(*_core.score_terms(x, p, query_weights, key_weights, scale))


def pair_turns(rotary: Any, length: int) -> tuple[PairTurns, ...]:
    """How often each pair turns in a length.

    >>> import phasor
    >>> [pair.turns > 1 for pair in pair_turns(phasor.Rotary(head_dim=4), 100)]
    [True, False]
    """
    return _core.pair_turns(rotary_of(rotary)._core, length)


def plan_scalings(rotary: Any, trained_length: int, wanted_length: int, scalings: Sequence[Scaling] = ()) -> tuple[PlannedScaling, ...]:
    """What each scaling does to every pair when the context grows: the spec as trained first, then `scalings`, or all published ones.

    >>> import phasor
    >>> [plan.name for plan in plan_scalings(phasor.RotarySpec(head_dim=64), 4096, 32768)][:3]
    ['as trained', 'linear', 'ntk']
    """
    return _core.plan_scalings(rotary_of(rotary).spec, trained_length, wanted_length, tuple(scalings))


def measure_encoding(encoding: Any, length: int, trained_length: int = 0, *, digits: int = 16) -> EncodingProperties:
    """Properties of an encoding that is added, measured on its values at positions 0 to length - 1 and beyond.

    `encoding` is a Sinusoidal, a learned table (N, D), or "raw_index", "scaled_index" or "binary" (of so many digits).

    >>> import phasor
    >>> found = measure_encoding(phasor.Sinusoidal(16), 64)
    >>> found.unique, found.bounded, found.relative
    (True, True, True)
    """
    if isinstance(encoding, SinusoidalSpec):
        encoding = Sinusoidal.from_spec(encoding)
    if isinstance(encoding, Sinusoidal):
        return _core.measure_sinusoidal(encoding._core, length, trained_length)
    if isinstance(encoding, str):
        return _core.measure_named(encoding, digits, length, trained_length)
    return _core.measure_table(encoding, length, trained_length)


def properties(width: int = 64, length: int = 64) -> dict[str, EncodingProperties]:
    """The properties of the encodings that are compared when the sinusoid is explained, by name.

    >>> {name: found.bounded for name, found in properties(8, 16).items()}
    {'raw_index': False, 'scaled_index': True, 'binary': True, 'sinusoidal': True}
    """
    encodings: dict[str, Any] = {name: name for name in ("raw_index", "scaled_index", "binary")}
    encodings["sinusoidal"] = Sinusoidal(width)
    return {name: measure_encoding(one, length) for name, one in encodings.items()}


def compare_adding(x: Any, encoding: Any, weights: Any) -> AddingConcatenating:
    """(x + p) W, and the concatenation of x and p times W stacked on itself; weights are (width, outputs).

    >>> compare_adding([1.0], [2.0], [[3.0]]).added.tolist()
    [9.0]
    """
    return AddingConcatenating(*_core.compare_adding(reals(x, "x"), reals(encoding, "encoding"), reals(weights, "weights")))
