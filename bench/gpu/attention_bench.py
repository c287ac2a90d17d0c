# SPDX-License-Identifier: Apache-2.0
"""Attention forward on Hopper beside PyTorch's cuDNN and flash backends: B 4, H 32, n 4096, bf16, all in one run.

  attention_bench.py LIBRARY JSON [ROUNDS]

LIBRARY exports hopper_forward (tests/cuda/hopper_ours.cu). Each of ours is held against float32 before anything is timed. Variants are timed by turns,
so that a chip that grows warm slows all of them alike; the median of all turns counts. Ratios: `cudnn` is cuDNN's time over ours (more is better),
`plain` ours over our own without a bias (less is better).
"""

from __future__ import annotations

import ctypes
import json
import math
import statistics
import sys
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BATCH, HEADS, TOKENS, CLIP = 4, 32, 4096, 91
POINTERS = ("q", "k", "v", "out", "lse")
SIZES = ("batch", "heads", "key_heads", "tokens", "width", "causal")
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class HopperCall(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in POINTERS), *((name, ctypes.c_int64) for name in SIZES), ("scale", ctypes.c_double),
        ("diagonal", ctypes.c_void_p), ("first_distance", ctypes.c_int64), ("distances", ctypes.c_int64), ("workspace", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]  # fmt: skip


def t5(heads: int, tokens: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """Constant beyond CLIP, so given between."""
    del tokens
    return torch.randn(heads, 2 * CLIP + 1, device="cuda", generator=generator), -CLIP


def unclipped(heads: int, tokens: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    return torch.randn(heads, 2 * tokens - 1, device="cuda", generator=generator), 1 - tokens


BIASES = {"plain": None, "t5": t5, "unclipped": unclipped}


class Ours:
    def __init__(self, library: ctypes.CDLL, tensors: list[torch.Tensor], causal: bool, bias: tuple[torch.Tensor, int] | None) -> None:
        q, k, v = tensors
        batch, heads, tokens, width = q.shape
        self.out, self.lse = torch.full_like(q, math.nan), torch.full((batch, heads, tokens), math.nan, device="cuda")
        values, first = bias if bias is not None else (None, 0)
        self.library, self.kept, self.causal, self.bias = library, [*tensors, values], causal, bias
        self.call_ = HopperCall(
            **{name: x.data_ptr() for name, x in zip(POINTERS, (q, k, v, self.out, self.lse), strict=True)},
            batch=batch, heads=heads, key_heads=k.shape[1], tokens=tokens, width=width, causal=int(causal), scale=width**-0.5,
            diagonal=None if values is None else values.data_ptr(), first_distance=first, distances=0 if values is None else values.shape[1],
        )  # fmt: skip
        library.hopper_workspace_bytes.restype = ctypes.c_int64
        self.workspace = torch.empty(library.hopper_workspace_bytes(ctypes.byref(self.call_)), dtype=torch.uint8, device="cuda")
        self.call_.workspace = self.workspace.data_ptr()

    def __call__(self) -> None:
        self.call_.stream = torch.cuda.current_stream().cuda_stream
        if self.library.hopper_forward(ctypes.byref(self.call_)) != 0:
            raise SystemExit("attention_bench: refused")

    def error(self) -> float:
        """Of the output, relative, against float32; of some heads, since their scores are written out."""
        self()
        q, k, v = (x[:1, :2].float() for x in self.kept[:3])
        tokens = q.shape[2]
        scores = q @ k.transpose(-1, -2) * self.call_.scale
        distance = torch.arange(tokens, device="cuda")[:, None] - torch.arange(tokens, device="cuda")[None]
        if self.bias is not None:
            values, first = self.bias
            scores += values[:2][:, (distance - first).clamp(0, values.shape[1] - 1)]
        if self.causal:
            scores.masked_fill_(distance < 0, -math.inf)
        want, out = scores.softmax(-1) @ v, self.out[:1, :2].float()
        off = (self.lse[:1, :2] - scores.logsumexp(-1)).abs().max().item()
        return max(((out - want).norm() / want.norm()).item(), off) if out.isfinite().all() and self.out.isfinite().all() else math.inf


def times_by_turns(jobs: list[Callable[[], object]], rounds: int, calls: int = 3) -> list[float]:
    """Milliseconds of a call, each."""
    times: list[list[float]] = [[] for _ in jobs]
    for turn in range(rounds + 1):
        for job, list_ in zip(jobs, times, strict=True):
            job()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(calls):
                job()
            end.record()
            end.synchronize()
            if turn > 0:
                list_.append(begin.elapsed_time(end) / calls)
    return [statistics.median(list_) for list_ in times]


def sdpa(backend: SDPBackend, tensors: list[torch.Tensor], causal: bool) -> Callable[[], object]:
    def call() -> None:
        with sdpa_kernel(backend):
            scaled_dot_product_attention(*tensors, is_causal=causal)

    return call


def of_width(library: ctypes.CDLL, width: int, causal: bool, rounds: int) -> list[dict[str, object]]:
    generator = torch.Generator("cuda").manual_seed(1)
    tensors = [torch.randn(BATCH, HEADS, TOKENS, width, device="cuda", generator=generator).bfloat16() for _ in range(3)]
    names, jobs = list(BACKENDS), [sdpa(backend, tensors, causal) for backend in BACKENDS.values()]
    for name, bias in BIASES.items():
        ours = Ours(library, tensors, causal, None if bias is None else bias(HEADS, TOKENS, generator))
        error = ours.error()
        if not error < 6e-3:
            raise SystemExit(f"attention_bench: D {width} causal {causal} {name}: off by {error:.1e}")
        names.append(name)
        jobs.append(ours)
    milliseconds = dict(zip(names, times_by_turns(jobs, rounds), strict=True))
    flops = 4.0 * BATCH * HEADS * TOKENS * TOKENS * width / (2 if causal else 1)
    rows = [
        {"width": width, "causal": causal, "name": name, "ms": ms, "tflops": flops / ms / 1e9, "cudnn": milliseconds["cudnn"] / ms, "plain": ms / milliseconds["plain"]}
        for name, ms in milliseconds.items()
    ]
    for row in rows:
        print(f"D{width} {'causal' if causal else 'full  '} {row['name']:9} {row['ms']:7.3f} ms {row['tflops']:5.0f} TFLOP/s  cudnn {row['cudnn']:.3f}  plain {row['plain']:.3f}", flush=True)
    return rows


def main() -> None:
    library, path = ctypes.CDLL(sys.argv[1]), sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    rows = [row for width in (128, 64) for causal in (False, True) for row in of_width(library, width, causal, rounds)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"device": torch.cuda.get_device_name(), "batch": BATCH, "heads": HEADS, "tokens": TOKENS, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
