# SPDX-License-Identifier: Apache-2.0
"""phasor.cached_attention: bit for bit phasor.attention over the same keys side by side, in every layout; numbers of 8 bits; compiled; mistakes by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import phasor

B, H, HK, D, PAGE, KEYS = 3, 4, 2, 8, 5, 17
PAGES = -(-KEYS // PAGE)
LENGTHS = [KEYS, 1, 11]
ROPE = phasor.Rotary(D)


def contents(queries: int = 2, dtype: torch.dtype = torch.float32, value_width: int = D):
    generator = torch.Generator().manual_seed(1)
    make = lambda *shape: torch.randn(*shape, generator=generator).to(dtype)  # noqa: E731
    return make(B, queries, H, D), make(B, KEYS, HK, D), make(B, KEYS, HK, value_width)


def block_table() -> torch.Tensor:
    """Pages in an order of their own; block 0 is nobody's."""
    return torch.randperm(B * PAGES, generator=torch.Generator().manual_seed(2)).reshape(B, PAGES).int() + 1


def slots_of(table: torch.Tensor) -> torch.Tensor:
    places = torch.arange(KEYS)
    return (table[:, places // PAGE].long() * PAGE + places % PAGE).reshape(-1)


def empty_cache(layout: str, width: int, dtype: torch.dtype) -> phasor.Cache:
    """Full of NaN (where the dtype has one), so that what nobody wrote shows."""
    blocks = B * PAGES + 1
    if layout == "flash":
        return phasor.Cache(torch.full((blocks, PAGE, HK, width), float("nan")).to(dtype))
    if layout == "hnd":
        return phasor.Cache(torch.full((blocks, HK, PAGE, width), float("nan")).to(dtype), "block head token inner")
    return phasor.Cache(torch.full((blocks, HK, width // 4, PAGE, 4), float("nan")).to(dtype), "block head outer token inner")


def filled(k, v, layout="flash", dtype=torch.float32, scales=None):
    table = block_table()
    caches = [phasor.Cache(c.array, c.axes, scales=scales) for c in (empty_cache(layout, x.shape[-1], dtype) for x in (k, v))]
    phasor.prepare_attention(k=k.flatten(0, 1), v=v.flatten(0, 1), k_cache=caches[0], v_cache=caches[1], slots=slots_of(table))
    return *caches, table


SCHEMES = {
    "plain": (None, {}),
    "alibi": (phasor.Alibi(heads=H), {"softcap": 3.0}),
    "window": (None, {"window": 4, "sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])}),
    "rotated": (phasor.Rope(ROPE, keys_rotated=True), {}),
    "inside": (phasor.Rope(ROPE), {}),
}


@pytest.mark.parametrize("layout", ["flash", "hnd", "outer"])
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_is_attention_over_the_same_keys(name, layout, dtype):
    scheme, options = SCHEMES[name]
    q, k, v = contents(dtype=dtype, value_width=12)
    k_cache, v_cache, table = filled(k, v, layout, dtype)
    out, lse = phasor.cached_attention(q, k_cache, v_cache, LENGTHS, table, scheme, return_lse=True, **options)
    for b, length in enumerate(LENGTHS):
        at = slice(b, b + 1)
        wanted, wanted_lse = phasor.attention(q[at], k[at, :length], v[at, :length], scheme, True, return_lse=True, **options)
        assert torch.equal(out[at], wanted)
        assert torch.equal(lse[at], wanted_lse)


@pytest.mark.parametrize("name", ["plain", "alibi"])
def test_arrays_of_numpy_without_pages(name):
    scheme, options = SCHEMES[name]
    q, k, v = (x.numpy() for x in contents())
    caches = phasor.Cache(k), phasor.Cache(v)
    out = phasor.cached_attention(q, *caches, LENGTHS, scheme=scheme, **options)
    for b, length in enumerate(LENGTHS):
        wanted = phasor.attention(q[b : b + 1], k[b : b + 1, :length], v[b : b + 1, :length], scheme, True, **options)
        np.testing.assert_array_equal(out[b : b + 1], wanted)


def test_a_cache_may_be_memory_that_nobody_may_write():
    q, k, v = (x.numpy() for x in contents())
    wanted = phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), LENGTHS)
    for x in (k, v):
        x.flags.writeable = False
    np.testing.assert_array_equal(phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), LENGTHS), wanted)


def test_ragged_queries_are_the_same_calls():
    _, k, v = contents()
    counts = [3, 1, 5]
    q = torch.randn(sum(counts), H, D, generator=torch.Generator().manual_seed(3))
    k_cache, v_cache, table = filled(k, v)
    starts = torch.tensor([0, 3, 4, 9])
    out, lse = phasor.cached_attention(q, k_cache, v_cache, LENGTHS, table, phasor.Alibi(heads=H), cu_seqlens=starts, return_lse=True)
    assert lse.shape == (sum(counts), H)
    for b, length in enumerate(LENGTHS):
        rows = slice(int(starts[b]), int(starts[b + 1]))
        wanted = phasor.attention(q[rows][None], k[b : b + 1, :length], v[b : b + 1, :length], phasor.Alibi(heads=H), True)
        assert torch.equal(out[rows], wanted[0])


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bits_are_what_they_stand_for(dtype):
    q, k, v = contents(dtype=torch.bfloat16)
    scales = phasor.CacheScales(value=0.25)
    k_cache, v_cache, table = filled(k, v, dtype=dtype, scales=scales)
    out = phasor.cached_attention(q.float(), k_cache, v_cache, LENGTHS, table)
    stored = [(x.float() / 0.25).to(dtype).float() * 0.25 for x in (k, v)]
    for b, length in enumerate(LENGTHS):
        wanted = phasor.attention(q[b : b + 1].float(), *(x[b : b + 1, :length] for x in stored), causal=True)
        assert torch.equal(out[b : b + 1], wanted)


def test_a_length_of_zero_sees_nothing():
    q, k, v = contents()
    out, lse = phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), [0, 0, 0], return_lse=True)
    assert not out.any() and torch.isneginf(lse).all()


@pytest.mark.parametrize("name", ["plain", "alibi", "window", "rotated"])
def test_compiled_in_one_graph(name):
    scheme, options = SCHEMES[name]
    q, k, v = contents()
    k_cache, v_cache, table = filled(k, v)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)

    def attend(q, keys, values, lengths, table):
        return phasor.cached_attention(q, phasor.Cache(keys), phasor.Cache(values), lengths, table, scheme, **options)

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    given = (q, k_cache.array, v_cache.array, lengths, table)
    assert torch.equal(compiled(*given), attend(*given))


def test_the_operator_passes_opcheck():
    from phasor._attention import call_of
    from phasor._attention.cached import _caches
    from phasor._torch.attention.text import encoded

    q, k, v = contents()
    k_cache, v_cache, table = filled(k, v)
    lists = _caches(k_cache, v_cache)
    tensors, sizes, text = encoded(call_of(H, phasor.Alibi(heads=H), True, None, {}))
    lengths = torch.tensor(LENGTHS)
    given = (q, lists.read, lists.numbers, lists.reals, D, lengths, table, tensors, sizes, text)
    torch.library.opcheck(torch.ops.phasor.cached_attention.default, given)


BAD = {
    "an array for a cache": (lambda q, k, v: phasor.cached_attention(q, k, phasor.Cache(v), LENGTHS), TypeError, r"k_cache is Tensor, wanted phasor.Cache"),
    "axes of q": (lambda q, k, v: phasor.cached_attention(q[0, 0], phasor.Cache(k), phasor.Cache(v), LENGTHS), ValueError, r"q has 2 axes"),
    "too long": (lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), [KEYS + 1, 1, 1]), ValueError, r"length"),
    "negative": (lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), [-1, 1, 1]), ValueError, r"length"),
    "lengths that are no integers": (lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), [1.5, 1, 1]), TypeError, r"lengths"),
    "a block that is not there": (
        lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), [1, 1, 1], [[9], [0], [1]]), ValueError, r"block",
    ),
    "an axis": (lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k, "block token head"), phasor.Cache(v), LENGTHS), ValueError, r"^cached_attention: k_cache has axes"),
    "an option": (lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), LENGTHS, dropuot=0.1), TypeError, r"has no option 'dropuot'"),
    "a mask": (
        lambda q, k, v: phasor.cached_attention(q, phasor.Cache(k), phasor.Cache(v), LENGTHS, key_mask=torch.ones(B, 3, dtype=torch.bool)),
        ValueError,
        r"^cached_attention: key_mask has shape \(3, 3\), wanted \(3, 17\)",
    ),
    "a gradient": (
        lambda q, k, v: phasor.cached_attention(q.requires_grad_(), phasor.Cache(k), phasor.Cache(v), LENGTHS), ValueError, r"requires a gradient",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_mistakes_are_named(what):
    call, kind, words = BAD[what]
    with pytest.raises(kind, match=words):
        call(*contents())
