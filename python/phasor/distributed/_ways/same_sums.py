# SPDX-License-Identifier: Apache-2.0
"""The backward of some heads with the sums of one device's call of all heads.

The CPU's backward cuts the keys of a call that has few sequences and key heads into parts, for threads to have work, and adds the parts of q's
gradient. How many parts decides its last bits. A call of fewer heads is cut as the whole would be when empty sequences, which cost nothing,
make up for the heads that it lacks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._attention import Call
from phasor.distributed import _kernel
from phasor.distributed._kernel import Saved, Work
from phasor.distributed._slots import head_slice, scheme_of_heads

__all__ = ["as_one_device"]

_ENOUGH = 8  # tasks (kEnoughTasks of src/cpu/attention/host/backward.cpp)


def _parts(tasks: int) -> int:
    return max(1, -(-_ENOUGH // max(tasks, 1)))


def _sequences(least: int, key_heads: int, tasks: int) -> int | None:
    """How many make a call of these key heads to be cut as one of so many tasks; None: no number does."""
    return next((n for n in range(least, max(least, tasks, _ENOUGH) + 1) if _parts(n * key_heads) == _parts(tasks)), None)


def _row(x: Any, row: int, axis: int) -> Any:
    """One batch row of a tensor that has several."""
    return x.narrow(axis, row, 1) if isinstance(x, Tensor) and x.ndim >= -axis and x.shape[axis] > 1 else x


def _batch_row(work: Work, saved: Saved, row: int) -> tuple[Work, Saved]:
    """One batch row as a packed sequence."""
    given = work.call.tensors
    q, k, v, *tensors = (_row(x, row, -4) for x in (work.q, work.k, work.v, *work.tensors))
    device = q.device
    made: dict[str, Any] = {name: _row(given.get(name), row, -2) for name in ("query_positions", "key_positions", "key_mask")}
    if given.get("prefix") is not None:
        made["prefix"] = given["prefix"][row : row + 1]
    if given.get("dropout_seed") is not None:
        made |= {"dropout_seed": given["dropout_seed"], "dropout_first_head": given["dropout_first_head"], "dropout_first_sequence": row}
    made |= {f"{name}_starts": torch.tensor([0, x.shape[1]], device=device) for name, x in (("query", q), ("key", k))}
    terms: list[dict[str, Any]] = [{name: _row(x, row, -2) for name, x in term.items() if name.endswith("_segments")} for term in given["terms"]]
    for slot, x in zip(work.slots, tensors):
        (made if slot.term < 0 else terms[slot.term])[slot.name] = x
    call = Call(work.call.scheme, {**{name: x for name, x in made.items() if x is not None}, "terms": terms})
    parts = [_row(x, row, -4) for x in (saved.out, saved.lse, saved.out_gradient, saved.lse_gradient)]
    return Work(q, k, v, work.slots, tensors, call), Saved(*parts)


def _widened(work: Work, sequences: int) -> Work:
    """The same with empty sequences at the end."""
    tensors = dict(work.call.tensors)
    more = sequences + 1 - len(tensors["query_starts"])
    for name in ("query_starts", "key_starts"):
        tensors[name] = torch.cat([tensors[name], tensors[name][-1:].expand(more)])
    if tensors.get("prefix") is not None:
        tensors["prefix"] = torch.cat([tensors["prefix"], tensors["prefix"].new_zeros(more)])
    return Work(work.q, work.k, work.v, work.slots, work.tensors, Call(work.call.scheme, tensors))


def _one_key_head(work: Work, saved: Saved, head: int) -> tuple[Work, Saved, list[slice]]:
    """Key head `head` and its queries, and which heads of q, k, v and the tensors those are."""
    group = work.q.shape[2] // work.k.shape[2]
    heads, keys = slice(head * group, (head + 1) * group), slice(head, head + 1)
    of_slots = [slice(*head_slice(slot, x, (heads.start, heads.stop), (keys.start, keys.stop))) for slot, x in zip(work.slots, work.tensors)]
    chosen = [heads, keys, keys, *of_slots]
    q, k, v, *tensors = (x[:, :, at] for x, at in zip((work.q, work.k, work.v, *work.tensors), chosen))
    given = {name: x for name, x in work.call.tensors.items() if name not in ("terms", "content_shift", "sinks")}
    terms = [{name: x for name, x in term.items() if name.endswith("_segments")} for term in work.call.tensors["terms"]]
    for slot, x in zip(work.slots, tensors):
        (given if slot.term < 0 else terms[slot.term])[slot.name] = x
    if "dropout_first_head" in given:
        given["dropout_first_head"] += heads.start
    call = Call(scheme_of_heads(work.call.scheme, heads.start), {**given, "terms": terms})
    parts = [None if x is None else x[:, :, heads] for x in (saved.out, saved.lse, saved.out_gradient, saved.lse_gradient)]
    return Work(q, k, v, work.slots, tensors, call), Saved(*parts), chosen  # type: ignore[arg-type]


def _added(work: Work, wanted: list[bool], q_dtype: torch.dtype) -> list[Tensor | None]:
    """Zeros for the gradients of a call that is made in pieces."""
    dtypes = [q_dtype] + [torch.promote_types(x.dtype, torch.float32) for x in (work.k, work.v, *work.tensors)]
    tensors = (work.q, work.k, work.v, *work.tensors)
    return [torch.zeros(x.shape, dtype=dtype, device=x.device) if want else None for x, dtype, want in zip(tensors, dtypes, wanted)]


def as_one_device(work: Work, saved: Saved, wanted: list[bool], deterministic: bool, tasks: int) -> list[Tensor | None]:
    """The gradients of a call, cut as one of so many tasks (sequences times key heads) is."""
    packed = "query_starts" in work.call.tensors
    sequences = len(work.call.tensors["query_starts"]) - 1 if packed else work.q.shape[0]
    key_heads = work.k.shape[2]
    if not work.q.is_cpu or not sequences or _parts(sequences * key_heads) == _parts(tasks):
        return _kernel.backward(work, saved, wanted, deterministic, work.q.dtype)
    result = _added(work, wanted, work.q.dtype)
    if not packed:
        for row in range(sequences):
            one, part = _batch_row(work, saved, row)
            for sums, x, whole in zip(result, as_one_device(one, part, wanted, deterministic, tasks), (work.q, work.k, work.v, *work.tensors)):
                if sums is not None and x is not None:
                    (sums.narrow(0, row, 1) if whole.shape[0] > 1 else sums).add_(x)
        return result
    enough = _sequences(sequences, key_heads, tasks)
    if enough is not None:
        return _kernel.backward(_widened(work, enough), saved, wanted, deterministic, work.q.dtype)
    for head in range(key_heads):
        one, part, chosen = _one_key_head(work, saved, head)
        for sums, x, at in zip(result, as_one_device(one, part, wanted, deterministic, tasks), chosen):
            if sums is not None and x is not None:
                sums[:, :, at] += x
    return result
