# SPDX-License-Identifier: Apache-2.0
"""The operator of attention over caches, and the short way past the dispatcher for eager calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._attention import Call, core_tensors, plan_of
from phasor._attention.arrays import integer_list
from phasor._numbers import ungraded
from phasor._prepare.call import Lists
from phasor._torch import checks, private, sharding
from phasor._torch.attention.operators import dense_heads, nobody_looks, out_dtype_of, out_dtype_in, tensors_of, workspace_of
from phasor._torch.attention.place import list_beside_q, put_beside
from phasor._torch.attention.text import encoded, template
from phasor._torch.operators import LIBRARY

_WHERE = "cached_attention"

# `caches`, `numbers` and `reals` as phasor/_prepare/call.py writes them.
LIBRARY.define(
    "cached_attention(Tensor q, Tensor[] caches, SymInt[] numbers, float[] reals, SymInt value_width, Tensor lengths, Tensor? blocks,"
    " Tensor[] tensors, SymInt[] sizes, str spec) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides),
)


def _by_core(q: Tensor, caches: Any, width: int, pages: Any, plan: Any, tensors: dict[str, Any], out_dtype: str | None) -> tuple[Tensor, Tensor]:
    out = q.new_empty((*q.shape[:3], width), dtype=out_dtype_of(q, out_dtype))
    lse = q.new_empty((*q.shape[:3], 1), dtype=torch.float32)
    _core.cached_attention(dense_heads(q), caches, pages, plan, tensors, out, lse, workspace_of(q))
    return out, lse


def _cached_attention(
    q: Tensor,
    caches: list[Tensor],
    numbers: list[int],
    reals: list[float],
    value_width: int,
    lengths: Tensor,
    blocks: Tensor | None,
    tensors: list[Tensor],
    sizes: list[int],
    spec: str,
) -> tuple[Tensor, Tensor]:
    made = template(spec, tuple(sizes))
    pages = (integer_list(lengths, "lengths"), None if blocks is None else integer_list(blocks, "blocks"))
    held = ([x.detach() for x in caches], list(numbers), list(reals))
    return _by_core(q, held, value_width, pages, made.plan, core_tensors(made.filled(tensors)), made.out_dtype)


LIBRARY.impl(_WHERE, private.guarded(_cached_attention), "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::cached_attention", lib=LIBRARY)
def _(q: Tensor, caches: Any, numbers: Any, reals: Any, value_width: int, lengths: Any, blocks: Any, tensors: Any, sizes: Any, spec: str) -> Any:
    out = q.new_empty((*q.shape[:3], value_width), dtype=out_dtype_in(q, spec))
    return out, q.new_empty((*q.shape[:3], 1), dtype=torch.float32)


def cached_attention(q: Tensor, caches: Lists, width: int, lengths: Any, blocks: Any, call: Call) -> tuple[Tensor, Tensor]:
    """out and lse (B, T, H)."""
    sharding.refuse(_WHERE, (q, *caches.read, lengths, blocks, *tensors_of(call).values()))
    put_beside(call, q, q)
    given = tensors_of(call)
    ungraded(_WHERE, q, *caches.read, *given.values())
    lengths, blocks = (list_beside_q(x, name, q) for x, name in ((lengths, "lengths"), (blocks, "blocks")))
    named = {"q": q, "lengths": lengths, **dict(zip(caches.read_names, caches.read)), **given}
    checks.one_device(_WHERE, **named, **({} if blocks is None else {"blocks": blocks}))
    if nobody_looks((q, *caches.read, lengths, *(() if blocks is None else (blocks,))), call):
        held, pages = (caches.read, caches.numbers, caches.reals), (integer_list(lengths, "lengths"), None if blocks is None else integer_list(blocks, "blocks"))
        out, lse = _by_core(q, held, width, pages, plan_of(call.scheme), core_tensors(call.tensors), call.out_dtype)
    else:
        tensors, sizes, text = encoded(call)
        out, lse = torch.ops.phasor.cached_attention(q, caches.read, caches.numbers, caches.reals, width, lengths, blocks, tensors, sizes, text)
    return out, lse[..., 0]
