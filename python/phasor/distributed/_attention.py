# SPDX-License-Identifier: Apache-2.0
"""phasor.distributed.attention: arguments checked and compared, then one of three ways for keys to meet queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Unpack

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phasor._attention import AttentionOptions, Call
from phasor._torch.attention.operators import out_dtype_of
from phasor.distributed._agree import Facts, agree
from phasor.distributed._exchange import every_part, summed
from phasor.distributed._given import WHERE, Given, needs_batch, orders_of, starts_of_sides
from phasor.distributed._group import Group, group_of
from phasor.distributed._job import Job
from phasor.distributed._kernel import Saved
from phasor.distributed._layout import Side, integers_of
from phasor.distributed._orders import Order, dealt, order_name, starts_of
from phasor.distributed._slots import merges
from phasor.distributed._ways import gather, ring, ulysses

__all__ = ["attention"]

_WAYS: dict[str, Any] = {"ring": ring, "gather": gather, "ulysses": ulysses}


class _Attention(torch.autograd.Function):
    """Gradients of q, k, v and of what goes by token are this rank's, those of tables are of all ranks."""

    @staticmethod
    def forward(ctx: Any, job: Job, way: Any, sums: bool, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = way.forward(job, q, k, v, list(tensors))
        ctx.call = job, way, sums
        ctx.save_for_backward(q, k, v, out, lse, *tensors)
        return out.to(job.out_dtype), lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, out_gradient: Tensor, lse_gradient: Tensor) -> Any:  # type: ignore[override]
        job, way, sums = ctx.call
        q, k, v, out, lse, *tensors = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[3:])
        saved = Saved(out, lse, out_gradient, lse_gradient.contiguous())
        made = way.backward(job, q, k, v, tensors, saved, wanted)
        if sums:
            places = [3 + n for n, slot in enumerate(job.slots) if slot.kind == "shared" and wanted[3 + n]]
            for n, x in zip(places, summed(job.group, [made[n] for n in places])):
                made[n] = x
        given = [None if x is None else x.to(like.dtype) for x, like in zip(made, (q, k, v, *tensors))]
        return (None, None, None, *given)


def _settle_dense(given: Given, shared_rows: bool, query: Side, key: Side) -> None:
    """A dense bias of one row on every rank is shared by queries, unless every rank has just one of these; one row on some ranks is that of each query."""
    alone = shared_rows and any(count != 1 for count in query.how.counts())
    for n, (slot, x) in enumerate(zip(given.slots, given.tensors)):
        if slot.kind != "dense":
            continue
        if x.shape[3] not in (1, key.length()):
            raise ValueError(f"{WHERE}: {slot.label()} has {x.shape[3]} columns, wanted {key.length()}, the keys of all ranks, or 1")
        if alone:
            given.slots[n] = replace(slot, kind="shared")
        else:
            given.tensors[n] = x.expand(-1, given.counts[0], -1, -1)


def _sides(group: Group, given: Given, order: Any, counts: list[list[int]]) -> tuple[Side, Side]:
    """Queries and keys of all ranks; what goes by token comes from every rank."""
    orders, starts = orders_of(order), starts_of_sides(given.cu_seqlens)
    sides = []
    for n, name in enumerate(("query", "key")):
        here = [x[n] for x in counts]
        how = dealt(orders[n], starts_of(starts[n], sum(here), WHERE), group.size, WHERE)
        if how.counts() != here:
            raise ValueError(
                f"{WHERE}: ranks have {here} tokens in {'q' if n == 0 else 'k'}, wanted {how.counts()} of {sum(here)} in the order {order_name(orders[n])}"
            )
        at = given.positions[name]
        base = [at if isinstance(at, int) else 0] * (len(how.whole_starts) - 1)
        sides.append(Side(name, how, starts[n] is not None, given.q.device, base, at is None))
    query, key = sides
    if len(query.base) != len(key.base):
        raise ValueError(f"{WHERE}: cu_seqlens has {len(query.base)} sequences of queries and {len(key.base)} of keys, wanted as many")
    if query.counted:  # the last query is at the last key, as attention counts by itself
        lengths = [[int(b - a) for a, b in zip(s.how.whole_starts, s.how.whole_starts[1:])] for s in sides]
        query.base = [keys - queries for queries, keys in zip(*lengths)]
    _take_by_token(group, given, query, key)
    query.check(WHERE)
    key.check(WHERE)
    return query, key


def _take_by_token(group: Group, given: Given, query: Side, key: Side) -> None:
    """Positions, segments and masks of every rank: small beside keys, and all know all."""
    for side in (query, key):
        names = [x for x in given.by_token if x[0] == side.name or (side is key and x[0] == "mask")]
        parts = every_part(group, [given.by_token[x] for x in names], [-1] * len(names), side.how.counts())()
        side.segments = [{} for _ in range(group.size)]
        for n, (name, number) in enumerate(names):
            of_ranks = [part[n] for part in parts]
            if name == "mask":
                side.mask = of_ranks
            elif number < 0:
                side.given = of_ranks
            else:
                for rank, x in enumerate(of_ranks):
                    side.segments[rank][number] = x


def _checked_way(comm: str, call: Call) -> None:
    if comm not in _WAYS:
        raise ValueError(f"{WHERE}: comm is {comm!r}, wanted 'ring', 'gather' or 'ulysses'")
    if comm == "ring" and not merges(call.scheme):
        raise NotImplementedError(f"{WHERE}: CoPE counts the keys between query and key, so parts of its keys do not merge; wanted comm='gather' or 'ulysses'")


@torch.compiler.disable(reason="phasor.distributed.attention compares arguments between ranks on the host, which no graph holds")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: Any = None,
    causal: bool = False,
    *,
    mesh: Any = None,
    comm: Literal["ring", "gather", "ulysses"] = "ring",
    order: Order = "zigzag",
    scale: float | None = None,
    return_lse: bool = False,
    table_gradients: Literal["sum", "local"] = "sum",
    timeout: float | None = None,
    **options: Unpack[AttentionOptions],
) -> Any:
    """phasor.attention of a sequence whose tokens lie on the ranks of a mesh, as `shard` deals them out: each rank gives its own and gets theirs.

    mesh: a DeviceMesh of one axis, a process group, or None for all ranks. comm: "ring" (keys go round while kernels run),
    "gather" (all keys on every rank) or "ulysses" (all tokens of some heads); the last two give the bits of one device, out and the gradient of q.
    order: as of `shard`, or two, those of queries and of keys. What goes by token is this rank's: query_positions, key_positions (an int is added to
    the positions of the shard), key_mask, gates, features, segments, rows of a dense bias, whose columns are keys of the whole in order. cu_seqlens
    are those of the whole, prefix and all else are the same on every rank. table_gradients: of what is the same on every rank, summed over ranks, or
    this rank's part, where the trainer sums. timeout: seconds to wait for another rank, 60 unless given.
    """
    group = group_of(mesh, WHERE, timeout, q)

    def checked() -> tuple[Facts, list[int], Any]:
        added = needs_batch(q, k, v)
        batched = [x[None] if added else x for x in (q, k, v)]
        given = Given(batched[0], batched[1], batched[2], scheme, causal, scale, dict(options))
        _checked_way(comm, given.call)
        if table_gradients not in ("sum", "local"):
            raise ValueError(f"{WHERE}: table_gradients is {table_gradients!r}, wanted 'sum' or 'local'")
        dense = all(x.shape[1] == 1 for slot, x in zip(given.slots, given.tensors) if slot.kind == "dense")
        facts = {"comm": comm, "order": ", ".join(map(order_name, orders_of(order))), "table_gradients": table_gradients, **given.facts()}
        return facts, [*given.counts, int(dense)], (given, added)

    counts, (given, added) = agree(group, checked, 3)
    query, key = _sides(group, given, order, counts)
    _settle_dense(given, all(x[2] for x in counts), query, key)
    prefix = None if given.prefix is None else integers_of(given.prefix, given.q.device)
    seed = given.call.tensors.get("dropout_seed")
    job = Job(group, given.call.scheme, given.slots, query, key, prefix, seed, out_dtype_of(given.q, given.call.out_dtype), given.call.deterministic)
    out, lse = _Attention.apply(job, _WAYS[comm], table_gradients == "sum", given.q, given.k, given.v, *given.tensors)  # type: ignore[no-untyped-call]
    lse = lse[..., 0]
    if added:
        out, lse = out[0], lse[0]
    return (out, lse) if return_lse else out
