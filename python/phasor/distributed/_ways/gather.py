# SPDX-License-Identifier: Apache-2.0
"""comm="gather": every rank gets all keys, in the order of the whole, for its own queries: the bits of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from phasor.distributed import _kernel
from phasor.distributed._exchange import Wanted, every_part, post
from phasor.distributed._job import Job
from phasor.distributed._kernel import Saved, Work
from phasor.distributed._ways.rows import rows_of

__all__ = ["backward", "forward"]


class _Rows:
    """The rows that a rank computes, and where its own are among them."""

    def __init__(self, job: Job, backward: bool) -> None:
        self.job = job
        self.tokens = rows_of(job.query, job.group.rank, job.scheme, backward)
        order = np.argsort(self.tokens, kind="stable")
        own = job.query.how.tokens[job.group.rank]
        self.places = job.query.index(order[np.searchsorted(self.tokens, own, sorter=order)] if len(own) else own)
        self.all_own = np.array_equal(self.tokens, own)

    def spread(self, x: Any) -> Any:
        """Own rows in their places, zeros in the others; None of None."""
        if self.all_own or x is None:
            return x
        out = x.new_zeros((x.shape[0], len(self.tokens), *x.shape[2:]))
        return out.index_copy_(1, self.places, x.detach())

    def own(self, x: Any) -> Any:
        """This rank's rows; None of None."""
        return x if self.all_own or x is None else x.index_select(1, self.places)

    def of_slots(self, tensors: list[Tensor]) -> list[Tensor]:
        return [self.spread(x) if slot.kind in ("query", "dense") else x for slot, x in zip(self.job.slots, tensors)]


def _work(job: Job, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> Work:
    """All keys, and this rank's queries among others where that is needed."""
    keys = job.key_slots()
    held = [k, v, *(tensors[n] for n in keys)]
    wait = every_part(job.group, held, [1] * len(held), job.key.how.counts())
    q, tensors = rows.spread(q), rows.of_slots(tensors)  # while keys travel
    parts = wait()
    whole = [job.key.whole([part.pop(0) for part in parts], 1) for _ in held]  # parts that are in their places are given back
    for n, x in zip(keys, whole[2:]):
        tensors[n] = x
    return job.work((q, whole[0], whole[1]), tensors, rows.tokens, np.arange(job.key.length()))


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    rows = _Rows(job, False)
    out, lse = _kernel.forward(_work(job, rows, q, k, v, tensors), job.out_dtype)
    return rows.own(out), rows.own(lse)


def _by_rank(job: Job, x: Tensor) -> list[Tensor]:
    """What goes by keys of the whole, as each rank holds them."""
    return [x.index_select(1, job.key.index(tokens)) for tokens in job.key.how.tokens]


def _home(job: Job, sums: list[Tensor]) -> list[Tensor]:
    """This rank's sums over all keys, which the list gives away, to the ranks that hold them, added there in the order of ranks."""
    group, n = job.group, len(sums)
    if not sums:
        return []
    by_rank = [_by_rank(job, sums.pop(0)) for _ in range(n)]
    own = [parts[group.rank] for parts in by_rank]
    wants = [Wanted(peer, tuple(x.shape), x.dtype) for peer in range(group.size) for x in own]
    came = post(group, [(peer, parts[peer]) for peer in range(group.size) for parts in by_rank], wants, own[0].device).wait()
    for i, x in enumerate(came[n:]):
        came[i % n] += x
    return came[:n]


def _taken(made: list[Tensor | None], places: list[int]) -> list[Tensor]:
    """What is at some places, where nothing is left: memory is free as soon as the next owner lets go of it."""
    taken = [x for x in (made[n] for n in places) if x is not None]
    for n in places:
        made[n] = None
    return taken


def backward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], saved: Saved, wanted: list[bool]) -> list[Tensor | None]:
    rows, keys = _Rows(job, True), job.key_slots()
    spread = Saved(*(rows.spread(x) for x in (saved.out, saved.lse, saved.out_gradient, saved.lse_gradient)))
    made = _kernel.backward(_work(job, rows, q, k, v, tensors), spread, wanted, job.deterministic, q.dtype)
    del spread  # before more is made
    for n, kind in enumerate(["query", "key", "key", *(slot.kind for slot in job.slots)]):
        if kind in ("query", "dense"):
            made[n] = rows.own(made[n])
    places = [n for n in (1, 2, *(3 + n for n in keys)) if made[n] is not None]
    for n, x in zip(places, _home(job, _taken(made, places))):
        made[n] = x
    return made
