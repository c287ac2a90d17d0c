# SPDX-License-Identifier: Apache-2.0
"""comm="ring": keys go round, a neighbour at a time, while each rank's queries meet those it has; parts are merged once, at the end."""

from __future__ import annotations

import torch
from torch import Tensor

import phasor
from phasor.distributed import _kernel
from phasor.distributed._exchange import Wanted, post
from phasor.distributed._job import Job, without_sinks
from phasor.distributed._kernel import Saved, Work, wide

__all__ = ["backward", "forward"]


def _shapes(job: Job, tensors: list[Tensor], owner: int, peer: int) -> list[Wanted]:
    """What `peer` sends of the keys of `owner`: tokens are axis 1."""
    return [Wanted(peer, (x.shape[0], job.key.count(owner), *x.shape[2:]), x.dtype) for x in tensors]


def _with_keys(job: Job, tensors: list[Tensor], held: list[Tensor]) -> list[Tensor]:
    """The tensors of slots with those that came with the keys."""
    result = list(tensors)
    for n, x in zip(job.key_slots(), held[2:]):
        result[n] = x
    return result


def _first_owner(job: Job) -> int:
    """The first rank that has keys."""
    return next((rank for rank, count in enumerate(job.key.how.counts()) if count), 0)


def _computes(job: Job, owner: int) -> bool:
    """Whether there is anything to compute of a rank's keys."""
    return job.key.count(owner) > 0 or owner == _first_owner(job)


def _part(job: Job, q: Tensor, tensors: list[Tensor], held: list[Tensor], owner: int) -> Work:
    """This rank's queries and the keys of `owner`; sinks belong to one part."""
    tensors = _with_keys(job, tensors, held)
    if owner != _first_owner(job):
        job, tensors = without_sinks(job, tensors)
    return job.work((q, held[0], held[1]), tensors, job.query.how.tokens[job.group.rank], job.key.how.tokens[owner])


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """out in the type of arithmetic, and lse (B, T, H, 1)."""
    group = job.group
    held = [k, v, *(tensors[n] for n in job.key_slots())]
    parts: dict[int, tuple[Tensor, Tensor]] = {}
    for step in range(group.size):
        owner = group.after(-step)
        if step < group.size - 1:
            sends = [(group.after(), x) for x in held]
            under_way = post(group, sends, _shapes(job, held, group.after(-step - 1), group.after(-1)), q.device)
        if _computes(job, owner):
            out, lse = _kernel.forward(_part(job, q, tensors, held, owner), wide(q))
            parts[owner] = out, lse[..., 0]
        if step < group.size - 1:
            held = under_way.wait()
    out, lse = phasor.merge_attention([parts[owner] for owner in sorted(parts)])
    return out, lse[..., None]


class _Sums:
    """Gradients by keys that travel with them, one step behind: those of this rank's keys come home at the end."""

    def __init__(self, job: Job, held: list[Tensor], wanted: list[bool]) -> None:
        self.job, self.wanted = job, wanted
        self.dtypes = [torch.promote_types(x.dtype, torch.float32) for x in held]
        self.shapes = [(x.shape[0], *x.shape[2:]) for x in held]
        self.sums: list[Tensor] = []

    def sends(self) -> list[tuple[int, Tensor]]:
        return [(self.job.group.after(), x) for x in self.sums]

    def wants(self, owner: int) -> list[Wanted]:
        count, peer = self.job.key.count(owner), self.job.group.after(-1)
        return [
            Wanted(peer, (batch, count, *rest), dtype)
            for (batch, *rest), dtype, want in zip(self.shapes, self.dtypes, self.wanted)
            if want
        ]

    def take(self, came: list[Tensor], made: list[Tensor | None]) -> None:
        """What came and what was made here; a rank without keys has none to add."""
        own = [x for x, want in zip(made, self.wanted) if want and x is not None]
        self.sums = [x + y for x, y in zip(came, own)] if came and own else came or own or self._none()

    def _none(self) -> list[Tensor]:
        return [torch.zeros(want.shape, dtype=want.dtype, device=self.job.query.device) for want in self.wants(self.job.group.rank)]


def _add_part(
    job: Job, q: Tensor, tensors: list[Tensor], held: list[Tensor], owner: int, saved: Saved, wanted: list[bool], result: list[Tensor | None]
) -> list[Tensor | None]:
    """Adds the gradients of one part to those of this rank, and gives those of its keys; columns of a dense bias go to their places."""
    work = _part(job, q, tensors, held, owner)
    part = [n for n, slot in enumerate(job.slots) if slot in work.slots]
    made = _kernel.backward(work, saved, wanted[:3] + [wanted[3 + n] for n in part], job.deterministic)
    for n, x in ((0, made[0]), *((3 + n, x) for n, x in zip(part, made[3:]) if job.slots[n].kind != "key")):
        into = result[n]
        if into is None or x is None:
            continue
        if n and job.slots[n - 3].kind == "dense" and x.shape[3] != into.shape[3]:
            into.index_add_(3, job.key.index(job.key.how.tokens[owner]), x)
        else:
            into += x
    by_slot = dict(zip(part, made[3:]))
    return [made[1], made[2], *(by_slot[n] for n in job.key_slots())]


def backward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], saved: Saved, wanted: list[bool]) -> list[Tensor | None]:
    group, keys = job.group, job.key_slots()
    held = [k, v, *(tensors[n] for n in keys)]
    travelling = [wanted[1], wanted[2], *(wanted[3 + n] for n in keys)]
    result: list[Tensor | None] = [
        torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32), memory_format=torch.contiguous_format) if want else None
        for x, want in zip((q, k, v, *tensors), wanted)
    ]
    sums = _Sums(job, held, travelling)
    for step in range(group.size):
        owner = group.after(-step)
        sends, wants = sums.sends(), sums.wants(owner) if step else []
        more = step < group.size - 1
        if more:  # keys before sums on both sides, in one batch
            sends = [(group.after(), x) for x in held] + sends
            wants = _shapes(job, held, group.after(-step - 1), group.after(-1)) + wants
        under_way = post(group, sends, wants, q.device)
        by_keys = _add_part(job, q, tensors, held, owner, saved, wanted, result) if _computes(job, owner) else []
        came = under_way.wait()
        if more:
            held, came = came[: len(held)], came[len(held) :]
        sums.take(came, by_keys)
    if group.size > 1:
        sums.sums = post(group, sums.sends(), sums.wants(group.rank), q.device).wait()
    home = iter(sums.sums)
    for place, want in zip((1, 2, *(3 + n for n in keys)), travelling):
        if want:
            result[place] = next(home)
    return result
