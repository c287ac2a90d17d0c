# SPDX-License-Identifier: Apache-2.0
"""Memory of attention over a long sequence, forward and backward: at the peak, beyond what was there before (q, k, v and what a scheme learns).

One group of heads: 4 of queries and 1 of keys, 128 channels, bf16, causal. Scores written out once in bf16 would be 4 x tokens x tokens x 2 bytes, 34 GB
of 65536 tokens. Memory that grows with tokens four times from one length to the next is O(n); a scheme with more than twice that is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

import phasor
from schemes.rows import Figure, Row
from schemes.timing import gave_up, words_of

T = TypeVar("T")
HEADS, KEY_HEADS, WIDTH = 4, 1, 128
SCHEMES: dict[str, Callable[[], nn.Module | None]] = {
    "plain": lambda: None,
    "alibi": lambda: phasor.nn.AlibiScheme(HEADS),
    "t5": lambda: phasor.nn.T5Scheme(HEADS, bidirectional=False),
    "kerple": lambda: phasor.nn.KerpleScheme(HEADS),
    "shaw": lambda: phasor.nn.ShawScheme(WIDTH, 64, 64, values=False),
    "shaw values": lambda: phasor.nn.ShawScheme(WIDTH, 64, 64),
    "transformer-xl": lambda: phasor.nn.TransformerXLScheme(HEADS, WIDTH, 512),
    "deberta": lambda: phasor.nn.DebertaScheme(HEADS, WIDTH, buckets=256, max_distance=512, width=512),
}


@dataclass(frozen=True)
class Peaks:
    """Bytes beyond those of the inputs, and seconds, of a call and of its gradients."""

    name: str
    tokens: int
    forward: int
    forward_seconds: float
    backward: int
    backward_seconds: float


def peaks(name: str, tokens: int, device: str = "cuda") -> Peaks:
    """device: the CPU, whose memory PyTorch does not count, rehearses the calls."""
    torch.manual_seed(1)
    make = SCHEMES[name]()
    scheme = None if make is None else make.to(device)
    q = torch.randn(1, tokens, HEADS, WIDTH, device=device, dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(1, tokens, KEY_HEADS, WIDTH, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    with torch.autocast(device, torch.bfloat16):  # tables are multiplied as q is
        out, forward, forward_seconds = measured(
            lambda: phasor.attention(q, k, v, None if scheme is None else scheme(tokens, tokens), causal=True, scale=getattr(scheme, "scale", None)), before, device
        )
    gradient = torch.ones_like(out)
    _, backward, backward_seconds = measured(lambda: out.backward(gradient), before, device)
    if not all(bool(x.grad is not None and x.grad.isfinite().all()) for x in (q, k, v)):
        raise RuntimeError(f"{name} of {tokens} tokens: a gradient is missing or not finite")
    return Peaks(name, tokens, forward, forward_seconds, backward, backward_seconds)


def measured(call: Callable[[], T], before: int, device: str) -> tuple[T, int, float]:
    """What it gives, bytes at the peak beyond those of before, and seconds."""
    if device != "cuda":
        begin = time.perf_counter()
        return call(), 0, time.perf_counter() - begin
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return result, torch.cuda.max_memory_allocated() - before, seconds


def growth(short: int, long: int, tokens: float) -> float:
    """How much faster memory grew than the tokens; 0 of what PyTorch does not count."""
    return long / short / tokens if short else 0.0


def memory(name: str, lengths: tuple[int, int], device: str) -> list[Row]:
    """One row: peaks at the second length, and whether they are O(n)."""
    row = Row("memory", f"{name}, {lengths[1]} tokens, {HEADS} heads on {KEY_HEADS} key head")
    try:
        short, long = (peaks(name, tokens, device) for tokens in lengths)
    except RuntimeError as why:
        if gave_up(why):
            raise
        row.error = words_of(why)
        return [row]
    row.ms = 1e3 * long.forward_seconds
    for what in ("forward", "backward"):
        least, most = getattr(short, what), getattr(long, what)
        row.figures.append(Figure(f"{what} MiB", most / 2**20))
        row.figures.append(Figure("growth over that of tokens", growth(least, most, lengths[1] / lengths[0]), 2.0))
    return [row]
