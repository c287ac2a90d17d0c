# SPDX-License-Identifier: Apache-2.0
"""Phasor beside its peers on a GPU: microseconds of a graph's replay, next to a copy of as many bytes.

bf16, 32 query and 8 key heads of 128. PyTorch, eager and compiled, and Liger where they are installed. FlashInfer, SGLang and vLLM where a library
that was built elsewhere is given: a shared library with functions `int NAME(const PeerCall*)` (extern "C", bench/gpu/peer_abi.h), each of which puts
its kernel on the call's stream and returns 0 or a CUDA error. A library may lack some of them; that is said. They are

  flashinfer_apply_rope_pos_ids                    q and k rotated in place by angles made in the kernel, from `base`
  flashinfer_apply_rope_pos_ids_cos_sin_cache      the same, from `cos_sin`
  flashinfer_rope_quantize_append_paged_kv_cache   q rotated to `q_out`, k and v to pages, as e4m3
  sglang_fused_rope                                q and k rotated in place from `cos_sin`
  sglang_fused_rope_store                          the same, and k and v written to slots
  vllm_rotary_embedding                            q and k rotated in place from `cos_sin`
  vllm_fused_qk_norm_rope                          rms norm of heads, then rotated in place from `cos_sin`, q, k and v being one packed tensor
  vllm_fused_qk_norm_rope_and_cache                the same, then k and v written to slots by reshape_and_cache_flash

Phasor's results are held against the definition in float64 before they are timed, the others against Phasor's: "off" is the largest difference as
a share of a pair's length.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from peer_abi import COPY, LIBRARIES, OURS, STEP_OF_BF16, Function, PeerCall, load, parse

HEADS, KEY_HEADS, WIDTH, BASE, FIRST = 32, 8, 128, 10000.0, 1000
PAGE, PAGES_OF_REQUEST = 16, 64
Q_SCALE, KV_SCALE = 16.0, 24.0
CALLS, REPLAYS = 20, 15
TOKENS = (1, 64, 1024, 16384)
STORING = ("store", "norm_store")
TITLES = {
    "rotate": "rotation in place",
    "norm": "norm and rotation in place",
    "store": "rotation, k and v to slots",
    "norm_store": "norm, rotation, k and v to slots",
    "append": "rotation, all to e4m3, k and v to pages",
}


def microseconds(call: Callable[[], object]) -> float:
    """The median of replays of a graph of twenty calls, per call."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / CALLS)
    return sorted(times)[len(times) // 2]


class Tensors:
    """What a task reads and writes, as it is before a call. q, k and v are slices of one packed row, as a projection gives them."""

    def __init__(self, tokens: int) -> None:
        generator = torch.Generator("cuda").manual_seed(1)
        self.tokens = tokens
        self.rows = torch.randn(tokens, HEADS + 2 * KEY_HEADS, WIDTH, device="cuda", generator=generator).bfloat16()
        self.positions = torch.arange(FIRST, FIRST + tokens, device="cuda")
        frequencies = BASE ** (-torch.arange(0, WIDTH, 2, device="cuda", dtype=torch.float64) / WIDTH)
        angles = torch.arange(FIRST + tokens, device="cuda", dtype=torch.float64)[:, None] * frequencies
        self.cos_sin = torch.cat([angles.cos(), angles.sin()], dim=-1).float()
        self.weights = [1 + 0.1 * torch.randn(WIDTH, device="cuda", generator=generator).bfloat16() for _ in range(2)]
        blocks = -(-tokens // PAGE)
        count = torch.arange(tokens, device="cuda")
        self.slots = tokens - 1 - count
        int32 = {"device": "cuda", "dtype": torch.int32}
        begins = list(range(0, blocks, PAGES_OF_REQUEST))
        self.indptr = torch.tensor([*begins, blocks], **int32)
        self.indices = torch.arange(blocks - 1, -1, -1, **int32)
        self.requests = (count // (PAGE * PAGES_OF_REQUEST)).int()
        self.places = (count % (PAGE * PAGES_OF_REQUEST)).int()
        self.q_out = torch.zeros(tokens, HEADS, WIDTH, device="cuda", dtype=torch.float8_e4m3fn)
        self.caches = [torch.zeros(tokens, KEY_HEADS, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        self.pages = torch.zeros(blocks, 2, PAGE, KEY_HEADS, WIDTH, device="cuda", dtype=torch.float8_e4m3fn)

    @property
    def q(self) -> torch.Tensor:
        return self.rows[:, :HEADS]

    @property
    def k(self) -> torch.Tensor:
        return self.rows[:, HEADS : HEADS + KEY_HEADS]

    @property
    def v(self) -> torch.Tensor:
        return self.rows[:, HEADS + KEY_HEADS :]

    def arguments(self, task: str) -> PeerCall:
        pointers = {name: getattr(self, name) for name in ("q", "k", "v", "q_out", "positions", "cos_sin", "slots", "indptr", "indices", "requests", "places")}
        pointers |= {"q_weight": self.weights[0], "k_weight": self.weights[1]}
        pointers |= {"k_cache": self.pages} if task == "append" else {"k_cache": self.caches[0], "v_cache": self.caches[1]}
        row = self.rows.stride(0)
        return PeerCall(
            **{name: tensor.data_ptr() for name, tensor in pointers.items()},
            q_stride=row, k_stride=row, v_stride=row, tokens=self.tokens, q_heads=HEADS, k_heads=KEY_HEADS, head_dim=WIDTH,
            page_size=PAGE, request_count=self.indptr.numel() - 1, base=BASE, epsilon=1e-6, q_scale=Q_SCALE, kv_scale=KV_SCALE,
        )  # fmt: skip

    def results(self, task: str) -> list[torch.Tensor]:
        if task == "append":
            return [self.q_out, self.pages]
        return [self.q, *self.caches] if task in STORING else [self.q, self.k]

    def bytes(self, task: str) -> tuple[int, int]:
        """What a task must read and write."""
        heads = HEADS + KEY_HEADS if task in ("rotate", "norm") else HEADS + 2 * KEY_HEADS
        count = self.tokens * heads * WIDTH
        return 2 * count, count if task == "append" else 2 * count


def off(theirs: list[torch.Tensor], ours: list[torch.Tensor]) -> float:
    """The largest difference as a share of the length of a pair; what lies below a 64th is measured by that."""
    largest = 0.0
    for a, b in zip(theirs, ours):
        a, b = (x.float().unflatten(-1, (2, WIDTH // 2)) for x in (a, b))
        length = b.square().sum(dim=-2, keepdim=True).sqrt() + 2.0**-6
        if not bool(torch.isfinite(a).all()):
            return float("inf")
        largest = max(largest, ((a - b).abs() / length).max().item())
    return largest


def copied(function: Function, moved: tuple[int, int]) -> Callable[[], object]:
    """A copy that reads and writes so many bytes."""
    read, written = (torch.zeros(size, device="cuda", dtype=torch.uint8) for size in moved)
    arguments = PeerCall(q=read.data_ptr(), q_stride=moved[0], q_out=written.data_ptr(), k_stride=moved[1])

    def call(_kept=(read, written)) -> None:
        arguments.stream = torch.cuda.current_stream().cuda_stream
        function.call(arguments)

    return call


def by_definition(x: Tensors, task: str) -> list[torch.Tensor]:
    """The results of a task in float64, each rounded once."""
    cos, sin = (half[:, None] for half in x.cos_sin[x.positions].double().chunk(2, dim=-1))

    def turned(heads: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        heads = heads.double()
        if task in ("norm", "norm_store"):
            heads = heads / (heads.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * weight.double()
        first, second = heads.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    q, k, v = turned(x.q, x.weights[0]), turned(x.k, x.weights[1]), x.v.double()
    if task in STORING:
        caches = [torch.zeros_like(cache).index_copy(0, x.slots, values.bfloat16()) for cache, values in zip(x.caches, (k, v))]
        return [q.bfloat16(), *caches]
    if task == "append":
        pages = torch.zeros(x.pages.shape, device="cuda")
        page = x.indices[x.indptr[x.requests] + x.places // PAGE]
        for which, values in enumerate((k, v)):
            pages[page, which, x.places % PAGE] = (values * KV_SCALE).float()
        return [(q * Q_SCALE).float().to(torch.float8_e4m3fn), pages.to(torch.float8_e4m3fn)]
    return [q.bfloat16(), k.bfloat16()]


class Contender(NamedTuple):
    name: str
    task: str
    off: float
    make: Callable[[Tensors], tuple[Callable[[], object], Callable[[], list[torch.Tensor]]]]  # the call, and its results


def exported(function: Function) -> Contender:
    def make(x: Tensors) -> tuple[Callable[[], object], Callable[[], list[torch.Tensor]]]:
        task = function.exported.task
        arguments = x.arguments(task)

        def call() -> None:
            arguments.stream = torch.cuda.current_stream().cuda_stream
            function.call(arguments)

        return call, lambda: x.results(task)

    return Contender(function.exported.name, function.exported.task, function.exported.off, make)


def rotated(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As models in PyTorch do it."""

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1)

    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def of_torch(function: Callable[..., tuple[torch.Tensor, torch.Tensor]], heads_first: bool) -> Callable:
    """A function of q, k and tables of bf16 that gives new tensors."""

    def make(x: Tensors) -> tuple[Callable[[], object], Callable[[], list[torch.Tensor]]]:
        cos, sin = (torch.cat([half, half], dim=-1).bfloat16() for half in x.cos_sin[x.positions].chunk(2, dim=-1))
        q, k = x.q[None].contiguous(), x.k[None].contiguous()  # Liger turns contiguous ones in place, and copies others first
        cos, sin = (cos[None], sin[None]) if heads_first else (cos[None, :, None], sin[None, :, None])
        if heads_first:
            q, k = q.transpose(1, 2), k.transpose(1, 2)
        kept = []

        def call() -> None:
            kept[:] = function(q, k, cos, sin)

        return call, lambda: [(t.transpose(1, 2) if heads_first else t)[0] for t in kept]

    return make


def from_python() -> Contender:
    """Phasor's package, whose module with CUDA tools/gpu_python.sh builds."""
    import phasor

    rotary = phasor.Rotary(head_dim=WIDTH, base=BASE)
    return Contender(
        "Phasor from Python", "rotate", 0.0, lambda x: (lambda: rotary.apply_(x.q[None], x.k[None], positions=x.positions), lambda: x.results("rotate"))
    )


def liger() -> Contender:
    from liger_kernel.ops.rope import LigerRopeFunction

    return Contender("Liger", "rotate", 4 * STEP_OF_BF16, of_torch(LigerRopeFunction.apply, True))


def contenders(options) -> Iterator[Contender]:
    """Phasor first, since the others are held against it."""
    for function in load(options.phasor, OURS):
        yield exported(function)
    # Rounded tables, rounded products, a rounded sum: four steps of which each is half a step of bf16 of a pair's length.
    yield Contender("PyTorch eager", "rotate", 4 * STEP_OF_BF16, of_torch(rotated, False))
    yield Contender("PyTorch compiled", "rotate", 4 * STEP_OF_BF16, of_torch(torch.compile(rotated, fullgraph=True, dynamic=False), False))
    for installed in (from_python, liger):
        try:
            yield installed()
        except ImportError as missing:
            print(f"{installed.__name__}: not timed, since it is not installed: {missing}")
    for name, wanted in LIBRARIES.items():
        if path := getattr(options, name):
            yield from (exported(function) for function in load(path, wanted))
        else:
            print(f"{name}: no library is given")


def timed(contender: Contender, tokens: int, ours: list[torch.Tensor]) -> tuple[float, float]:
    """Microseconds of a call, and how far its result is off `ours`, or, while that is empty, off the definition."""
    x = Tensors(tokens)
    wanted = ours or by_definition(x, contender.task)
    call, results = contender.make(x)
    call()
    torch.cuda.synchronize()
    difference = off(results(), wanted)
    if not difference <= 1.001 * contender.off:
        raise RuntimeError(f"off by {difference} of a pair's length, which may be {contender.off}")
    if not ours:
        ours += [t.clone() for t in results()]
        torch.cuda.synchronize()  # the calls that are timed work in place, on a stream of their own
    return microseconds(call), difference


def main() -> None:
    options = parse(sys.argv[1:], __doc__)
    (copy_function,) = load(options.phasor, [COPY])
    everyone = list(contenders(options))
    rows, wrong = [], 0
    print(f"{'32 + 8 heads of 128, bf16':78} {'tokens':>8} {'us':>10} {'copy us':>10} {'of copy':>8} {'off':>8}")
    for task, title in TITLES.items():
        for tokens in TOKENS:
            copy = microseconds(copied(copy_function, Tensors(tokens).bytes(task)))
            ours: list[torch.Tensor] = []
            for contender in (c for c in everyone if c.task == task):
                name = f"{title}: {contender.name}"
                try:
                    us, difference = timed(contender, tokens, ours)
                except RuntimeError as error:
                    wrong += 1
                    print(f"FAIL: {name}, {tokens} tokens: {error}")
                    continue
                print(f"{name:78} {tokens:8} {us:10.2f} {copy:10.2f} {copy / us:8.3f} {difference:8.5f}", flush=True)
                rows.append({"case": name, "tokens": tokens, "us": us, "copy_us": copy, "off": difference})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
