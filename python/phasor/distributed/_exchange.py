# SPDX-License-Identifier: Apache-2.0
"""Tensors between ranks, of uneven sizes and without padding: posted first, awaited when they are needed, so that they travel while kernels run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from phasor.distributed._group import Group, PeerError

__all__ = ["Transfer", "Wanted", "all_gathered", "every_part", "post", "summed"]


class Wanted(NamedTuple):
    """A tensor that a rank will send."""

    peer: int
    shape: tuple[int, ...]
    dtype: torch.dtype


def awaited(group: Group, work: Any, what: str) -> None:
    """Waits for it, no longer than the time limit."""
    try:
        work.wait(group.timeout)
    except RuntimeError as error:
        seconds = group.timeout.total_seconds()
        raise PeerError(f"{group.where}: rank {group.rank} waited for {what}, which did not come within {seconds:g} s or is gone: {error}") from error


class Transfer:
    """What is under way: `wait` gives what was wanted, in its order."""

    def __init__(self, group: Group, works: list[Any], received: list[Tensor], sent: list[Tensor], device: torch.device) -> None:
        self._group, self._works, self._received, self._sent, self._device = group, works, received, sent, device

    def wait(self) -> list[Tensor]:
        for work in self._works:
            awaited(self._group, work, "tensors of another rank")
        received = self._received
        self._works, self._sent, self._received = [], [], []  # kept until now: gloo reads and writes them as it goes
        return [x.to(self._device) for x in received]


def _ready(group: Group, x: Tensor) -> Tensor:
    return x.detach().to(group.device).contiguous()


def post(group: Group, sends: Sequence[tuple[int, Tensor]], wants: Sequence[Wanted], device: torch.device) -> Transfer:
    """Sends (rank, tensor) and receives what is wanted, both in the order that the other side has; nothing that is empty travels.

    All of a call is one batch: NCCL runs what a rank posts in its order, so that a send posted behind a receive could wait for itself.
    """
    sent, received, operations = [], [], []
    own = [x for peer, x in sends if peer == group.rank]
    tags: dict[tuple[str, int], int] = {}

    def operation(kind: Callable[..., Any], name: str, peer: int, x: Tensor) -> None:
        tag = tags[name, peer] = tags.get((name, peer), 0) + 1
        if x.numel():
            operations.append(dist.P2POp(kind, x, group.global_ranks[peer], group.process_group, tag))

    for peer, x in sends:
        if peer != group.rank:
            sent.append(_ready(group, x))
            operation(dist.isend, "send", peer, sent[-1])
    for want in wants:
        if want.peer == group.rank:
            received.append(own.pop(0).detach())
            continue
        received.append(torch.empty(want.shape, dtype=want.dtype, device=group.device))
        operation(dist.irecv, "receive", want.peer, received[-1])
    try:
        works = dist.batch_isend_irecv(operations) if operations else []
    except RuntimeError as error:
        raise PeerError(f"{group.where}: rank {group.rank} cannot reach another rank: {error}") from error
    return Transfer(group, works, received, sent, device)


def every_part(group: Group, tensors: Sequence[Tensor], axes: Sequence[int], counts: Sequence[int]) -> Callable[[], list[list[Tensor]]]:
    """Posts this rank's part of each tensor to all; what it gives back waits for those of every rank, rank by rank.

    axes: of tokens; counts: tokens of each rank.
    """
    if not tensors:
        return lambda: [[] for _ in range(group.size)]
    wants = []
    for peer in range(group.size):
        for x, axis in zip(tensors, axes):
            shape = list(x.shape)
            shape[axis] = counts[peer]
            wants.append(Wanted(peer, tuple(shape), x.dtype))
    under_way = post(group, [(peer, x) for peer in range(group.size) for x in tensors], wants, tensors[0].device)

    def wait() -> list[list[Tensor]]:
        found, n = under_way.wait(), len(tensors)
        return [found[peer * n : (peer + 1) * n] for peer in range(group.size)]

    return wait


def summed(group: Group, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sums over ranks, added in the order of ranks: the same bits on every rank and in every run."""
    if not tensors or group.size == 1:
        return list(tensors)
    wants = [Wanted(peer, tuple(x.shape), x.dtype) for peer in range(group.size) for x in tensors]
    found = post(group, [(peer, x) for peer in range(group.size) for x in tensors], wants, tensors[0].device).wait()
    sums = [x.clone() for x in found[: len(tensors)]]
    for n, x in enumerate(found[len(tensors) :]):
        sums[n % len(tensors)] += x
    return sums


def all_gathered(group: Group, row: Tensor) -> Tensor:
    """(ranks, ...) of small tensors of one shape."""
    row = row.to(group.device)
    out = row.new_empty((group.size, *row.shape))
    try:
        work = dist.all_gather(list(out.unbind()), row, group=group.process_group, async_op=True)
    except RuntimeError as error:
        raise PeerError(f"{group.where}: rank {group.rank} cannot reach another rank: {error}") from error
    awaited(group, work, "the arguments of another rank")
    return out.cpu()
