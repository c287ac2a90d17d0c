# SPDX-License-Identifier: Apache-2.0
"""phasor.attention beside what a user has today: PyTorch's SDPA, plain or with the bias written out. Each in a process of its own: time and memory."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEADS, WIDTH, WINDOW = 2, 64, 64
# Who does it, with what; the first of each scheme is what a user has today.
SCHEMES = {"plain": ("sdpa", "phasor"), "t5": ("sdpa", "phasor"), "shaw": ("eager", "phasor"), "transformer_xl": ("sdpa", "phasor")}


def _tensors(n: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, n, HEADS, WIDTH, requires_grad=True) for _ in range(3))
    rows = torch.randn(2 * n - 1, HEADS, WIDTH).mul_(0.2).requires_grad_()
    shaw = torch.randn(2 * WINDOW + 1, WIDTH).mul_(0.2).requires_grad_()
    return {"q": q, "k": k, "v": v, "t5": torch.randn(HEADS, 32, requires_grad=True), "xl": rows, "shaw": shaw}


def _distances(n: int) -> Any:
    import torch

    at = torch.arange(n)
    return at[:, None] - at[None, :]


def _today(scheme: str, n: int, x: dict[str, Any]) -> Callable[[], Any]:
    """PyTorch's own: the bias of T5, or the scores that Transformer-XL adds, written out and given as a mask; Shaw by explicit scores."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    import phasor

    q, k, v = (x[name].transpose(1, 2) for name in "qkv")
    scale = WIDTH**-0.5
    r = _distances(n)

    def attend(bias: Any) -> Any:
        return sdpa(q, k, v, attn_mask=bias).transpose(1, 2)

    if scheme == "plain":
        return lambda: attend(None)
    if scheme == "t5":
        row = torch.as_tensor(phasor.Bias(phasor.T5Buckets(heads=1)).row(r.numpy()))
        return lambda: attend(x["t5"][:, row][None])
    if scheme == "transformer_xl":
        rows = n - 1 - r  # the distance n - 1 first
        return lambda: attend(torch.gather(torch.einsum("bhid,rhd->bhir", q, x["xl"]), 3, rows.expand(1, HEADS, n, n)) * scale)
    rows = (-r).clamp(-WINDOW, WINDOW) + WINDOW

    def shaw() -> Any:
        z = torch.gather(q @ x["shaw"].T, 3, rows.expand(1, HEADS, n, n))
        return (torch.softmax((q @ k.transpose(2, 3) + z) * scale, -1) @ v).transpose(1, 2)

    return shaw


def _ours(scheme: str, n: int, x: dict[str, Any]) -> Callable[[], Any]:
    import phasor

    made = {
        "plain": lambda: None,
        "t5": lambda: phasor.T5(x["t5"]),
        "shaw": lambda: phasor.Shaw(x["shaw"], left=WINDOW, right=WINDOW),
        "transformer_xl": lambda: phasor.TransformerXL(x["xl"], n - 1),
    }[scheme]
    return lambda: phasor.attention(x["q"], x["k"], x["v"], scheme=made())


def measure(scheme: str, who: str, n: int, threads: int) -> dict[str, Any]:
    """In this process: checked first against the other way at a small length, then timed; memory is what the process grew by."""
    import torch

    torch.set_num_threads(threads)
    small = _tensors(96)
    apart = (_today(scheme, 96, small)() - _ours(scheme, 96, small)()).abs().max().item()
    if apart > 1e-4:
        raise SystemExit(f"{scheme}: the two ways differ by {apart}")
    x = _tensors(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # a peak: what is made from here on counts
    call = (_ours if who == "phasor" else _today)(scheme, n, x)
    times: dict[str, list[float]] = {"forward": [], "backward": []}
    for _ in range(5 if n <= 1024 else 3):
        with torch.no_grad():
            start = time.perf_counter()
            call()
            times["forward"].append(time.perf_counter() - start)
        out = call()
        start = time.perf_counter()
        out.backward(torch.ones_like(out))
        times["backward"].append(time.perf_counter() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    result = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    return {"scheme": scheme, "who": who, "n": n, **result, "megabytes": grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("SCHEME", "WHO", "N"), help="measure one and print JSON")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lengths", type=int, nargs="*", default=[1024, 4096])
    parser.add_argument("--out", type=Path, default=Path("out/bench_attention.json"))
    options = parser.parse_args()
    if options.one:
        scheme, who, n = options.one
        print(json.dumps(measure(scheme, who, int(n), options.threads)))
        return
    results = []
    print(f"{HEADS} heads of {WIDTH}, float32, {options.threads} thread(s); milliseconds, and megabytes that the process grew by")
    for n in options.lengths:
        for scheme, contenders in SCHEMES.items():
            for who in contenders:
                command = [sys.executable, __file__, "--threads", str(options.threads), "--one", scheme, who, str(n)]
                results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
                one = results[-1]
                print(f"  n {n:5} {scheme:15} {who:7} forward {one['forward']:9.1f}  backward {one['backward']:9.1f}  {one['megabytes']:8.0f} MB", flush=True)
            peer, own = results[-2:]
            print(f"  {'':23} factor  forward {peer['forward'] / own['forward']:9.2f}  backward {peer['backward'] / own['backward']:9.2f}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
