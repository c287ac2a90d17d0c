# SPDX-License-Identifier: Apache-2.0
"""phasor.attention of DTensors: each rank computes its batch rows, heads or queries by itself; nothing travels but sums of gradients.

On each axis of the mesh q, k and v are sharded alike by batch or by heads, or q alone by tokens (all ranks then have all keys), or nobody is. Keys that
are sharded by tokens are phasor.distributed.attention's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from phasor._attention import Call
from phasor._attention.types import SegmentScheme
from phasor.distributed._slots import Slot, call_with, head_slice, scheme_of_heads, slots_of

__all__ = ["attention"]

_ALIKE = ((Replicate(), Replicate()), (Shard(0), Shard(0)), (Shard(2), Shard(2)), (Shard(1), Replicate()))  # of q, and of k and v


def _checked(q: Any, k: Any, v: Any) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, DTensor):
            raise TypeError(f"attention: {name} is {type(x).__name__}, wanted a DTensor as the others are")
        if x.device_mesh != q.device_mesh:
            raise ValueError(f"attention: {name} is on another mesh than q, wanted one mesh")
    for axis, (of_q, of_k, of_v) in enumerate(zip(q.placements, k.placements, v.placements)):
        if of_k != of_v or (of_q, of_k) not in _ALIKE:
            raise ValueError(
                f"attention: on axis {axis} of the mesh q is {of_q}, k is {of_k} and v is {of_v}, wanted all by batch, Shard(0), all by heads, Shard(2), q "
                "by tokens with k and v replicated, or none; keys by tokens: phasor.distributed.attention"
            )


def _block(x: Any) -> list[range]:
    """The part of each axis that this rank has."""
    shape, offset = compute_local_shape_and_global_offset(x.shape, x.device_mesh, x.placements)
    return [range(first, first + size) for first, size in zip(offset, shape)]


def _summed_local(x: Any, beside: Any) -> Tensor:
    """A tensor that every rank has whole; its gradient is the sum of what ranks make of it."""
    mesh = beside.device_mesh
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim, run_check=False)
    if any(p != Replicate() for p in x.placements):
        raise ValueError(f"attention: a tensor of the scheme is {x.placements}, wanted it replicated: ranks take their heads of it themselves")
    parts = [Replicate() if p == Replicate() else Partial() for p in beside.placements]
    return x.to_local(grad_placements=parts)


def _local_contents(x: Any, q: Any) -> Tensor:
    """k or v of this rank; where q is sharded and they are not, gradients add up."""
    parts = [Partial() if mine == Replicate() != of_q else mine for mine, of_q in zip(x.placements, q.placements)]
    return x.to_local(grad_placements=parts)


def _cut(x: Tensor, axis: int, part: range, whole: int) -> Tensor:
    """This rank's part of an axis that has all; an axis of 1 is shared."""
    return x.narrow(axis, part.start, len(part)) if x.shape[axis] == whole and whole > 1 else x


def _slot_tensor(slot: Slot, x: Any, q: Any, k: Any, blocks: tuple[list[range], list[range]]) -> Tensor:
    of_q, of_k = blocks
    heads, key_heads = (of_q[2].start, of_q[2].stop), (of_k[2].start, of_k[2].stop)
    x = _cut(_summed_local(x, q), 0, of_q[0], q.shape[0])
    first, end = head_slice(slot, x, heads, key_heads)
    if slot.name != "parameters":  # a bias has those of all heads
        x = x[:, :, first:end]
    return _cut(x, 1, of_q[1], q.shape[1]) if slot.kind in ("query", "dense") else x


def _integers(call: Call, q: Any, k: Any, blocks: tuple[list[range], list[range]]) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
    """Positions, masks and segments of this rank's rows and queries."""
    (rows, queries, *_), _ = blocks
    given = {name: call.tensors.get(name) for name in ("prefix", "key_mask", "query_positions", "key_positions", "query_starts", "key_starts")}
    if given["query_starts"] is not None and (len(queries) != q.shape[1]):
        raise NotImplementedError("attention: cu_seqlens with queries sharded by tokens, wanted phasor.distributed.attention")
    if len(queries) != q.shape[1]:
        at = given["query_positions"]
        first = k.shape[1] - q.shape[1] if at is None else at
        at = torch.arange(first, first + q.shape[1], device=q.device) if isinstance(first, int) else torch.as_tensor(first, device=q.device)
        given["query_positions"] = at.narrow(-1, queries.start, len(queries))
    for name, axis in (("prefix", -1), ("key_mask", -2), ("query_positions", -2), ("key_positions", -2)):
        x = given[name]
        if x is not None and not isinstance(x, int) and given["query_starts"] is None:
            x = torch.as_tensor(x, device=q.device)
            given[name] = _cut(x, axis, rows, q.shape[0]) if x.ndim >= -axis else x
    segments: list[dict[str, Tensor]] = []
    for term, named in zip(call.scheme.terms, call.tensors["terms"]):
        here: dict[str, Tensor] = {}
        if isinstance(term, SegmentScheme):
            for side, part in (("query", queries), ("key", range(k.shape[1]))):
                x = torch.as_tensor(named[f"{side}_segments"], device=q.device).narrow(-1, part.start, len(part))
                here[f"{side}_segments"] = _cut(x, -2, rows, q.shape[0]) if x.ndim > 1 else x
        segments.append(here)
    return given, segments


def attention(q: Any, k: Any, v: Any, call: Call) -> tuple[Any, Any]:
    """out and lse (B, T, H) as DTensors sharded as q is."""
    from phasor._torch.attention.operators import attention as of_tensors

    _checked(q, k, v)
    if call.scheme.dropout and call.tensors["dropout_seed"] is None:
        raise ValueError("attention: dropout of DTensors is given without dropout_seed, wanted an integer, the same on every rank")
    blocks = (_block(q), _block(k))
    (rows, _, heads, _), (_, _, key_heads, _) = blocks
    group = q.shape[2] // k.shape[2] if k.shape[2] else 1
    if (heads.start, heads.stop) != (key_heads.start * group, key_heads.stop * group):
        raise ValueError(f"attention: this rank has heads {heads.start} to {heads.stop} of q and {key_heads.start} to {key_heads.stop} of k, wanted those that belong together")
    slots, tensors = slots_of(call)
    local = [_slot_tensor(slot, x, q, k, blocks) for slot, x in zip(slots, tensors)]
    integers, segments = _integers(call, q, k, blocks)
    if call.scheme.dropout:  # which goes by the batch row and head of the whole
        integers |= {"dropout_seed": call.tensors["dropout_seed"], "dropout_first_head": heads.start, "dropout_first_sequence": rows.start}
    made = call_with(scheme_of_heads(call.scheme, heads.start), slots, local, integers, segments)
    made.out_dtype, made.deterministic = call.out_dtype, call.deterministic
    out, lse = of_tensors(q.to_local(), _local_contents(k, q), _local_contents(v, q), made)
    shape = (*q.shape[:3], v.shape[3])
    strides = torch.empty(shape, device="meta").stride()
    whole = DTensor.from_local(out.contiguous(), q.device_mesh, q.placements, run_check=False, shape=torch.Size(shape), stride=strides)
    lse_strides = torch.empty(shape[:3], device="meta").stride()
    return whole, DTensor.from_local(lse.contiguous(), q.device_mesh, q.placements, run_check=False, shape=torch.Size(shape[:3]), stride=lse_strides)
