# SPDX-License-Identifier: Apache-2.0
"""Decoding of one token a sequence over pages, through phasor.cached_attention, beside a copy of as many bytes: everything that a call launches is in
its time (values by distance, rotations), unlike in tests/cuda/attention/decode_bench.cu, which times the kernel alone and whose figures join the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import phasor
from schemes import contenders as by
from schemes.groups import Scale, least
from schemes.problem import Scheme, Size, Tensors
from schemes.schemes import PLAIN, T5, rotated, turned
from schemes.rows import Figure, Row
from schemes.timed import Group, Line

SHARE, PAGE, CALLS = 0.85, 16, 10  # CALLS: of a graph


@dataclass(frozen=True)
class Decode:
    name: str
    key_heads: int  # for 32 heads of queries
    scheme: Scheme = PLAIN
    storage: torch.dtype = torch.bfloat16
    turn_keys: bool = False  # keys are cached as they are, and rotated by the call
    limit: float | None = SHARE


def with_rotated_keys(width: int) -> Scheme:
    return replace(rotated(width), ours=lambda t: phasor.Rope(phasor.Rotary(width), keys_rotated=True))


CASES = (
    Decode("plain, 8 key heads", 8),
    Decode("plain, 4 key heads", 4),
    Decode("T5, 4 key heads", 4, T5),
    Decode("rotary inside, keys cached rotated, 4 key heads", 4, with_rotated_keys(128)),
    Decode("rotary inside, keys cached unrotated, 4 key heads", 4, rotated(128), turn_keys=True),
    Decode("e4m3, 8 key heads", 8, storage=torch.float8_e4m3fn),
    Decode("e4m3, 4 key heads", 4, storage=torch.float8_e4m3fn),
    Decode("e5m2, 4 key heads", 4, storage=torch.float8_e5m2),
)


class Pages:
    """Keys and values of all sequences in pages that lie in no order."""

    def __init__(self, size: Size, storage: torch.dtype) -> None:
        self.size, device = size, size.device
        generator = torch.Generator(device).manual_seed(8)
        self.blocks = torch.randperm(size.batch * size.tokens // PAGE, generator=torch.Generator().manual_seed(9)).reshape(size.batch, -1).int().to(device)
        shape = (self.blocks.numel(), PAGE, size.key_heads or size.heads, size.width)
        self.keys, self.values = (torch.randn(shape, device=device, generator=generator, dtype=torch.bfloat16).to(storage) for _ in "kv")
        self.lengths = torch.full((size.batch,), size.tokens, dtype=torch.int32, device=device)
        self.q = torch.randn(size.batch, 1, size.heads, size.width, device=device, generator=generator).bfloat16()

    @property
    def bytes(self) -> int:
        return 2 * self.keys.numel() * self.keys.element_size()

    def first(self, of: Tensor) -> Tensor:
        """(heads, tokens, width) of the first sequence, in float32."""
        rows = of.view(torch.uint8)[self.blocks[0].long()].view(of.dtype) if of.element_size() == 1 else of[self.blocks[0].long()]
        return rows.float().flatten(0, 1).transpose(0, 1).repeat_interleave(self.size.heads // rows.shape[2], 0)


def wanted(case: Decode, pages: Pages, tensors: Tensors) -> Tensors:
    """The first sequence by the formula."""
    size = pages.size
    q, k, v = pages.q[0].float().transpose(0, 1), pages.first(pages.keys), pages.first(pages.values)
    if case.scheme.turn is not None:
        q = turned(q, size.tokens - 1)
        k = turned(k) if case.turn_keys else k
    scores = q @ k.transpose(-1, -2) * size.scale
    if case.scheme.diagonal is not None:
        scores = scores + case.scheme.diagonal(tensors, size)[:, None, : size.tokens]  # of keys behind the last query, itself the last one
    return {"out": scores.softmax(-1) @ v}


def job_of(call: Callable[[], Any], device: str, results: Callable[[], Tensors], wanted_: Callable[[], Tensors]) -> by.Job:
    """On a GPU CALLS of it, captured: one of them takes less time than the host takes to ask for it."""
    on_gpu = device == "cuda"
    return by.Job(in_graph(call) if on_gpu else call, results, wanted_, by.OURS, calls=CALLS if on_gpu else 1)


def in_graph(call: Callable[[], Any]) -> Callable[[], Any]:
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph.replay


def decode_job(case: Decode, size: Size) -> by.Job:
    of = replace(size, key_heads=max(1, size.heads * case.key_heads // 32))
    pages = Pages(of, case.storage)
    tensors = case.scheme.tensors(of, torch.Generator(size.device).manual_seed(5))
    caches, scheme = (phasor.Cache(pages.keys), phasor.Cache(pages.values)), case.scheme.ours(tensors)
    call = partial(phasor.cached_attention, pages.q, *caches, pages.lengths, pages.blocks, scheme, scale=of.scale)
    return job_of(call, size.device, lambda: {"out": call()[0].transpose(0, 1)}, lambda: wanted(case, pages, tensors))


def copy_job(bytes_: int, device: str) -> by.Job:
    """Half of the bytes read, half written."""
    source = torch.ones(bytes_ // 2, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    copy = lambda: target.copy_(source)  # noqa: E731
    return job_of(copy, device, lambda: {"out": copy()[:9].float()}, lambda: {"out": source[:9].float()})


def copy_name(bytes_: int) -> str:
    return f"copy of {bytes_} bytes"


def decode(scale: Scale) -> Group:
    on_gpu = scale.device == "cuda"
    size = Size(64, 32, 8192, 128, True, scale.device) if on_gpu else Size(2, 8, 64, 128, True, scale.device)
    jobs, lines = {}, []
    for case in CASES:
        bytes_ = 2 * size.batch * size.tokens * max(1, size.heads * case.key_heads // 32) * size.width * case.storage.itemsize
        jobs[copy_name(bytes_)] = partial(copy_job, bytes_, size.device)
        jobs[case.name] = partial(decode_job, case, size)
        lines.append(Line(case.name, case.name, (least("of a copy's speed", copy_name(bytes_), case.name, case.limit or 0),)))
    return Group(f"decode, {size.batch} sequences of {size.tokens} keys", jobs, lines)


def of_kernels(path: Path) -> list[Row]:
    """What decode_bench wrote: the kernel alone, beside a kernel that reads as much."""
    rows = []
    for case in json.loads(path.read_text(encoding="utf-8")):
        bound = SHARE if case["tokens"] == 64 * 8192 else None
        figure = Figure("of a copy's speed", case["copy_us"] / case["us"], bound, at_least=True)
        rows.append(Row(f"decode kernel alone, {case['tokens']} keys in all", case["case"], ms=case["us"] / 1e3, figures=[figure]))
    return rows
