# SPDX-License-Identifier: Apache-2.0
"""What a call costs the host, and what a captured graph of it takes on the GPU: printed, and in the JSON. A direct call in place has a target."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import phasor
from cases import moved, needs_gpu, numbers

FIGURES: dict[str, float] = {}  # name: microseconds
TARGETS = {"host, in place, positions on the GPU": 6.0}  # microseconds; where it is missed the table says so


def host_us(call: Callable[[], Any], calls: int = 300, rounds: int = 15) -> float:
    """Microseconds of host time, the least of some rounds; the GPU is waited for between them, so that its queue is never full."""
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begin) / calls)
    torch.cuda.synchronize()
    return best * 1e6


def graph_us(call: Callable[[], Any], repeats: int = 200) -> float:
    """Microseconds of one call in a graph of many."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    graph.replay()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    best = float("inf")
    for _ in range(10):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1000 / repeats)
    return best


def test_one_token() -> None:
    needs_gpu()
    rope = phasor.Rotary(head_dim=128, base=5e5)
    none, few, no_position = *(torch.empty(1, 0, heads, 128, device="cuda") for heads in (32, 8)), torch.empty(0, dtype=torch.int64, device="cuda")
    q, k, at = moved(numbers(1, 1, 32, 128, dtype=torch.bfloat16), numbers(1, 1, 8, 128, dtype=torch.bfloat16), torch.tensor([7000]))
    cos, sin = (x.to(torch.bfloat16) for x in rope.cos_sin(at))
    with torch.no_grad():
        FIGURES["host, in place, positions on the GPU"] = host_us(lambda: rope.apply_(q, k, at))
        FIGURES["host, in place, offset"] = host_us(lambda: rope.apply_(q, k, 7000))
        FIGURES["host, in place without a launch (no tokens)"] = host_us(lambda: rope.apply_(none, few, no_position))
        FIGURES["host, into new tensors"] = host_us(lambda: rope(q, k, at))
        FIGURES["host, by tables in place"] = host_us(lambda: phasor.apply_rotary_(q, k, cos, sin))
        FIGURES["host, an empty kernel of PyTorch (q.neg_)"] = host_us(lambda: q.neg_())
        with torch.inference_mode():
            FIGURES["host, in place, positions on the GPU, inference mode"] = host_us(lambda: rope.apply_(q, k, at))
        FIGURES["graph, in place, positions on the GPU"] = graph_us(lambda: rope.apply_(q, k, at))
        FIGURES["graph, q.neg_"] = graph_us(lambda: q.neg_())


def test_one_token_made_ready() -> None:
    needs_gpu()
    rope = phasor.Rotary(head_dim=128, base=5e5)
    q, k, v = moved(*(numbers(1, heads, 128, dtype=torch.bfloat16, seed=heads) for heads in (32, 8, 8)))
    kv, at, slots = torch.zeros(2, 64, 16, 8, 128, dtype=torch.bfloat16, device="cuda"), *moved(torch.tensor([7000]), torch.tensor([77]))
    norm = phasor.HeadNorm(weight=moved(numbers(128, dtype=torch.bfloat16))[0], cast="before_weight")
    caches = {"k_cache": phasor.Cache(kv[0]), "v_cache": phasor.Cache(kv[1])}
    call = {"rotary": rope, "positions": at, "q_norm": norm, "k_norm": norm, "slots": slots, **caches}
    with torch.no_grad():
        FIGURES["host, prepare_attention to a cache"] = host_us(lambda: phasor.prepare_attention(q, k, v, q_out=q, **call))
        FIGURES["graph, prepare_attention to a cache"] = graph_us(lambda: phasor.prepare_attention(q, k, v, q_out=q, **call))
