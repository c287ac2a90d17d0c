# SPDX-License-Identifier: Apache-2.0
"""Attention's kernels alone, forward and backward on Hopper, beside PyTorch's cuDNN and flash backends: B 4, H 32, n 4096, bf16, all in one run.
What models get, through phasor.attention, is in attention_targets.py.

  attention_bench.py LIBRARY JSON [ROUNDS] [forward | backward | inkling]

LIBRARY exports hopper_forward, hopper_backward, mma_forward, rotated_forward (q and k rotated inside of the call, which is timed with it) and mma_backward (tests/cuda/attention/hopper_ours.cu, mma_ours.cu). Each of ours is held against float32 before anything is timed. Variants are timed by turns,
so that a chip that grows warm slows all of them alike; the median of all turns counts. Ratios: `cudnn` is cuDNN's time over ours (more is better),
`plain` ours over our own without a bias (less is better), `flash` is PyTorch's flash backend's time over ours.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from schemes.timing import times_by_turns

BATCH, HEADS, TOKENS, CLIP, SHAW_CLIP, DEBERTA_CLIP = 4, 32, 4096, 91, 64, 256
EXTENT, FEATURES = 1024, 16  # Inkling's
POINTERS = ("q", "k", "v", "out", "lse")
GRADIENTS = ("out_gradient", "dq", "dk", "dv", "distances_gradient")
SIZES = ("batch", "heads", "key_heads", "tokens", "width", "causal")
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class BenchCall(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in POINTERS), *((name, ctypes.c_int64) for name in SIZES), ("scale", ctypes.c_double),
        ("diagonal", ctypes.c_void_p), ("first_distance", ctypes.c_int64), ("distances", ctypes.c_int64), ("skip", ctypes.c_int64),
        ("table", ctypes.c_void_p), ("table_rows", ctypes.c_int64), ("table_shift", ctypes.c_void_p), ("content_shift", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p), ("stream", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in GRADIENTS), ("deterministic", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("value_table", "table_gradient", "value_table_gradient")), ("workspace_bytes", ctypes.c_int64),
        ("features", ctypes.c_void_p), ("features_width", ctypes.c_int64), ("key_table", ctypes.c_void_p),
    ]  # fmt: skip


def t5(heads: int, tokens: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """Constant beyond CLIP, so given between."""
    del tokens
    return torch.randn(heads, 2 * CLIP + 1, device="cuda", generator=generator), -CLIP


def unclipped(heads: int, tokens: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    return torch.randn(heads, 2 * tokens - 1, device="cuda", generator=generator), 1 - tokens


def alibi(heads: int, tokens: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    del generator
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cuda") / heads)
    return -slopes[:, None] * torch.arange(1 - tokens, tokens, device="cuda").abs(), 1 - tokens


OURS = {
    "plain": ("hopper", None), "t5": ("hopper", t5), "unclipped": ("hopper", unclipped), "mma": ("mma", None), "mma_bias": ("mma", unclipped), "rotated": ("rotated", None),
}  # fmt: skip
LONG = {"plain": None, "alibi": alibi, "skip": alibi}  # skip: tiles that cannot matter are left out


def by_rows(weights: torch.Tensor, rows: int) -> torch.Tensor:
    """Sums of weights (..., tokens, tokens) by the row that their distance reads, of a table as far to the left as to the right."""
    tokens = weights.shape[-1]
    distance = torch.arange(tokens, device="cuda")[:, None] - torch.arange(tokens, device="cuda")[None]
    row = (rows // 2 - distance).clamp(0, rows - 1).expand(weights.shape)
    return weights.new_zeros(*weights.shape[:-1], rows).scatter_add(-1, row, weights)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotated by frequencies of base 10000 at the positions of tokens, pairs of halves, and rounded to bfloat16."""
    tokens, width = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, device="cuda", dtype=torch.float64) / width)
    angles = torch.arange(tokens, device="cuda", dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    low, high = x.double().chunk(2, -1)
    return torch.cat((low * cos - high * sin, low * sin + high * cos), -1).bfloat16().float()


class Ours:
    def __init__(
        self, library: ctypes.CDLL, kernel: str, tensors: list[torch.Tensor], causal: bool, bias: tuple[torch.Tensor, int] | None, skip: bool = False,
        table: torch.Tensor | None = None, shifts: list[torch.Tensor] | None = None, value_table: torch.Tensor | None = None,
        features: torch.Tensor | None = None, key_table: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        q, k, v = tensors
        batch, heads, tokens, width = q.shape
        self.out, self.lse = torch.full_like(q, math.nan), torch.full((batch, heads, tokens), math.nan, device="cuda")
        values, first = bias if bias is not None else (None, 0)
        self.forward, self.kept, self.causal, self.bias = getattr(library, f"{kernel}_forward"), [*tensors, values], causal, bias
        self.library, self.table, self.shifts, self.value_table, self.kernel = library, table, shifts, value_table, kernel
        self.features, self.key_table = features, key_table
        self.call_ = BenchCall(
            **{name: x.data_ptr() for name, x in zip(POINTERS, (q, k, v, self.out, self.lse), strict=True)},
            batch=batch, heads=heads, key_heads=k.shape[1], tokens=tokens, width=width, causal=int(causal), scale=width**-0.5,
            diagonal=None if values is None else values.data_ptr(), first_distance=first, distances=0 if values is None else values.shape[1],
            skip=int(skip), table=None if table is None else table.data_ptr(), table_rows=next((x.shape[1] for x in (table, value_table) if x is not None), 0),
            value_table=None if value_table is None else value_table.data_ptr(),
            features=None if features is None else features.data_ptr(), features_width=0 if features is None else features.shape[3],
            key_table=None if key_table is None else key_table.data_ptr(),
            **({} if shifts is None else {"content_shift": shifts[0].data_ptr(), "table_shift": shifts[1].data_ptr()}),
        )  # fmt: skip
        workspace_bytes = getattr(library, f"{kernel}_workspace_bytes")
        workspace_bytes.restype = ctypes.c_int64
        self.workspace = torch.empty(workspace_bytes(ctypes.byref(self.call_)), dtype=torch.uint8, device="cuda")
        self.call_.workspace, self.call_.workspace_bytes = self.workspace.data_ptr(), self.workspace.numel()

    def __call__(self) -> None:
        self.call_.stream = torch.cuda.current_stream().cuda_stream
        if self.forward(ctypes.byref(self.call_)) != 0:
            raise SystemExit("attention_bench: refused")

    def error(self) -> float:
        """Of the output, relative, against float32; of some heads, since their scores are written out."""
        self()
        q, k, v = (x[:1, :2].float() for x in self.kept[:3])
        if self.kernel == "rotated":
            q, k = turned(q), turned(k)
        tokens = q.shape[2]
        of_keys, of_rows = (q, q) if self.shifts is None else (q + x[:2, None] for x in self.shifts)
        scores = of_keys @ k.transpose(-1, -2) * self.call_.scale
        distance = torch.arange(tokens, device="cuda")[:, None] - torch.arange(tokens, device="cuda")[None]
        if self.bias is not None:
            values, first = self.bias
            scores += values[:2][:, (distance - first).clamp(0, values.shape[1] - 1)]
        if self.features is not None:
            rows = self.table.shape[1]
            products = self.features[:1, :2].float() @ self.table[:2].float().transpose(-1, -2) * self.call_.scale
            products = products.gather(-1, (rows - 1 - distance).clamp(0, rows - 1).expand(1, 2, -1, -1))
            scores += products.masked_fill_((distance < 0) | (distance >= rows), 0)
        elif self.table is not None:
            rows = self.table.shape[1]
            products = of_rows @ self.table[:2].float().transpose(-1, -2) * self.call_.scale
            scores += products.gather(-1, (rows // 2 - distance).clamp(0, rows - 1).expand(1, 2, -1, -1))
        if self.key_table is not None:
            rows = self.key_table.shape[1]
            products = k @ self.key_table[:2].float().transpose(-1, -2) * self.call_.scale
            scores += products.gather(-1, (rows // 2 - distance.T).clamp(0, rows - 1).expand(1, 2, -1, -1)).transpose(-1, -2)
        if self.causal:
            scores.masked_fill_(distance < 0, -math.inf)
        want, out = scores.softmax(-1) @ v, self.out[:1, :2].float()
        if self.value_table is not None:
            want += by_rows(scores.softmax(-1), self.value_table.shape[1]) @ self.value_table[:2].float()
        off = (self.lse[:1, :2] - scores.logsumexp(-1)).abs().max().item()
        return max(((out - want).norm() / want.norm()).item(), off) if out.isfinite().all() and self.out.isfinite().all() else math.inf


class OursBackward:
    """The gradients of a call that has run."""

    def __init__(self, ours: Ours, gradient: torch.Tensor, deterministic: bool, learned: bool) -> None:
        q, k, v, values = ours.kept
        self.ours, self.gradient, self.learned = ours, gradient, learned
        self.gradients = [torch.full_like(x, math.nan) for x in (q, k, v)]
        self.by_distance = torch.full_like(values, math.nan) if learned and values is not None else None
        call = self.call_ = BenchCall.from_buffer_copy(ours.call_)
        call.out_gradient, call.deterministic = gradient.data_ptr(), int(deterministic)
        call.dq, call.dk, call.dv = (x.data_ptr() for x in self.gradients)
        call.distances_gradient = None if self.by_distance is None else self.by_distance.data_ptr()
        # (heads, rows, width); Hopper's kernels write (rows, heads, width).
        self.by_rows = ours.kernel == "hopper"
        self.of_tables = [torch.zeros_like(x.transpose(0, 1) if self.by_rows else x, dtype=torch.float32, memory_format=torch.contiguous_format) for x in (ours.table, ours.value_table) if x is not None]
        for name, x in zip(("table_gradient", "value_table_gradient"), self.of_tables, strict=False):
            setattr(call, name, x.data_ptr())
        self.backward = getattr(ours.library, f"{ours.kernel}_backward")
        workspace_bytes = getattr(ours.library, f"{ours.kernel}_backward_workspace_bytes")
        workspace_bytes.restype = ctypes.c_int64
        self.workspace = torch.empty(workspace_bytes(ctypes.byref(call)), dtype=torch.uint8, device="cuda")
        call.workspace, call.workspace_bytes = self.workspace.data_ptr(), self.workspace.numel()

    def __call__(self) -> None:
        self.call_.stream = torch.cuda.current_stream().cuda_stream
        if self.backward(ctypes.byref(self.call_)) != 0:
            raise SystemExit("attention_bench: refused")

    def error(self) -> float:
        """Of all gradients, relative, against float32; of one head of every batch row."""
        for x in self.of_tables:
            x.zero_()  # they are added to
        self()
        ours, want = self.ours, []
        q, k, v = (x[:, :1].float().requires_grad_() for x in ours.kept[:3])
        tokens = q.shape[2]
        scores = q @ k.transpose(-1, -2) * self.call_.scale
        distance = torch.arange(tokens, device="cuda")[:, None] - torch.arange(tokens, device="cuda")[None]
        inputs, values = [q, k, v], None
        if ours.bias is not None:
            values = ours.bias[0][:1].clone().requires_grad_()
            scores = scores + values[:, (distance - ours.bias[1]).clamp(0, values.shape[1] - 1)]
            inputs.append(values)
        tables = [x[:1].float().requires_grad_() for x in (ours.table, ours.value_table) if x is not None]
        if tables:
            rows = tables[0].shape[1]
            products = q @ tables[0].transpose(-1, -2) * self.call_.scale
            scores = scores + products.gather(-1, (rows // 2 - distance).clamp(0, rows - 1).expand(scores.shape))
            inputs += tables
        if ours.causal:
            scores = scores.masked_fill(distance < 0, -math.inf)
        out = scores.softmax(-1) @ v
        if len(tables) > 1:
            out = out + by_rows(scores.softmax(-1), tables[1].shape[1]) @ tables[1]
        want = list(torch.autograd.grad(out, inputs, self.gradient[:, :1].float()))
        got = [x[:, :1].float() for x in self.gradients]
        if self.by_distance is not None:
            got.append(self.by_distance[:1])
        got += [(x.transpose(0, 1) if self.by_rows else x)[:1] for x in self.of_tables]
        return max(((x - y).norm() / y.norm()).item() if x.isfinite().all() else math.inf for x, y in zip(got, want, strict=False))


def milliseconds_of(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times, errors = times_by_turns(jobs, rounds)
    if errors:
        raise SystemExit(f"attention_bench: {errors}")
    return times


def sdpa(backend: SDPBackend, tensors: list[torch.Tensor], causal: bool) -> Callable[[], object]:
    def call() -> None:
        with sdpa_kernel(backend):
            scaled_dot_product_attention(*tensors, is_causal=causal)

    return call


def sdpa_backward(backend: SDPBackend, tensors: list[torch.Tensor], causal: bool, gradient: torch.Tensor) -> Callable[[], object]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    with sdpa_kernel(backend):
        out = scaled_dot_product_attention(*leaves, is_causal=causal)

    def call() -> None:
        torch.autograd.grad(out, leaves, gradient, retain_graph=True)

    return call


def backward_of_width(library: ctypes.CDLL, width: int, causal: bool, rounds: int) -> list[dict[str, object]]:
    generator = torch.Generator("cuda").manual_seed(1)
    q, k, v, gradient = (torch.randn(BATCH, HEADS, TOKENS, width, device="cuda", generator=generator).bfloat16() for _ in range(4))
    names = list(BACKENDS)
    jobs = [sdpa_backward(backend, [q, k, v], causal, gradient) for backend in BACKENDS.values()]
    for name, (kernel, bias) in OURS.items():
        if kernel != "hopper":
            continue
        ours = Ours(library, "hopper", [q, k, v], causal, None if bias is None else bias(HEADS, TOKENS, generator))
        ours()
        for learned in (False, True) if bias is not None else (False,):
            for deterministic in (True, False):
                job = OursBackward(ours, gradient, deterministic, learned)
                full = name + (" learned" if learned else "") + ("" if deterministic else " any order")
                error = job.error()
                if not error < 2e-2:
                    raise SystemExit(f"attention_bench: backward D {width} causal {causal} {full}: off by {error:.1e}")
                names.append(full)
                jobs.append(job)
    table, of_values = (torch.randn(HEADS, 2 * SHAW_CLIP + 1, width, device="cuda", generator=generator).bfloat16() for _ in range(2))
    for name, kernel, second in (("shaw", "hopper", None), ("shaw any order", "hopper", None), ("shaw_kv", "mma", of_values)):
        ours = Ours(library, kernel, [q, k, v], causal, None, table=table, value_table=second)
        ours()
        job = OursBackward(ours, gradient, not name.endswith("any order"), False)
        error = job.error()
        if not error < 2e-2:
            raise SystemExit(f"attention_bench: backward D {width} causal {causal} {name}: off by {error:.1e}")
        names.append(name)
        jobs.append(job)
    milliseconds = milliseconds_of(dict(zip(names, jobs, strict=True)), rounds)
    flops = 10.0 * BATCH * HEADS * TOKENS * TOKENS * width / (2 if causal else 1)
    rows = []
    for name, ms in milliseconds.items():
        plain = milliseconds["plain any order" if name.endswith("any order") else "plain"]
        rows.append({"width": width, "causal": causal, "name": "backward " + name, "ms": ms, "tflops": flops / ms / 1e9, "cudnn": milliseconds["cudnn"] / ms, "plain": ms / plain})
        print(f"D{width} {'causal' if causal else 'full  '} {name:27} {ms:7.3f} ms {flops / ms / 1e9:5.0f} TFLOP/s  cudnn {milliseconds['cudnn'] / ms:.3f}  plain {ms / plain:.3f}", flush=True)
    return rows


def of_width(library: ctypes.CDLL, width: int, causal: bool, rounds: int) -> list[dict[str, object]]:
    generator = torch.Generator("cuda").manual_seed(1)
    tensors = [torch.randn(BATCH, HEADS, TOKENS, width, device="cuda", generator=generator).bfloat16() for _ in range(3)]
    jobs: dict[str, Callable[[], object]] = {name: sdpa(backend, tensors, causal) for name, backend in BACKENDS.items()}
    for name, (kernel, bias) in OURS.items():
        jobs[name] = checked(name, Ours(library, kernel, tensors, causal, None if bias is None else bias(HEADS, TOKENS, generator)))
    table, of_values = (torch.randn(HEADS, 2 * SHAW_CLIP + 1, width, device="cuda", generator=generator).bfloat16() for _ in range(2))
    jobs["shaw"] = checked("shaw", Ours(library, "hopper", tensors, causal, None, table=table))
    jobs["mma_shaw"] = checked("mma_shaw", Ours(library, "mma", tensors, causal, None, table=table))
    for name, kernel, of_keys in (("shaw_kv", "hopper", table), ("shaw_v", "hopper", None), ("mma_kv", "mma", table)):
        jobs[name] = checked(name, Ours(library, kernel, tensors, causal, None, table=of_keys, value_table=of_values))
    rows = torch.randn(HEADS, 2 * TOKENS - 1, width, device="cuda", generator=generator).bfloat16()
    shifts = [torch.randn(HEADS, width, device="cuda", generator=generator) for _ in range(2)]
    jobs["xl"] = checked("xl", Ours(library, "hopper", tensors, causal, None, table=rows, shifts=shifts))  # Transformer-XL: a row for each distance, u and v
    jobs["rows"] = checked("rows", Ours(library, "hopper", tensors, causal, None, table=rows))
    of_queries, of_keys = (torch.randn(HEADS, 2 * DEBERTA_CLIP + 1, width, device="cuda", generator=generator).bfloat16() for _ in range(2))
    jobs["deberta"] = checked("deberta", Ours(library, "hopper", tensors, causal, None, table=of_queries, key_table=of_keys))
    return timed(jobs, rounds, tensors[0], causal)


def long(library: ctypes.CDLL, rounds: int) -> list[dict[str, object]]:
    """ALiBi over many tokens: most tiles of most heads cannot matter."""
    generator = torch.Generator("cuda").manual_seed(2)
    tensors = [torch.randn(1, HEADS, 4 * TOKENS, 128, device="cuda", generator=generator).bfloat16() for _ in range(3)]
    jobs: dict[str, Callable[[], object]] = {"cudnn": sdpa(BACKENDS["cudnn"], tensors, True)}
    for name, bias in LONG.items():
        values = None if bias is None else bias(HEADS, 4 * TOKENS, generator)
        jobs[name] = checked(name, Ours(library, "hopper", tensors, True, values, name == "skip"))
    return timed(jobs, rounds, tensors[0], True)


def inkling(library: ctypes.CDLL, rounds: int) -> list[dict[str, object]]:
    """Features of 16 numbers, causal, 8192 tokens; rows for 1024 distances, then for all."""
    generator = torch.Generator("cuda").manual_seed(3)
    rows = []
    for width in (128, 64):
        tensors = [torch.randn(1, HEADS, 2 * TOKENS, width, device="cuda", generator=generator).bfloat16() for _ in range(3)]
        features = torch.randn(1, HEADS, 2 * TOKENS, FEATURES, device="cuda", generator=generator).bfloat16()
        jobs: dict[str, Callable[[], object]] = {"cudnn": sdpa(BACKENDS["cudnn"], tensors, True), "plain": checked("plain", Ours(library, "hopper", tensors, True, None))}
        for name, extent in (("inkling", EXTENT), ("inkling_all", 2 * TOKENS)):
            table = torch.randn(HEADS, extent, FEATURES, device="cuda", generator=generator).bfloat16()
            jobs[name] = checked(name, Ours(library, "hopper", tensors, True, None, table=table, features=features))
        rows += timed(jobs, rounds, tensors[0], True)
    return rows


def checked(name: str, ours: Ours) -> Ours:
    error = ours.error()
    if not error < 6e-3:
        raise SystemExit(f"attention_bench: {tuple(ours.out.shape)} causal {ours.causal} {name}: off by {error:.1e}")
    return ours


def timed(jobs: dict[str, Callable[[], object]], rounds: int, q: torch.Tensor, causal: bool) -> list[dict[str, object]]:
    batch, heads, tokens, width = q.shape
    milliseconds = milliseconds_of(jobs, rounds)
    flops = 4.0 * batch * heads * tokens * tokens * width / (2 if causal else 1)
    rows = [
        {"width": width, "tokens": tokens, "causal": causal, "name": name, "ms": ms, "tflops": flops / ms / 1e9, "cudnn": milliseconds["cudnn"] / ms, "plain": ms / milliseconds["plain"], "flash": milliseconds.get("flash", math.nan) / ms}
        for name, ms in milliseconds.items()
    ]
    for row in rows:
        print(f"D{width} n{tokens} {'causal' if causal else 'full  '} {row['name']:9} {row['ms']:7.3f} ms {row['tflops']:5.0f} TFLOP/s  cudnn {row['cudnn']:.3f}  plain {row['plain']:.3f}  flash {row['flash']:.3f}", flush=True)
    return rows


def main() -> None:
    library, path = ctypes.CDLL(sys.argv[1]), sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    benches = [bench for name, bench in (("forward", of_width), ("backward", backward_of_width)) if only in ("", name)]
    rows = [row for bench in benches for width in (128, 64) for causal in (False, True) for row in bench(library, width, causal, rounds)]
    if only in ("", "forward"):
        rows += long(library, rounds)
    if only in ("", "forward", "inkling"):
        rows += inkling(library, rounds)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"device": torch.cuda.get_device_name(), "batch": BATCH, "heads": HEADS, "tokens": TOKENS, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
