# SPDX-License-Identifier: Apache-2.0
"""comm="gather": every rank gets all keys, in the order of the whole, for its own queries: the bits of one device."""

from __future__ import annotations

import numpy as np
import torch
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

    def spread(self, x: Tensor) -> Tensor:
        """Own rows in their places, zeros in the others."""
        if self.all_own:
            return x
        out = x.new_zeros((x.shape[0], len(self.tokens), *x.shape[2:]))
        return out.index_copy_(1, self.places, x.detach())

    def own(self, x: Tensor) -> Tensor:
        return x if self.all_own else x.index_select(1, self.places)

    def of_slots(self, tensors: list[Tensor]) -> list[Tensor]:
        return [self.spread(x) if slot.kind in ("query", "dense") else x for slot, x in zip(self.job.slots, tensors)]


def _work(job: Job, rows: _Rows, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> Work:
    """All keys, and this rank's queries among others where that is needed."""
    keys = job.key_slots()
    held = [k, v, *(tensors[n] for n in keys)]
    wait = every_part(job.group, held, [1] * len(held), job.key.how.counts())
    q, tensors = rows.spread(q), rows.of_slots(tensors)  # while keys travel
    parts = wait()
    whole = [job.key.whole([part[n] for part in parts], 1) for n in range(len(held))]
    for n, x in zip(keys, whole[2:]):
        tensors[n] = x
    return job.work((q, whole[0], whole[1]), tensors, rows.tokens, np.arange(job.key.length()))


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    rows = _Rows(job, False)
    out, lse = _kernel.forward(_work(job, rows, q, k, v, tensors), job.out_dtype)
    return rows.own(out), rows.own(lse)


def _home(job: Job, sums: list[Tensor]) -> list[Tensor]:
    """This rank's sums over all keys to the ranks that hold them, added there in the order of ranks."""
    group, n = job.group, len(sums)
    if not sums:
        return []
    by_rank = [[x.index_select(1, job.key.index(job.key.how.tokens[peer])) for x in sums] for peer in range(group.size)]
    own = by_rank[group.rank]
    wants = [Wanted(peer, tuple(x.shape), x.dtype) for peer in range(group.size) for x in own]
    came = post(group, [(peer, x) for peer in range(group.size) for x in by_rank[peer]], wants, sums[0].device).wait()
    result = [x.clone() for x in came[:n]]
    for i, x in enumerate(came[n:]):
        result[i % n] += x
    return result


def backward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], saved: Saved, wanted: list[bool]) -> list[Tensor | None]:
    rows, keys = _Rows(job, True), job.key_slots()
    work = _work(job, rows, q, k, v, tensors)
    spread = Saved(*(None if x is None else rows.spread(x) for x in (saved.out, saved.lse, saved.out_gradient, saved.lse_gradient)))  # type: ignore[arg-type]
    made = _kernel.backward(work, spread, wanted, job.deterministic, q.dtype)
    for n, slot in enumerate(job.slots):
        x = made[3 + n]
        if x is not None and slot.kind in ("query", "dense"):
            made[3 + n] = rows.own(x)
    if made[0] is not None:
        made[0] = rows.own(made[0])
    places = [n for n in (1, 2, *(3 + n for n in keys)) if made[n] is not None]
    for n, x in zip(places, _home(job, [x for n in places if (x := made[n]) is not None])):
        made[n] = x
    return made
