# SPDX-License-Identifier: Apache-2.0
"""comm="ring": keys go round, a neighbour at a time, while each rank's queries meet those it has; each part is merged into one output as it is made."""

from __future__ import annotations

import torch
from torch import Tensor

from phasor.distributed import _kernel
from phasor.distributed._exchange import Wanted, post
from phasor.distributed._job import Job, without_sinks
from phasor.distributed._kernel import Saved, Work, wide
from phasor.distributed._ways.trip import trip_of

__all__ = ["backward", "forward"]


class _Keys:
    """Keys, values and what else goes by key: this rank's at first, then those of the ranks before it."""

    def __init__(self, job: Job, k: Tensor, v: Tensor, tensors: list[Tensor]) -> None:
        self.job = job
        self.held = [k, v, *(tensors[n] for n in job.key_slots())]
        self.shapes = [(x.shape[0], *x.shape[2:]) for x in self.held]
        self.dtypes = [x.dtype for x in self.held]

    def sends(self, step: int) -> list[tuple[int, Tensor]]:
        """Those held go on to the next rank where any further one needs them."""
        group = self.job.group
        return [(group.after(), x) for x in self.held] if self.job.trip.far(group.after(-step)) > step else []

    def wants(self, step: int) -> list[Wanted]:
        """Those of the next step."""
        group = self.job.group
        owner = group.after(-step - 1)
        return self.of(owner, group.after(-1), self.dtypes) if self.job.trip.far(owner) > step else []

    def of(self, owner: int, peer: int, dtypes: list[torch.dtype]) -> list[Wanted]:
        """What `peer` sends that goes by the keys of `owner`: tokens are axis 1."""
        count = self.job.key.count(owner)
        return [Wanted(peer, (batch, count, *rest), dtype) for (batch, *rest), dtype in zip(self.shapes, dtypes)]

    def part(self, q: Tensor, tensors: list[Tensor], owner: int) -> Work:
        """This rank's queries and the keys of `owner`; sinks belong to one part."""
        job, given = self.job, list(tensors)
        for n, x in zip(job.key_slots(), self.held[2:]):
            given[n] = x
        if owner != job.trip.first():
            job, given = without_sinks(job, given)
        return job.work((q, self.held[0], self.held[1]), given, job.query.how.tokens[job.group.rank], job.key.how.tokens[owner])


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """out in the type of arithmetic, and lse (B, T, H, 1)."""
    group = job.group
    job.trip = trip_of(job)
    keys = _Keys(job, k, v, tensors)
    total: tuple[Tensor, Tensor] | None = None
    for step in range(group.size):
        under_way = post(group, keys.sends(step), keys.wants(step), q.device)
        owner = group.after(-step)
        if job.trip.computes(owner):
            total = _kernel.merged(total, _kernel.forward(keys.part(q, tensors, owner), wide(q)))
        keys.held = under_way.wait()
    assert total is not None  # of a trip every rank computes a part
    return total[0], total[1].to(wide(q))


class _Sums:
    """Gradients by keys, which follow them one step behind, and go home from the last rank that has the keys."""

    def __init__(self, keys: _Keys, wanted: list[bool]) -> None:
        self.keys, self.wanted, self.job = keys, wanted, keys.job
        self.dtypes = [torch.promote_types(x, torch.float32) for x in keys.dtypes]
        self.sums: list[Tensor] = []
        self.home: list[Tensor] = []

    def sends(self, step: int) -> list[tuple[int, Tensor]]:
        """What the step before left: on to the next rank, or to the owner."""
        group = self.job.group
        owner = group.after(1 - step)
        return [(group.after() if self.job.trip.far(owner) >= step else owner, x) for x in self.sums]

    def _of(self, owner: int, peer: int) -> list[Wanted]:
        return [x for x, want in zip(self.keys.of(owner, peer, self.dtypes), self.wanted) if want]

    def passing(self, step: int) -> list[Wanted]:
        """Those of the keys that are here in this step."""
        group = self.job.group
        return self._of(group.after(-step), group.after(-1)) if 0 < step <= self.job.trip.far(group.after(-step)) else []

    def coming_home(self, step: int) -> list[Wanted]:
        group = self.job.group
        far = self.job.trip.far(group.rank)
        return self._of(group.rank, group.after(far)) if step == far + 1 else []

    def take(self, step: int, came: list[Tensor], made: list[Tensor | None]) -> None:
        """What came with the keys of this step, and what was made of them here."""
        group = self.job.group
        owner = group.after(-step)
        if step > self.job.trip.far(owner) or step == group.size:
            self.sums = []
            return
        own = [x for x, want in zip(made, self.wanted) if want and x is not None]
        for x, y in zip(came, own):
            x += y
        self.sums = came or own or [torch.zeros(x.shape, dtype=x.dtype, device=self.job.query.device) for x in self._of(owner, owner)]


class _Gradients:
    """Those of this rank's queries and of what all ranks share, added up over parts. wanted: of q, k, v and the tensors of slots."""

    def __init__(self, job: Job, q: Tensor, tensors: list[Tensor], wanted: list[bool]) -> None:
        self.job, self.q, self.tensors, self.wanted = job, q, tensors, wanted
        kinds = ["query", "key", "key", *(slot.kind for slot in job.slots)]
        self.sums: list[Tensor | None] = [
            torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32), device=x.device) if want and kind != "key" else None
            for x, kind, want in zip((q, q, q, *tensors), kinds, wanted)
        ]

    def add_part(self, keys: _Keys, owner: int, saved: Saved) -> list[Tensor | None]:
        """Gives back those by keys; columns of a dense bias go to their places."""
        work = keys.part(self.q, self.tensors, owner)
        slots = [n for n, slot in enumerate(self.job.slots) if slot in work.slots]
        made = _kernel.backward(work, saved, self.wanted[:3] + [self.wanted[3 + n] for n in slots], self.job.deterministic)
        by_place = dict(zip((0, 1, 2, *(3 + n for n in slots)), made))
        for place, x in by_place.items():
            sums = self.sums[place]
            if sums is None or x is None:
                continue
            columns = None if place < 3 else self.job.columns(self.job.slots[place - 3], sums, self.job.key.how.tokens[owner])
            if columns is None:
                sums += x
            else:
                sums.index_add_(3, columns, x)
        return [by_place[place] for place in _by_key(self.job)]


def _by_key(job: Job) -> list[int]:
    """Places of what goes by key among q, k, v and the tensors of slots."""
    return [1, 2, *(3 + n for n in job.key_slots())]


def backward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], saved: Saved, wanted: list[bool]) -> list[Tensor | None]:
    group, places = job.group, _by_key(job)
    keys, result = _Keys(job, k, v, tensors), _Gradients(job, q, tensors, wanted)
    sums = _Sums(keys, [wanted[n] for n in places])
    for step in range(group.size + 1):  # the last one brings home what went all the way
        wants = keys.wants(step), sums.passing(step), sums.coming_home(step)
        # Keys before sums on both sides, in one batch.
        under_way = post(group, [*keys.sends(step), *sums.sends(step)], [x for part in wants for x in part], q.device)
        owner = group.after(-step)
        made = result.add_part(keys, owner, saved) if step < group.size and job.trip.computes(owner) else []
        came = iter(under_way.wait())
        keys.held, passed, home = ([next(came) for _ in part] for part in wants)
        sums.take(step, passed, made)
        sums.home = home or sums.home
        del made, passed  # before the next part is made
    for place, x in zip([n for n in places if wanted[n]], sums.home):
        result.sums[place] = x
    return result.sums
