# SPDX-License-Identifier: Apache-2.0
"""Which ranks' keys the queries of each rank see, by masks and positions, and so how far keys go round a ring: no further than to the last that needs them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from phasor._attention.types import AttentionScheme
from phasor.distributed._exchange import all_gathered
from phasor.distributed._group import Group
from phasor.distributed._job import Job
from phasor.distributed._layout import Side

__all__ = ["Trip", "keys_seen", "trip_of"]

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
    group = job.group
    if _all_visible(job):
        needs = [[job.key.count(owner) > 0 or owner == rank for owner in range(group.size)] for rank in range(group.size)]
        return Trip(group, needs)
    seen = keys_seen(job, group.rank)
    row = [bool(seen[tokens].any()) for tokens in job.key.how.tokens]
    row[group.rank] |= not any(row)
    return Trip(group, all_gathered(group, torch.tensor(row)).tolist())


def _all_visible(job: Job) -> bool:
    scheme = job.scheme
    return scheme.mask == "full" and scheme.left is None and scheme.right is None and not job.query.packed and job.key.mask is None


def keys_seen(job: Job, rank: int) -> np.ndarray:
    """Which keys of the whole a query of a rank sees, in any batch row."""
    query, key = job.query, job.key
    tokens, sequences = query.how.tokens[rank], query.sequences()
    rows = [x.reshape(-1, x.shape[-1]) for x in (query.first_positions(), key.first_positions())]
    mask = np.ones((1, key.length()), bool) if key.whole_mask is None else key.whole_mask.cpu().numpy().astype(bool)
    prefix = None if job.prefix is None else job.prefix.cpu().numpy()
    seen = np.zeros(key.length(), bool)
    batch = max(len(mask), *map(len, rows), 1 if query.packed or prefix is None else len(prefix))
    for row in range(batch):
        at, of_keys, kept = (x[row % len(x)] for x in (*rows, mask))
        exempt = -_FARTHEST if prefix is None else prefix[sequences[tokens]] if query.packed else prefix[row]
        first, last = _interval(job.scheme, at[tokens], exempt)
        places = np.flatnonzero(kept)
        found = _within(sequences[tokens], first, last, key.sequences()[places], of_keys[places])
        seen[places[found]] = True
    return seen


def _interval(scheme: AttentionScheme, at: np.ndarray, prefix: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last position that a query at each of these sees; those below the prefix are exempt from causality."""
    left, right = (_FARTHEST if x is None else min(x, _FARTHEST) for x in (scheme.left, scheme.right))
    last = at + right
    return at - left, np.minimum(last, np.maximum(at, prefix - 1)) if scheme.mask == "causal" else last


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
