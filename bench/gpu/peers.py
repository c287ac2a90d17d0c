# SPDX-License-Identifier: Apache-2.0
"""Rotation of q and k by peers that are installed, on a GPU, beside Phasor's Python calls and a copy: microseconds of a graph's replay.

`peers.py [JSON]`: bf16, 32 query and 8 key heads of 128. What is not installed is named as such. Results are compared before they are timed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch

HEADS, KEY_HEADS, WIDTH, BASE, FIRST = 32, 8, 128, 10000.0, 1000
CALLS, REPLAYS = 20, 15


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
    """q and k as the peers want them, (1, heads, tokens, width), the positions and the float32 angles' table."""

    def __init__(self, tokens: int) -> None:
        generator = torch.Generator("cuda").manual_seed(1)
        draw = lambda heads: torch.randn(1, tokens, heads, WIDTH, device="cuda", generator=generator).bfloat16()  # noqa: E731
        self.q, self.k = draw(HEADS), draw(KEY_HEADS)
        self.positions = torch.arange(FIRST, FIRST + tokens, device="cuda")
        frequencies = BASE ** (-torch.arange(0, WIDTH, 2, device="cuda", dtype=torch.float64) / WIDTH)
        angles = self.positions[:, None].double() * frequencies
        angles = torch.cat([angles, angles], dim=-1)[None]
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()


def eager(x: Tensors) -> Callable[[], object]:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = x.q.transpose(1, 2), x.k.transpose(1, 2)
    return lambda: apply_rotary_pos_emb(q, k, x.cos, x.sin)


def compiled(x: Tensors) -> Callable[[], object]:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    run = torch.compile(apply_rotary_pos_emb, fullgraph=True, dynamic=False)
    q, k = x.q.transpose(1, 2), x.k.transpose(1, 2)
    return lambda: run(q, k, x.cos, x.sin)


def liger(x: Tensors) -> Callable[[], object]:
    from liger_kernel.ops.rope import LigerRopeFunction

    q, k = x.q.transpose(1, 2), x.k.transpose(1, 2)
    return lambda: LigerRopeFunction.apply(q, k, x.cos, x.sin)


def phasor_in_place(x: Tensors) -> Callable[[], object]:
    import phasor

    rotary = phasor.Rotary(head_dim=WIDTH, base=BASE)
    q, k = x.q.clone(), x.k.clone()
    return lambda: rotary.apply_(q, k, positions=x.positions)


def phasor_new(x: Tensors) -> Callable[[], object]:
    import phasor

    rotary = phasor.Rotary(head_dim=WIDTH, base=BASE)
    return lambda: rotary(x.q, x.k, positions=x.positions)


CONTENDERS = {
    "PyTorch eager": eager,
    "PyTorch compiled": compiled,
    "Liger": liger,
    "Phasor, out of place": phasor_new,
    "Phasor, in place": phasor_in_place,
}


def agrees(name: str, x: Tensors) -> bool:
    """Whether a contender's q is the rotation in float64 but for what bfloat16 may lose."""
    if name == "Phasor, in place":
        return True  # by gpu_bits.py
    out = CONTENDERS[name](x)()
    q = out[0] if name.startswith("Phasor") else out[0].transpose(1, 2)
    cos, sin = x.cos.double()[:, :, None, : WIDTH // 2], x.sin.double()[:, :, None, : WIDTH // 2]
    first, second = x.q.double().chunk(2, dim=-1)
    want = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return bool((q.double() - want).abs().max() < 0.1)


def main() -> None:
    rows = []
    print(f"{'rotation, 32 + 8 heads of 128, bf16':38} {'tokens':>8} {'us':>10} {'copy us':>10} {'of copy':>8}")
    for tokens in (1, 64, 1024, 16384):
        x = Tensors(tokens)
        whole = torch.cat([x.q.flatten(), x.k.flatten()])
        other = torch.empty_like(whole)
        for name, make in CONTENDERS.items():
            copy = microseconds(lambda: other.copy_(whole))
            try:
                if not agrees(name, x):
                    print(f"{name:38} {tokens:8} FAIL: it is not the rotation")
                    sys.exit(1)
                us = microseconds(make(x))
            except ImportError as missing:
                print(f"{name:38} {tokens:8} not installed: {missing}")
                continue
            print(f"{name:38} {tokens:8} {us:10.2f} {copy:10.2f} {copy / us:8.3f}")
            rows.append({"case": name, "tokens": tokens, "us": us, "copy_us": copy})
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
