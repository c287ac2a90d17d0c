# SPDX-License-Identifier: Apache-2.0
"""Which rows of queries a rank computes so that its own have the bits that one device gives them.

A row's bits depend on its keys (all ranks have them in one order), on whether few queries are decoded or many go by tiles, and on whether its tile
is one of neighbours, whose sums leave out what no row of it sees. So a rank computes whole tiles, with zeros in the rows that it does not hold:
at most a tile more at either end of a run of neighbours, and all of them for "striped". Where the core would go another way for positions
that are given than for those it counts itself (some tables), a rank computes all rows, for which nothing need be given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor._attention.types import AttentionScheme, ClipRows, TableScheme, XposScheme
from phasor.distributed._layout import Side

__all__ = ["few_queries", "rows_of"]

_DECODED = 8  # queries of a sequence, at most, that are decoded (kDecodeQueries of src/cpu/attention/host/prepare.cpp)
_TILE = 96  # queries (kQueryTile of src/cpu/attention/job/attention.hpp)
_LEAST_SLIDING, _MOST_WHOLE = 96 + 64, 4096  # columns of a table (src/cpu/attention/host_tables/table_parts.cpp)


def few_queries(side: Side) -> bool:
    """Whether one device would decode."""
    return int(np.diff(side.how.whole_starts).max(initial=0)) <= _DECODED


def _sequence(side: Side, number: int) -> np.ndarray:
    return np.arange(*side.how.whole_starts[number : number + 2])


def _tiles(own: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Every token of the tiles that hold one of ours."""
    touched = np.unique((own - begin) // _TILE)
    return np.concatenate([np.arange(begin + t * _TILE, min(begin + (t + 1) * _TILE, end)) for t in touched]).astype(np.int64)


def _widened(rows: list[np.ndarray], side: Side) -> list[np.ndarray]:
    """As they are, but so many of one sequence that they are not decoded."""
    if any(len(x) > _DECODED for x in rows):
        return rows
    longest = int(np.argmax(np.diff(side.how.whole_starts)))
    rows[longest] = np.union1d(rows[longest], np.setdiff1d(_sequence(side, longest), rows[longest])[: _DECODED + 1])
    return rows


def _goes_by_given(term: Any, side: Side) -> bool:
    """Whether the core may make a table's products another way where positions are given (way_of of host_tables/table_parts.cpp)."""
    if not isinstance(term, TableScheme):
        return False
    rows = term.rows
    count = rows.left + rows.right + 1 if isinstance(rows, ClipRows) else 2 * getattr(rows, "max_distance", _MOST_WHOLE) + 1
    return _LEAST_SLIDING < min(count, 2 * side.length()) and count <= _MOST_WHOLE


def rows_of(side: Side, rank: int, scheme: AttentionScheme, backward: bool) -> np.ndarray:
    """Tokens of the whole, sequence after sequence; none for a rank that has none."""
    own, starts, local = side.how.tokens[rank], side.how.whole_starts, side.how.starts[rank]
    if not len(own):
        return own
    # Forward, one table alone has the same products either way; beside other terms it is added before or after them.
    if (backward or len(scheme.terms) > 1) and side.counted and any(_goes_by_given(term, side) for term in scheme.terms):
        return np.arange(side.length())
    rows = [own[local[n] : local[n + 1]] for n in range(len(starts) - 1)]
    if isinstance(scheme.content, XposScheme) or few_queries(side):
        rows = [_sequence(side, n) if len(x) else x for n, x in enumerate(rows)]
    else:
        rows = [_tiles(x, starts[n], starts[n + 1]) if len(x) else x for n, x in enumerate(rows)]
    return np.concatenate(rows if few_queries(side) else _widened(rows, side))
