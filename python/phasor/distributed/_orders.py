# SPDX-License-Identifier: Apache-2.0
"""Which tokens of a sequence each rank holds. Lengths need not divide by anything; some ranks may hold none."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

__all__ = ["Dealt", "Order", "dealt", "order_name", "starts_of"]

Order = Literal["zigzag", "striped", "contiguous"] | Any  # or a permutation: tokens of rank 0, then those of rank 1, ...
_NAMES = ("zigzag", "striped", "contiguous")


@dataclass(frozen=True, eq=False)
class Dealt:
    """Tokens of the whole that each rank has, in the order in which it has them: sequence after sequence."""

    tokens: tuple[np.ndarray, ...]
    starts: tuple[np.ndarray, ...]  # of each rank: where its part of each sequence begins
    positions: tuple[np.ndarray, ...]  # within sequences
    whole_starts: np.ndarray
    places: np.ndarray  # of token t in the tokens of all ranks, rank after rank

    def counts(self) -> list[int]:
        return [len(x) for x in self.tokens]


def _cuts(length: int, parts: int) -> list[int]:
    return [length * n // parts for n in range(parts + 1)]


def _parts(length: int, order: str, ranks: int) -> list[np.ndarray]:
    """Tokens of one sequence for each rank."""
    if order == "striped":
        return [np.arange(rank, length, ranks) for rank in range(ranks)]
    if order == "contiguous":
        cuts = _cuts(length, ranks)
        return [np.arange(cuts[rank], cuts[rank + 1]) for rank in range(ranks)]
    cuts = _cuts(length, 2 * ranks)  # zigzag: a chunk from the front and its mirror image from the back
    mirror = [2 * ranks - 1 - rank for rank in range(ranks)]
    return [np.concatenate([np.arange(cuts[n], cuts[n + 1]) for n in (rank, mirror[rank])]) for rank in range(ranks)]


def _permuted(permutation: np.ndarray, starts: np.ndarray, ranks: int) -> list[np.ndarray]:
    """Equal parts of a permutation, each sequence by sequence."""
    cuts = _cuts(len(permutation), ranks)
    result = []
    for rank in range(ranks):
        part = permutation[cuts[rank] : cuts[rank + 1]]
        result.append(part[np.argsort(np.searchsorted(starts, part, "right"), kind="stable")])
    return result


@lru_cache(maxsize=64)
def _dealt(order: str | tuple[int, ...], whole: tuple[int, ...], ranks: int) -> Dealt:
    starts = np.array(whole, np.int64)
    if isinstance(order, str):
        by_sequence = [[part + begin for part in _parts(end - begin, order, ranks)] for begin, end in zip(whole, whole[1:])]
        none = [np.zeros(0, np.int64)]
        tokens = [np.concatenate(none + [parts[rank] for parts in by_sequence]) for rank in range(ranks)]
    else:
        tokens = _permuted(np.array(order, np.int64), starts, ranks)
    sequences = [np.searchsorted(starts, x, "right") - 1 for x in tokens]
    # Empty sequences share a start with the one behind them, which is the one that has the token.
    local = [np.concatenate([[0], np.cumsum(np.bincount(x, minlength=len(whole) - 1))]).astype(np.int64) for x in sequences]
    positions = [x - starts[s] for x, s in zip(tokens, sequences)]
    places = np.argsort(np.concatenate(tokens), kind="stable")
    return Dealt(tuple(tokens), tuple(local), tuple(positions), starts, places)


def starts_of(cu_seqlens: Any, length: int, where: str) -> tuple[int, ...]:
    """0, ..., length: of one sequence unless more are given."""
    if cu_seqlens is None:
        return (0, length)
    found = np.asarray(cu_seqlens.cpu() if hasattr(cu_seqlens, "cpu") else cu_seqlens)
    if found.ndim != 1 or found.size < 1 or found.dtype.kind not in "iu":
        raise ValueError(f"{where}: cu_seqlens is of {found.dtype} and has {found.ndim} axes, wanted a list of integers 0, ..., {length}")
    if found[0] != 0 or found[-1] != length or (np.diff(found) < 0).any():
        raise ValueError(f"{where}: cu_seqlens runs from {found[0]} to {found[-1]}, wanted it to rise from 0 to the {length} tokens of all ranks")
    return tuple(found.tolist())


def _checked(order: Any, length: int, where: str) -> str | tuple[int, ...]:
    if isinstance(order, str):
        if order not in _NAMES:
            raise ValueError(f"{where}: order is {order!r}, wanted 'zigzag', 'striped', 'contiguous' or a permutation")
        return order
    found = np.asarray(order.cpu() if hasattr(order, "cpu") else order)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError(f"{where}: order is of {found.dtype} with {found.ndim} axes, wanted a name or a permutation of integers")
    if len(found) != length or not np.array_equal(np.sort(found), np.arange(length)):
        raise ValueError(f"{where}: order has {len(found)} tokens, wanted each of 0 to {length - 1} once")
    return tuple(found.tolist())


def dealt(order: Any, starts: tuple[int, ...], ranks: int, where: str) -> Dealt:
    """How sequences that begin at `starts` lie on the ranks."""
    return _dealt(_checked(order, starts[-1], where), starts, ranks)


def order_name(order: Any) -> str:
    """What ranks compare: its name, or a hash of a permutation."""
    if isinstance(order, str):
        return order
    found = np.asarray(order.cpu() if hasattr(order, "cpu") else order, np.int64)
    return "a permutation with hash " + hashlib.sha256(found.tobytes()).hexdigest()[:16]
