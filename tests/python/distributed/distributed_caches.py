# SPDX-License-Identifier: Apache-2.0
"""What ranks are asked to do of caches by the tests: decode over one that lies on the ranks, against one device."""

from __future__ import annotations

from typing import Any

import torch

import phasor
import phasor.distributed as pd
from distributed_cases import FAR
from distributed_schemes import ALL, Numbers, Shape


def caches(group: Any, scheme: str, drafts: int, block: int) -> None:
    """A cache in interleaved blocks, in any order, and all of it on one rank, against one device; ranks that hold nothing."""
    s = Shape(batch=2, queries=drafts, keys=23)
    numbers = Numbers(s)
    q = torch.randn(2, drafts, s.heads, s.width, dtype=s.dtype)
    k, v = (torch.randn(2, s.keys, s.key_heads, s.width, dtype=s.dtype) for _ in range(2))
    sinks = torch.randn(s.heads, dtype=s.dtype)
    at = torch.arange(s.keys)
    held = [at // block % group.size() == group.rank(), torch.randperm(s.keys) % group.size() == group.rank(), at * 0 == group.rank()]
    queries = torch.arange(FAR + s.keys - drafts, FAR + s.keys)
    made = ALL[scheme](numbers, lambda x, axis, side: x)
    one = phasor.attention(q, k, v, made, True, query_positions=queries, key_positions=FAR + at, sinks=sinks, return_lse=True)
    for own in held:
        tokens = own.nonzero()[:, 0].flip(0)  # any order
        given = {"query_positions": queries, "key_positions": FAR + tokens, "sinks": sinks, "return_lse": True}
        out, lse = pd.decode(q, k[:, tokens], v[:, tokens], made, mesh=group, **given)
        bound = 2.0**-52 * (s.keys + s.width + group.size() + 16) * (1 + float(k.abs().max())) * (1 + float(q.abs().max())) * (1 + float(v.abs().max())) * s.width
        assert bound < 1e-10
        assert (out - one[0]).abs().max() <= bound and (lse - one[1]).abs().max() <= bound
        gathered = pd.unshard(out.detach()[None], group, 0, "contiguous")
        assert all(torch.equal(x, out) for x in gathered), "ranks have different bits"
    expected = at[held[0]]
    assert torch.equal(pd.interleaved(len(expected), group, block), expected)


def paged_caches(group: Any, storage: torch.dtype) -> None:
    """Pages of phasor.Cache, lengths of each rank; one rank's sequence may be empty."""
    batch, heads, key_heads, width, page, block = 2, 4, 2, 16, 4, 2
    lengths = [13, 1]
    q = torch.randn(batch, 1, heads, width).to(storage)
    k, v = (torch.randn(batch, max(lengths), key_heads, width).to(storage) for _ in range(2))
    places = pd.interleaved(2 * page, group, block)  # of this rank's two pages a sequence
    pages = torch.zeros(2, 2 * batch, page, key_heads, width, dtype=storage)  # of keys and of values
    filled = [int((places < n).sum()) for n in lengths]
    blocks = torch.tensor([[2, 0], [1, 3]])
    for row in range(batch):
        for place in range(filled[row]):
            for cache, x in zip(pages, (k, v)):
                cache[blocks[row, place // page], place % page] = x[row, places[place]]
    at = torch.tensor(lengths)[:, None] - 1
    out = pd.decode(
        q, phasor.Cache(pages[0]), phasor.Cache(pages[1]), phasor.Alibi(), mesh=group,
        lengths=filled, blocks=blocks, query_positions=at, key_positions=places,
    )  # fmt: skip
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    one = phasor.attention(q.double(), k.double(), v.double(), phasor.Alibi(), True, query_positions=at, key_positions=torch.arange(13), key_mask=mask)
    rounding = {torch.float32: 0.0, torch.bfloat16: 2.0**-8}[storage]  # half a unit in the last of 8 bits: parts are float32 and rounded once
    apart = (out.double() - one).abs() - rounding * one.abs()
    assert out.dtype == storage and apart.max() <= 2.0**-24 * (2 * width * 40 + 13 + group.size() + 16) * float(v.double().abs().max())
