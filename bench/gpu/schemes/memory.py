# SPDX-License-Identifier: Apache-2.0
"""Memory of attention over a long sequence, forward and backward: at the peak, beyond what was there before (q, k, v and what a scheme learns).

  attention_memory.py JSON [TOKENS...]        (16384 and 65536)

One group of heads: 4 of queries and 1 of keys, 128 channels, bf16, causal. Scores written out once in bf16 would be 4 x TOKENS x TOKENS x 2 bytes, 34 GB
of 65536 tokens. Memory that grows with tokens four times from one length to the next is O(n); a scheme with more than twice that is an error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import torch
from torch import nn

import phasor

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

    def __str__(self) -> str:
        return (
            f"{self.name:15} {self.tokens:6} tokens: forward {self.forward / 2**20:7.0f} MiB ({self.forward / self.tokens:6.0f} bytes a token, {self.forward_seconds:.3f} s), "
            f"with backward {self.backward / 2**20:7.0f} MiB ({self.backward / self.tokens:6.0f}, {self.backward_seconds:.3f} s)"
        )


def peaks(name: str, tokens: int) -> Peaks:
    torch.manual_seed(1)
    make = SCHEMES[name]()
    scheme = None if make is None else make.to("cuda")
    q = torch.randn(1, tokens, HEADS, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(1, tokens, KEY_HEADS, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda", torch.bfloat16):  # tables are multiplied as q is
        out, forward, forward_seconds = measured(
            lambda: phasor.attention(q, k, v, None if scheme is None else scheme(tokens, tokens), causal=True, scale=getattr(scheme, "scale", None)), before
        )
    gradient = torch.ones_like(out)
    _, backward, backward_seconds = measured(lambda: out.backward(gradient), before)
    if not all(bool(x.grad is not None and x.grad.isfinite().all()) for x in (q, k, v)):
        raise SystemExit(f"attention_memory: {name} of {tokens} tokens: a gradient is missing or not finite")
    return Peaks(name, tokens, forward, forward_seconds, backward, backward_seconds)


def measured(call: Callable[[], T], before: int) -> tuple[T, int, float]:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return result, torch.cuda.max_memory_allocated() - before, seconds


def main() -> int:
    lengths = [int(one) for one in sys.argv[2:]] or [16384, 65536]
    rows, failed = [], False
    for name in SCHEMES:
        of_name = []
        for tokens in lengths:
            of_name.append(peaks(name, tokens))
            print(of_name[-1], flush=True)
        rows += of_name
        for what in ("forward", "backward"):
            if getattr(of_name[-1], what) > 2 * lengths[-1] / lengths[0] * getattr(of_name[0], what):
                print(f"attention_memory: {name}, {what}: grows faster than the tokens", file=sys.stderr)
                failed = True
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"device": torch.cuda.get_device_name(), "heads": HEADS, "key_heads": KEY_HEADS, "width": WIDTH, "rows": [asdict(row) for row in rows]}, file, indent=1)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
