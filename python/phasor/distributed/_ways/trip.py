# SPDX-License-Identifier: Apache-2.0
"""Which ranks' keys the queries of each rank see, by masks and positions, and so how far keys go round a ring: no further than to the last that needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from phasor.distributed._exchange import all_gathered
from phasor.distributed._group import Group
from phasor.distributed._job import Job
from phasor.distributed._layout import counted_positions
from phasor.distributed._orders import Dealt

__all__ = ["Trip", "trip_of"]

_FARTHEST = 2**62  # more than two positions can be apart: the core takes those from -2^61 to 2^61


@dataclass(frozen=True, eq=False)
class Trip:
    """needs[rank]: whether each owner's keys are part of that rank's output. Each rank has one part at least, be it without a visible key."""

    group: Group
    needs: list[list[bool]]

    def far(self, owner: int) -> int:
        """Over how many steps the keys of a rank go."""
        size = self.group.size
        return max(step for step in range(size) if step == 0 or self.needs[(owner + step) % size][owner])

    def computes(self, owner: int) -> bool:
        return self.needs[self.group.rank][owner]

    def first(self) -> int:
        """Whose keys are this rank's first part, the one that takes the sinks."""
        return next(owner for step in range(self.group.size) if self.computes(owner := self.group.after(-step)))


def trip_of(job: Job) -> Trip:
    """Ranks tell each other what they need: a small exchange, so that each looks at its own queries alone."""
    group, query, key = job.group, job.query, job.key
    rules = _Rules(job.scheme.mask == "causal", job.scheme.left, job.scheme.right, query.packed)
    if rules == _Rules(False, None, None, False) and key.mask is None:  # all is visible
        return Trip(group, [_at_least_one([n > 0 for n in key.how.counts()], job, rank) for rank in range(group.size)])
    hows, prefix = (query.how, key.how), None if job.prefix is None else tuple(job.prefix.tolist())
    if query.given is None and key.given is None and key.mask is None:
        row = list(_needs_of_counted(group.rank, hows, (tuple(query.base), tuple(key.base)), prefix, rules))
    else:
        mask = None if key.whole_mask is None else key.whole_mask.cpu().numpy().astype(bool)
        at = [x.whole_positions for x in (query, key)]
        first = [(x[0] if x.ndim > 2 else x).cpu().numpy() for x in at]  # of several axes distances go by the first
        row = _needs(group.rank, hows, (first[0], first[1]), mask, prefix, rules)
    return Trip(group, all_gathered(group, torch.tensor(_at_least_one(row, job, group.rank))).tolist())


def _at_least_one(row: list[bool], job: Job, rank: int) -> list[bool]:
    """With a part for a rank that sees nothing: the next keys that there are say so (the core takes features of no keys for none)."""
    owners = [(rank - step) % job.group.size for step in range(job.group.size)]
    one = next((owner for owner in owners if job.key.count(owner) and job.query.count(rank)), rank)
    return [need or (owner == one and not any(row)) for owner, need in enumerate(row)]


class _Rules(NamedTuple):
    causal: bool
    left: int | None
    right: int | None
    packed: bool  # sequences do not see each other


@lru_cache(maxsize=64)
def _needs_of_counted(
    rank: int, hows: tuple[Dealt, Dealt], bases: tuple[tuple[int, ...], tuple[int, ...]], prefix: tuple[int, ...] | None, rules: _Rules
) -> tuple[bool, ...]:
    """The same for every layer and step: looked at once."""
    at = counted_positions(hows[0], bases[0]), counted_positions(hows[1], bases[1])
    return tuple(_needs(rank, hows, at, None, prefix, rules))


def _needs(
    rank: int, hows: tuple[Dealt, Dealt], at: tuple[np.ndarray, np.ndarray], mask: np.ndarray | None, prefix: tuple[int, ...] | None, rules: _Rules
) -> list[bool]:
    """Of each owner, whether a query of a rank sees one of its keys, in any batch row. Positions (T) or (B, T), mask (B, T), of the whole."""
    tokens = hows[0].tokens[rank]
    sequences = [np.repeat(np.arange(len(how.whole_starts) - 1), np.diff(how.whole_starts)) for how in hows]
    queries, keys = (x.reshape(-1, x.shape[-1]) for x in at)
    mask = np.ones((1, keys.shape[1]), bool) if mask is None else mask
    prefixes = np.array([-_FARTHEST] * len(hows[0].whole_starts) if prefix is None else prefix)
    seen = np.zeros(keys.shape[1], bool)
    for row in range(max(len(queries), len(keys), len(mask), 1 if rules.packed else len(prefix or [0]))):
        exempt = prefixes[sequences[0][tokens]] if rules.packed else prefixes[row % len(prefixes)]
        first, last = _interval(rules, queries[row % len(queries)][tokens], exempt)
        places = np.flatnonzero(mask[row % len(mask)])
        found = _within(sequences[0][tokens], first, last, sequences[1][places], keys[row % len(keys)][places])
        seen[places[found]] = True
    return [bool(seen[x].any()) for x in hows[1].tokens]


def _interval(rules: _Rules, at: np.ndarray, prefix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last position that a query at each of these sees; those below the prefix are exempt from causality."""
    left, right = (_FARTHEST if x is None else min(x, _FARTHEST) for x in (rules.left, rules.right))
    last = at + right
    return at - left, np.minimum(last, np.maximum(at, prefix - 1)) if rules.causal else last


def _within(of_queries: np.ndarray, first: np.ndarray, last: np.ndarray, of_keys: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Indices of keys at a position from `first` to `last` of some query of the same sequence: stretches of the keys in order, put together."""
    if not len(at):
        return np.zeros(0, np.int64)
    least, most = int(at.min()), int(at.max())
    span = most - least + 2  # of one sequence, on a line on which sequences follow each other
    if span * (int(of_keys.max()) + int(of_queries.max(initial=0)) + 1) > _FARTHEST:
        return np.arange(len(at))  # the line is too long: all, which is never wrong
    line = of_keys * span + (at - least)
    order = np.argsort(line, kind="stable")
    line = line[order]
    begin = np.searchsorted(line, of_queries * span + (np.clip(first, least, most + 1) - least), "left")
    end = np.searchsorted(line, of_queries * span + (np.clip(last, least - 1, most) - least), "right")
    seeing = begin < end
    change = np.bincount(begin[seeing], minlength=len(line) + 1) - np.bincount(end[seeing], minlength=len(line) + 1)
    return order[np.cumsum(change[:-1]) > 0]
