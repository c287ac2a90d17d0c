# SPDX-License-Identifier: Apache-2.0
"""phasor.cached_attention: attention over keys and values where prepare_attention left them, in a cache of any layout, by pages or row by row."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from phasor import _core
from phasor._arrays import Array, is_torch, read, returned, torch_backend
from phasor._attention import AttentionOptions, call_of, core_tensors, plan_of
from phasor._attention.arrays import dense, integer_list, on_host_or_gpu, workspace_beside
from phasor._numbers import empty
from phasor._prepare.call import Cache, Lists, channels_of

__all__ = ["cached_attention"]

_WHERE = "cached_attention"


def _caches(k_cache: Any, v_cache: Any) -> Lists:
    lists = Lists(_WHERE)
    for cache, name in ((k_cache, "k_cache"), (v_cache, "v_cache")):
        if not isinstance(cache, Cache):
            raise TypeError(f"{_WHERE}: {name} is {type(cache).__name__}, wanted phasor.Cache(array)")
        lists.cache(cache, name, writes=False)
    return lists


def cached_attention(
    q: Array,
    k_cache: Cache,
    v_cache: Cache,
    lengths: Any,
    blocks: Any = None,
    scheme: Any = None,
    causal: bool = True,
    *,
    scale: float | None = None,
    return_lse: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """Attention of q (B, Tq, H, D) over the first lengths[b] keys of each sequence in a cache; query i is at position length - Tq + i.

    k_cache, v_cache: phasor.Cache, as prepare_attention fills them, scales included. blocks (B, pages): key j of sequence b is token j % page of block
    blocks[b, j // page]; without it, token j of block b. Ragged queries are (T, H, D) with cu_seqlens: where each sequence's queries begin.
    Drafts of up to 64 tokens are causal among themselves. scheme, scale, return_lse and options as of `attention` (a rotated cache:
    Rope(rope, keys_rotated=True)); masks and features by key have room for pages x page keys. On a GPU lengths and blocks are read there
    alone, so that a captured graph is right for others. Without gradients.

    >>> import numpy as np, phasor
    >>> pages = np.ones((3, 2, 1, 4), np.float32)  # 3 blocks of 2 tokens, 1 head
    >>> q = np.ones((1, 1, 2, 4), np.float32)
    >>> phasor.cached_attention(q, phasor.Cache(pages), phasor.Cache(pages), lengths=[3], blocks=[[2, 0]]).shape
    (1, 1, 2, 4)
    """
    added = q.ndim == 3
    if q.ndim not in (3, 4):
        raise ValueError(f"{_WHERE}: q has {q.ndim} axes, wanted (B, T, H, D), or (T, H, D) with cu_seqlens")
    q = q[None] if added else q
    if "cu_seqlens" in options:
        options["cu_seqlens"] = (options["cu_seqlens"], None)  # of keys the lengths say it
    call = call_of(q.shape[2], scheme, causal, scale, dict(options))
    caches, width = _caches(k_cache, v_cache), channels_of(v_cache)
    if is_torch(q):
        out, lse = torch_backend().cached_attention(q, caches, width, lengths, blocks, call)
    else:
        given, q = q, dense(on_host_or_gpu(q))
        out = empty((*q.shape[:3], width), call.out_dtype or q.dtype, q)
        lse = empty((*q.shape[:3], 1), np.float32, q)
        tensors = core_tensors(call.tensors)
        pages = (integer_list(lengths, f"{_WHERE}: lengths"), None if blocks is None else integer_list(blocks, f"{_WHERE}: blocks"))
        _core.cached_attention(q, (caches.read, caches.numbers, caches.reals), pages, plan_of(call.scheme), tensors, out, lse, workspace_beside(q))
        read(q, *caches.read, *pages, *(x for term in (tensors, *tensors["terms"]) for x in term.values()))
        out, lse = returned(given, out), returned(given, lse[..., 0])
    if added:
        out, lse = out[0], lse[0]
    return (out, lse) if return_lse else out
