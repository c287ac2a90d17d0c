# SPDX-License-Identifier: Apache-2.0
"""One call of the core's attention on what a rank has at hand, and its gradient by an output and lse that may be those of more keys (the flash way)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._attention import Call, core_tensors, plan_of
from phasor._attention.arrays import workspace_beside
from phasor.distributed._slots import Slot

__all__ = ["Saved", "Work", "backward", "forward", "merged", "wide"]


@dataclass(eq=False)
class Work:
    """q, k, v and the rest of a call; its tensors in the order of its slots."""

    q: Tensor
    k: Tensor
    v: Tensor
    slots: list[Slot]
    tensors: list[Tensor]
    call: Call


def wide(x: Tensor) -> torch.dtype:
    """The type of arithmetic: parts are kept in it until the one rounding."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _dense(x: Tensor) -> Tensor:
    x = x.detach()
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def _tensors(work: Work) -> dict[str, Any]:
    """Terms are copied: the core's form of lists is put in their place."""
    given = work.call.tensors
    detached = {name: x.detach() if isinstance(x, Tensor) else x for name, x in given.items() if name != "terms"}
    return core_tensors({**detached, "terms": [{name: x.detach() for name, x in term.items()} for term in given["terms"]]})


def _workspace(q: Tensor) -> Any:
    return workspace_beside(q) if q.is_cuda else None


def forward(work: Work, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """out (B, T, H, Dv) of a dtype, q's or float32, and lse (B, T, H, 1)."""
    q, k, v = (_dense(x) for x in (work.q, work.k, work.v))
    out = q.new_empty((*q.shape[:3], v.shape[3]), dtype=dtype)
    lse = q.new_empty((*q.shape[:3], 1), dtype=wide(q))
    if not q.numel():
        return out, lse  # a rank without queries: the core would take its features, which are empty, for none
    _core.attention((q, k, v), plan_of(work.call.scheme), _tensors(work), out, lse, _workspace(q))
    return out, lse


def merged(total: tuple[Tensor, Tensor] | None, part: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """An output of `forward` taken into one over other keys, in the memory of that one, which is rounded to its type again; lse is in float64.

    Only the difference of the two lse matters. It is formed before it is rounded: where it is large it is off by more, but decides less.
    """
    if total is None:
        return part[0], part[1].to(torch.float64)
    (out, lse), (part_out, part_lse) = total, part
    if lse.numel():
        nothing = lse.isneginf()
        mine = torch.zeros_like(part_lse).masked_fill_(nothing, -math.inf)
        theirs = (part_lse - lse.masked_fill(nothing, 0.0)).to(part_lse.dtype)
        _core.merge_attention([(out, mine), (part_out, theirs)], out, None)
        torch.logaddexp(lse, part_lse.to(lse.dtype), out=lse)
    return out, lse


@dataclass(eq=False)
class Saved:
    """What the forward gave, and the gradients by it; lse and its gradient (B, T, H, 1)."""

    out: Tensor
    lse: Tensor
    out_gradient: Tensor
    lse_gradient: Tensor | None


def backward(work: Work, saved: Saved, wanted: list[bool], deterministic: bool, q_dtype: torch.dtype | None = None) -> list[Tensor | None]:
    """Gradients of q, k, v and of the tensors of slots, in the type of arithmetic; None where not wanted. That of q in q_dtype."""
    q, k, v = (_dense(x) for x in (work.q, work.k, work.v))
    dtypes = (q_dtype or wide(q), wide(q), wide(q))
    made: list[Tensor | None] = [x.new_empty(x.shape, dtype=dtype) if want else None for x, dtype, want in zip((q, k, v), dtypes, wanted)]
    terms: list[dict[str, Tensor]] = [{} for _ in work.call.tensors["terms"]]
    alone: dict[str, Tensor] = {}
    for slot, x, want in zip(work.slots, work.tensors, wanted[3:]):
        sums = x.new_zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32)) if want else None
        made.append(sums)
        if sums is not None:
            (alone if slot.term < 0 else terms[slot.term])[slot.name] = sums
    if not q.numel():
        return [None if x is None else x.zero_() for x in made]
    given = (_dense(saved.out), saved.lse.detach(), _dense(saved.out_gradient), saved.lse_gradient)
    targets = (*made[:3], alone.get("content_shift"), alone.get("sinks"))
    _core.attention_backward((q, k, v), plan_of(work.call.scheme), _tensors(work), given, targets, terms, _workspace(q), deterministic)
    return made
