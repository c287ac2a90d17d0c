# SPDX-License-Identifier: Apache-2.0
"""phasor.cached_attention on a GPU: against attention in float64 over the same keys, few queries and many, 8 bits, and graphs replayed with other lengths."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor
from attention_cases import UNIT
from cases import DEVICE, needs_gpu, numbers, raises, same_bits

B, H, HK, D, PAGE, KEYS = 3, 8, 2, 64, 16, 700  # more than a split of keys
PAGES = -(-KEYS // PAGE)
LENGTHS = (KEYS, 1, 333)
ROPE = phasor.Rotary(D)
SCHEMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (None, {}),
    "bias": (phasor.Alibi(heads=H), {}),
    "sandwich": (phasor.Sandwich(heads=H), {}),  # its sums are made once for all heads
    "window": (None, {"window": 100, "softcap": 5.0}),
    "rotated": (phasor.Rope(ROPE, keys_rotated=True), {}),
    "unrotated": (phasor.Rope(ROPE), {}),  # gathered
    "shaw": (lambda put: phasor.Shaw(put(numbers(H, 33, D, seed=4) / 4)), {}),
    "transformer-xl": (lambda put: phasor.TransformerXL(put(numbers(KEYS + 90, H, D, seed=5) / 4), KEYS - 1, *(put(numbers(H, D, seed=n) / 2) for n in (6, 7))), {}),
    "shaw with values": (lambda put: phasor.Shaw(*(put(numbers(H, 33, D, seed=n) / 4) for n in (4, 8))), {}),  # gathered
}


def settled(scheme: Any, dtype: torch.dtype, device: str, wide: bool = False) -> Any:
    """A scheme with tables is made of them: rounded to a dtype, and there."""
    put = lambda x: x.to(dtype).to(torch.float64 if wide else dtype).to(device)  # noqa: E731
    return scheme(put) if callable(scheme) else scheme


class Paged:
    """Keys and values in pages of an order of their own, and side by side."""

    def __init__(self, dtype: torch.dtype, storage: torch.dtype | None = None, scale: float | None = None) -> None:
        self.k, self.v = (numbers(B, KEYS, HK, D, seed=n).to(dtype) for n in (1, 2))
        self.table = (torch.randperm(B * PAGES, generator=torch.Generator().manual_seed(3)).reshape(B, PAGES) + 1).int()
        places = torch.arange(KEYS)
        slots = (self.table[:, places // PAGE].long() * PAGE + places % PAGE).reshape(-1)
        scales = None if scale is None else phasor.CacheScales(value=scale)
        self.caches = [phasor.Cache(torch.zeros(B * PAGES + 1, PAGE, HK, D, device=DEVICE).to(storage or dtype), scales=scales) for _ in "kv"]
        k, v = (x.flatten(0, 1).to(DEVICE) for x in (self.k, self.v))
        phasor.prepare_attention(k=k, v=v, k_cache=self.caches[0], v_cache=self.caches[1], slots=slots.to(DEVICE))
        if storage is not None and scale is not None:
            self.k, self.v = ((x.float() / scale).to(storage).float() * scale for x in (self.k, self.v))
        self.table = self.table.to(DEVICE)

    def attend(self, q: Tensor, lengths: Any, scheme: Any, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
        lengths = torch.as_tensor(lengths, dtype=torch.int32, device=DEVICE)
        scheme = settled(scheme, q.dtype, DEVICE)
        return phasor.cached_attention(q, *self.caches, lengths, self.table, scheme, return_lse=True, **options)

    def hold(self, q: Tensor, got: tuple[Tensor, Tensor], lengths: tuple[int, ...], scheme: Any, options: dict[str, Any]) -> None:
        """Weights and results are rounded to the dtype once each: 2 u of the largest value. What is rotated is rounded as by the rotary before."""
        u = UNIT[q.dtype]
        for b, length in enumerate(lengths):
            at = slice(b, b + 1)
            given, of = [q[at].cpu(), self.k[at, :length], self.v[at, :length]], scheme
            if isinstance(scheme, phasor.Rope):
                given[0], of = scheme.rotary(given[0], positions=length - q.shape[1]), None
                if not scheme.keys_rotated:
                    given[1] = scheme.rotary(given[1], positions=0)
            exact = [x.double() for x in given]
            wanted, lse = phasor.attention(*exact, settled(of, q.dtype, "cpu", wide=True), True, return_lse=True, **options)
            apart = (got[0][at].cpu().double() - wanted).abs().max().item() if length else 0.0
            assert apart <= 6 * u * 5, f"{scheme}, {options}, length {length}: out is {apart} off"
            assert (got[1][at].cpu().double() - lse).abs().nan_to_num(0.0).max().item() <= 2e-4, f"{scheme}, length {length}: lse"


def test_few_and_many_queries_by_pages() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        pages = Paged(dtype)
        for tokens in (1, 4, 90):
            q = numbers(B, tokens, H, D, seed=9).to(dtype).to(DEVICE)
            for scheme, options in SCHEMES.values():
                pages.hold(q, pages.attend(q, LENGTHS, scheme, options), LENGTHS, scheme, options)


def test_eight_bits() -> None:
    for storage in (torch.float8_e4m3fn, torch.float8_e5m2):
        pages = Paged(torch.bfloat16, storage, 0.5)
        q = numbers(B, 1, H, D, seed=9).bfloat16().to(DEVICE)
        pages.hold(q, pages.attend(q, LENGTHS, None, {}), LENGTHS, None, {})


def test_ragged_queries() -> None:
    pages = Paged(torch.bfloat16)
    starts, counts = torch.tensor([0, 3, 4, 9], device=DEVICE), (3, 1, 5)
    q = numbers(9, H, D, seed=9).bfloat16().to(DEVICE)
    lengths = torch.tensor(LENGTHS, device=DEVICE)
    out = phasor.cached_attention(q, *pages.caches, lengths, pages.table, phasor.Alibi(heads=H), cu_seqlens=starts)
    for b, count in enumerate(counts):
        rows = q[int(starts[b]) : int(starts[b]) + count][None]
        exact = [x.double() for x in (rows.cpu(), pages.k[b : b + 1, : LENGTHS[b]], pages.v[b : b + 1, : LENGTHS[b]])]
        wanted = phasor.attention(*exact, phasor.Alibi(heads=H), True)
        assert (out[int(starts[b]) : int(starts[b]) + count].cpu().double() - wanted[0]).abs().max() <= 30 * UNIT[torch.bfloat16]


def test_a_graph_is_right_for_other_lengths() -> None:
    needs_gpu()
    pages = Paged(torch.bfloat16)
    q = numbers(B, 1, H, D, seed=9).bfloat16().to(DEVICE)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=DEVICE)
    for given, options in SCHEMES.values():
        scheme = settled(given, q.dtype, DEVICE)
        call = lambda: phasor.cached_attention(q, *pages.caches, lengths, pages.table, scheme, **options)  # noqa: B023, E731
        call()  # what is kept on the device is copied by the first
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = call()
        for others in ((1, 699, 16), (5, 17, 512), LENGTHS):
            lengths.copy_(torch.tensor(others, dtype=torch.int32))
            graph.replay()
            assert same_bits(out, call()), f"{scheme}: {others}"


def test_compiled_and_refused() -> None:
    pages = Paged(torch.bfloat16)
    q = numbers(B, 2, H, D, seed=9).bfloat16().to(DEVICE)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=DEVICE)

    def attend(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, table: Tensor) -> Tensor:
        return phasor.cached_attention(q, phasor.Cache(keys), phasor.Cache(values), lengths, table, phasor.Alibi(heads=H))

    given = (q, *(cache.array for cache in pages.caches), lengths, pages.table)
    assert same_bits(torch.compile(attend, fullgraph=True)(*given), attend(*given))
    if DEVICE == "cuda":
        with raises(ValueError, "wanted one device"):
            attend(q, given[1].cpu(), given[2], lengths, pages.table)
