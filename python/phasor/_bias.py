# SPDX-License-Identifier: Apache-2.0
"""Biases on attention scores: phasor.Bias makes a scheme ready to fill, index and differentiate."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor import _core
from phasor._arrays import Array, Positions, gpu_of, is_torch, positions_argument, read, returned, torch_backend
from phasor._bias_specs import Alibi, BiasSpec, T5Buckets, XlSinusoids
from phasor._numbers import empty, integers, one_device, ungraded, written

__all__ = ["Bias", "alibi_slopes", "t5_buckets", "xl_sinusoids"]


def _extents(positions: Any, where: str) -> tuple[int, int]:
    """Batch rows and tokens."""
    if positions is None or isinstance(positions, int):
        raise TypeError(f"{where}: are {positions!r}, wanted an array, or out= to fill")
    shape = tuple(positions.shape)
    if not 1 <= len(shape) <= 2:
        raise ValueError(f"{where}: have {len(shape)} axes, wanted (T) or (B, T)")
    return (1 if len(shape) == 1 else shape[0], shape[-1])


class Bias:
    """A scheme that biases scores, made ready: Alibi, T5Buckets, DebertaBuckets, ShawClip, Kerple, Sandwich, Fire, DynamicMlp, ...

    Values are float64 within an ulp, the same on every machine, and rounded once to the dtype. Distances are query - key.

    >>> import numpy as np, phasor
    >>> bias = phasor.Bias(phasor.Alibi(heads=2))
    >>> bias(np.arange(3), np.arange(3)).shape
    (2, 3, 3)
    >>> bias.diagonal(0, 3).tolist()
    [[0.0, -0.0625, -0.125], [0.0, -0.00390625, -0.0078125]]
    """

    __slots__ = ("_core", "_spec")

    def __init__(self, spec: BiasSpec) -> None:
        self._core = _core.Bias(spec)
        self._spec = spec

    def __call__(
        self, q_positions: Positions, k_positions: Positions, dtype: Any = None, *, out: Array | None = None, heads: slice | None = None
    ) -> Array:
        """The biases of queries and keys at positions (T) or (B, T): (heads, Tq, Tk) or (B, heads, Tq, Tk), of `dtype` or in `out`.

        `heads` picks some, as tensor parallelism does; with `out`, positions may be ints or None too.

        >>> Bias(T5Buckets(heads=1, table=range(32)))(np.arange(2), np.arange(2)).tolist()
        [[[0.0, 17.0], [1.0, 0.0]]]
        """
        queries, keys = positions_argument(q_positions), positions_argument(k_positions)
        first, end, step = (heads or slice(None)).indices(self.heads)
        if step != 1:
            raise ValueError(f"Bias: heads have a step of {step}, wanted 1")
        one_device("Bias", q_positions=queries, k_positions=keys, out=out)
        given = out is not None
        if out is None:
            q_rows, q_tokens = _extents(queries, "q_positions")
            k_rows, k_tokens = _extents(keys, "k_positions")
            batched = len(queries.shape) == 2 or len(keys.shape) == 2
            shape = (max(end - first, 0), q_tokens, k_tokens)
            out = empty((max(q_rows, k_rows), *shape) if batched else shape, dtype, queries)
        elif is_torch(out):
            torch_backend().output("Bias", out)
        self._core.fill(out, queries, keys, first)
        read(queries, keys)
        return written(out) if given else returned(queries, out)

    def diagonal(
        self, first_distance: int, count: int, dtype: Any = None, *, out: Array | None = None, first_head: int = 0, query_position: int = 0
    ) -> Array:
        """(H, count): the biases at first_distance, first_distance + 1, ...; of FIRE the diagonal of the query at query_position.

        >>> Bias(Alibi(heads=1)).diagonal(-1, 3, "float64").tolist()
        [[-0.00390625, 0.0, -0.00390625]]
        """
        if out is None:
            out = empty((self.heads - first_head, count), dtype)
        elif is_torch(out):
            torch_backend().output("diagonal", out)
        self._core.diagonal(out, first_distance, first_head, query_position)
        return written(out)

    def gradient(self, diagonal: Array, first_distance: int, *, first_head: int = 0, query_position: int = 0) -> Array:
        """The gradient of the parameters, float64, from that of the diagonal (H, N) that begins at first_distance. On a GPU it is there.

        >>> Bias(Alibi(heads=1, slopes=[0.5])).gradient(np.ones((1, 4)), 0).tolist()
        [-6.0]
        """
        ungraded("Bias.gradient", diagonal)
        size = (self._core.parameter_count,)
        total = np.zeros(size) if gpu_of(diagonal) is None else empty(size, np.float64, diagonal)
        total[:] = 0
        self._core.gradient(total, diagonal, first_distance, (first_head, query_position))
        read(diagonal)
        return total

    def row(self, distances: Any) -> Any:
        """The row of the table that a distance reads, or an array of them; -1 for schemes without table and outside a window.

        >>> Bias(T5Buckets(heads=1)).row([0, 7, 100, -1]).tolist()
        [0, 7, 15, 17]
        """
        if isinstance(distances, int):
            return self._core.row(distances)
        array = integers(distances, "distances")
        return np.array(self._core.rows_at(array.reshape(-1).tolist()), np.int64).reshape(np.shape(distances))

    @property
    def spec(self) -> BiasSpec:
        """The scheme."""
        return self._spec

    @property
    def heads(self) -> int:
        """How many heads."""
        return self._core.heads

    @property
    def rows(self) -> int:
        """Rows of the table; 0 for schemes without one."""
        return self._core.rows

    @property
    def slopes(self) -> np.ndarray:
        """Slopes in use; empty but for Alibi."""
        return np.array(self._core.slopes)

    @property
    def parameter_count(self) -> int:
        """How many parameters `gradient` is of: slopes, tables (H, rows), Kerple's r1 and r2, a perceptron's, Fire's with c and length."""
        return self._core.parameter_count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bias) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        return f"Bias({self._spec!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Bias, (self._spec,))


def alibi_slopes(heads: int, max_bias: float = 8.0) -> np.ndarray:
    """ALiBi's slopes, float64: 2^(-max_bias (h + 1) / heads) where heads is a power of two, else those of the powers around.

    >>> import phasor
    >>> phasor.alibi_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    return Bias(Alibi(heads=heads, max_bias=max_bias)).slopes


def t5_buckets(distances: Any, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> np.ndarray:
    """T5's bucket of each distance (query - key), int64.

    >>> import phasor
    >>> phasor.t5_buckets([0, 1, 20, 1000, -3]).tolist()
    [0, 1, 10, 15, 19]
    """
    spec = T5Buckets(heads=1, buckets=buckets, max_distance=max_distance, sides="both" if bidirectional else "behind")
    return np.asarray(Bias(spec).row(np.asarray(distances)))


def xl_sinusoids(distances: Positions, spec: XlSinusoids, dtype: Any = None, *, out: Array | None = None) -> Array:
    """The rows that Transformer-XL and XLNet project, one for each distance (N) or (B, N): (..., width), the nearest values.

    >>> import phasor
    >>> phasor.xl_sinusoids([2, 1, 0], phasor.XlSinusoids(width=2)).round(4).tolist()
    [[0.9093000292778015, -0.41609999537467957], [0.8414999842643738, 0.5403000116348267], [0.0, 1.0]]
    """
    at = positions_argument(distances)
    one_device("xl_sinusoids", distances=at, out=out)
    given = out is not None
    if out is None:
        rows, count = _extents(at, "distances")
        out = empty((rows, count, spec.width) if len(at.shape) == 2 else (count, spec.width), dtype, at)
    elif is_torch(out):
        torch_backend().output("xl_sinusoids", out)
    _core.fill_xl_sinusoids(out, spec, at)
    read(at)
    return written(out) if given else returned(at, out)
