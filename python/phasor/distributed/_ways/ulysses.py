# SPDX-License-Identifier: Apache-2.0
"""comm="ulysses": all tokens of some heads on each rank, by an exchange before and one after: the bits of one device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from phasor.distributed import _kernel
from phasor.distributed._exchange import Wanted, post
from phasor.distributed._ways.heads import HeadCall, Heads, heads_of
from phasor.distributed._job import Job
from phasor.distributed._kernel import Saved, Work
from phasor.distributed._ways.rows import few_queries
from phasor.distributed._ways.same_sums import as_one_device
from phasor.distributed._slots import Slot, head_slice, scheme_of_heads

__all__ = ["backward", "forward"]

_QUERY, _KEY = Slot(-1, "q", "query"), Slot(-1, "k", "key")


class _Dealing:
    """Tokens to heads and back. `slot` says whether a tensor goes by queries or keys, and which of its heads a rank reads."""

    def __init__(self, job: Job, heads: int, key_heads: int) -> None:
        self.job = job
        ranks = range(job.group.size)
        self.heads = [heads_of(heads, key_heads, job.group.size, rank, few_queries(job.query)) for rank in ranks]
        self.own = self.heads[job.group.rank]

    def _side(self, slot: Slot):  # type: ignore[no-untyped-def]
        return self.job.key if slot.kind == "key" else self.job.query

    def _range(self, slot: Slot, x: Tensor, heads: Heads) -> tuple[int, int]:
        first, end = head_slice(slot, x, (heads.first, heads.end), (heads.first_key, heads.end_key))
        return (first, end) if heads.calls else (0, 0)

    def to_heads(self, slots: list[Slot], tensors: list[Tensor]) -> list[Tensor]:
        """(B, all tokens in order, this rank's heads, width) of each."""
        group = self.job.group
        sends, wants = [], []
        for peer in range(group.size):
            for slot, x in zip(slots, tensors):
                first, end = self._range(slot, x, self.heads[peer])
                sends.append((peer, x[:, :, first:end]))
                first, end = self._range(slot, x, self.own)
                wants.append(Wanted(peer, (x.shape[0], self._side(slot).count(peer), end - first, x.shape[3]), x.dtype))
        came, n = post(group, sends, wants, tensors[0].device).wait(), len(tensors)
        return [self._side(slot).whole(came[i::n], 1) for i, slot in enumerate(slots)]

    def to_tokens(self, slots: list[Slot], made: list[Tensor], like: list[Tensor]) -> list[Tensor]:
        """Each rank's tokens of all heads, shaped as `like`; heads that several ranks computed add up in the order of ranks."""
        group = self.job.group
        sends, wants = [], []
        for peer in range(group.size):
            for slot, x, whole in zip(slots, made, like):
                side = self._side(slot)
                sends.append((peer, x.index_select(1, side.index(side.how.tokens[peer]))))
                first, end = self._range(slot, whole, self.heads[peer])
                wants.append(Wanted(peer, (x.shape[0], side.count(group.rank), end - first, x.shape[3]), x.dtype))
        if not sends:
            return []
        came = iter(post(group, sends, wants, made[0].device).wait())
        del sends  # copies, which are there by now
        result = [x.new_zeros((x.shape[0], self._side(slot).count(group.rank), whole.shape[2], x.shape[3])) for slot, x, whole in zip(slots, made, like)]
        for peer in range(group.size):
            for slot, whole, sums in zip(slots, like, result):
                first, end = self._range(slot, whole, self.heads[peer])
                part = next(came)
                if end > first:
                    sums[:, :, first:end] += part
        return result

    def works(self, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> list[tuple[HeadCall, Work]]:
        """The calls of this rank: tensors that go by token have its heads, the others all."""
        result = []
        for call in self.own.calls:
            chosen = []
            for slot, x in zip(self.job.slots, tensors):
                first, end = head_slice(slot, x, (call.first, call.end), (call.first_key, call.end_key))
                chosen.append(x[:, :, first - self._offset(slot, x) : end - self._offset(slot, x)])
            at, keys = slice(call.first - self.own.first, call.end - self.own.first), slice(call.first_key - self.own.first_key, call.end_key - self.own.first_key)
            job = replace(self.job, scheme=scheme_of_heads(self.job.scheme, call.first), first_head=call.first)
            contents = (q[:, :, at], k[:, :, keys], v[:, :, keys])
            every = (np.arange(job.query.length()), np.arange(job.key.length()))
            result.append((call, job.work(contents, chosen, *every)))
        return result

    def _offset(self, slot: Slot, x: Tensor) -> int:
        """The first head that a tensor of a slot has here."""
        if slot.kind == "shared" or x.shape[2] == 1:
            return 0
        return self.own.first_key if slot.kind == "key" else self.own.first

    def by_token(self) -> list[int]:
        """Slots whose tensors are dealt."""
        return [n for n, slot in enumerate(self.job.slots) if slot.kind != "shared"]


def _dealt(dealing: _Dealing, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], more: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """q, k, v; the tensors of slots; and others that go by query, all with this rank's heads."""
    places = dealing.by_token()
    slots = [_QUERY, _KEY, _KEY, *(dealing.job.slots[n] for n in places), *([_QUERY] * len(more))]
    came = dealing.to_heads(slots, [q, k, v, *(tensors[n] for n in places), *more])
    result = list(tensors)
    for n, x in zip(places, came[3:]):
        result[n] = x
    return came[:3], result, came[3 + len(places) :]


def _computed(dealing: _Dealing, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """out and lse of all tokens of this rank's heads."""
    job, own = dealing.job, dealing.own
    contents, tensors, _ = _dealt(dealing, q, k, v, tensors, [])
    shape = (q.shape[0], job.query.length(), own.end - own.first)
    out = q.new_zeros((*shape, v.shape[3]), dtype=job.out_dtype)
    lse = q.new_zeros((*shape, 1), dtype=_kernel.wide(q))
    for call, work in dealing.works(contents[0], contents[1], contents[2], tensors):
        at = slice(call.first - own.first, call.end - own.first)
        out[:, :, at], lse[:, :, at] = _kernel.forward(work, job.out_dtype)
    return [out, lse]


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    dealing = _Dealing(job, q.shape[2], k.shape[2])
    like = q[..., :1].new_empty((0, 0, q.shape[2], 0))
    out, lse = dealing.to_tokens([_QUERY, _QUERY], _computed(dealing, q, k, v, tensors), [like, like])
    return out, lse


class _Gradients:
    """Sums of the calls of this rank: by its heads for what is dealt, by all heads for the rest."""

    def __init__(self, dealing: _Dealing, contents: list[Tensor], tensors: list[Tensor], wanted: list[bool]) -> None:
        self.dealing = dealing
        dtypes = [contents[0].dtype] + [torch.promote_types(x.dtype, torch.float32) for x in (*contents[1:], *tensors)]
        self.sums = [
            torch.zeros(x.shape, dtype=dtype, device=x.device) if want else None for x, dtype, want in zip((*contents, *tensors), dtypes, wanted)
        ]

    def add(self, call: HeadCall, made: list[Tensor | None]) -> None:
        own, slots = self.dealing.own, [_QUERY, _KEY, _KEY, *self.dealing.job.slots]
        for n, (slot, x, sums) in enumerate(zip(slots, made, self.sums)):
            if x is None or sums is None:
                continue
            offset = (own.first_key if slot.kind == "key" else own.first) if n < 3 else self.dealing._offset(slot, sums)
            first, end = head_slice(slot, sums, (call.first, call.end), (call.first_key, call.end_key)) if n >= 3 else self._of_contents(slot, call)
            sums[:, :, first - offset : end - offset] += x

    @staticmethod
    def _of_contents(slot: Slot, call: HeadCall) -> tuple[int, int]:
        return (call.first_key, call.end_key) if slot.kind == "key" else (call.first, call.end)


def _computed_gradients(
    dealing: _Dealing, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], saved: Saved, wanted: list[bool]
) -> list[Tensor | None]:
    """By all tokens of this rank's heads."""
    job, own = dealing.job, dealing.own
    more = [x for x in (saved.out, saved.lse, saved.out_gradient, saved.lse_gradient) if x is not None]
    contents, here, others = _dealt(dealing, q, k, v, tensors, more)
    gradients = _Gradients(dealing, contents, here, wanted)
    one_device = q.shape[0] if not job.query.packed else len(job.query.base)
    for call, work in dealing.works(contents[0], contents[1], contents[2], here):
        at = slice(call.first - own.first, call.end - own.first)
        part = Saved(*(x[:, :, at] for x in others))
        gradients.add(call, as_one_device(work, part, wanted, job.deterministic, one_device * k.shape[2]))
    return gradients.sums


def backward(job: Job, q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], saved: Saved, wanted: list[bool]) -> list[Tensor | None]:
    dealing = _Dealing(job, q.shape[2], k.shape[2])
    result = _computed_gradients(dealing, q, k, v, tensors, saved, wanted)
    places = [n for n in (0, 1, 2, *(3 + n for n in dealing.by_token())) if wanted[n]]
    slots, whole = [_QUERY, _KEY, _KEY, *job.slots], [q, k, v, *tensors]
    made = [x for x in (result[n] for n in places) if x is not None]
    for n, x in zip(places, dealing.to_tokens([slots[n] for n in places], made, [whole[n] for n in places])):
        result[n] = x
    return result
