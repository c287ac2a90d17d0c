# SPDX-License-Identifier: Apache-2.0
"""One call of the core's attention on what a rank has at hand, and its gradient by an output and lse that may be those of more keys (the flash way)."""

from __future__ import annotations

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
    """Two outputs of `forward` over disjoint keys made one, in the memory of the first: rounded to its type once more."""
    if total is None:
        return part
    if total[1].numel():
        _core.merge_attention([total, part], *total)
    return total


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
