# SPDX-License-Identifier: Apache-2.0
"""Which heads each rank computes when all tokens of some heads come together."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HeadCall", "Heads", "heads_of"]


class HeadCall(NamedTuple):
    """Heads of queries and the heads of keys that they read, of one call of the core."""

    first: int
    end: int
    first_key: int
    end_key: int


class Heads(NamedTuple):
    """All of a rank, and the calls they make."""

    first: int
    end: int
    first_key: int
    end_key: int
    calls: tuple[HeadCall, ...]


def heads_of(heads: int, key_heads: int, ranks: int, rank: int, whole_groups: bool) -> Heads:
    """whole_groups: query heads that share a key head stay together, though some ranks may then have none.

    >>> heads_of(8, 2, 4, 1, False)[:4]
    (2, 4, 0, 1)
    """
    group = heads // max(key_heads, 1)
    if whole_groups or key_heads >= ranks:
        first, end = key_heads * rank // ranks, key_heads * (rank + 1) // ranks
        call = HeadCall(first * group, end * group, first, end)
        return Heads(*call, (call,) if end > first else ())
    first, end = heads * rank // ranks, heads * (rank + 1) // ranks
    if first == end:
        return Heads(first, end, first // group, first // group, ())
    keys = range(first // group, (end - 1) // group + 1)
    calls = tuple(HeadCall(max(first, k * group), min(end, (k + 1) * group), k, k + 1) for k in keys)
    return Heads(first, end, keys.start, keys.stop, calls)
