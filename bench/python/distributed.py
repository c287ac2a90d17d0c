# SPDX-License-Identifier: Apache-2.0
"""phasor.distributed on gloo processes of this machine: bytes that a rank receives, memory and time, beside the formulas of phasor.distributed.cost.

Counts and memory are what a cluster would see; times are not, since all ranks share one machine. Each way runs in processes of its own. Memory is
what the process grew by, with what kernels work in and pages that PyTorch keeps; the formula counts tensors (a test does so to the byte).
    python bench/python/distributed.py [--ranks 4] [--length 8192] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

QUERY_HEADS, KEY_HEADS, HEAD_DIM = 8, 4, 64
BYTES = {"bfloat16": 2, "float32": 4}
WAYS = ("ring", "gather", "ulysses")


class Counted:
    """Stands before torch.distributed.batch_isend_irecv and counts what is received."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self.dist, self.bytes, self.post = dist, 0, dist.batch_isend_irecv
        dist.batch_isend_irecv = self

    def __call__(self, operations: list[Any]) -> Any:
        self.bytes += sum(x.tensor.numel() * x.tensor.element_size() for x in operations if x.op is self.dist.irecv)
        return self.post(operations)

    def taken(self) -> int:
        """Since it was last asked."""
        taken, self.bytes = self.bytes, 0
        return taken


def _memory(which: str) -> int:
    """VmRSS: bytes of this process now; VmHWM: the most of them since `_forget_peak`."""
    line = next(x for x in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if x.startswith(which))
    return 1024 * int(line.split()[1])


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _rank(rank: int, ranks: int, length: int, way: str, dtype: str, store: str, pipe: Any) -> None:
    import torch
    import torch.distributed as dist

    import phasor
    import phasor.distributed

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    table = torch.randn(QUERY_HEADS, 32, generator=torch.Generator().manual_seed(1))

    def inputs(tokens: int) -> list[Any]:
        draw = torch.Generator().manual_seed(2)
        made = [torch.randn(1, tokens, heads, HEAD_DIM, generator=draw) for heads in (QUERY_HEADS, KEY_HEADS, KEY_HEADS)]
        return [x.to(getattr(torch, dtype)) for x in made]

    def shared(whole: list[Any]) -> list[Any]:
        return [phasor.distributed.shard(x)[0].requires_grad_() for x in whole]

    # The result first: a short sequence against one process.
    whole = inputs(301)
    out = phasor.distributed.unshard(phasor.distributed.attention(*shared(whole), phasor.T5(table), True, comm=way).detach())
    torch.testing.assert_close(out, phasor.attention(*whole, phasor.T5(table), True))  # within what PyTorch takes for rounding of the type

    q, k, v = shared(inputs(length))
    _forget_peak()
    counted, before = Counted(), _memory("VmRSS")
    found = {}
    begin = time.perf_counter()
    out = phasor.distributed.attention(q, k, v, phasor.T5(table), True, comm=way)
    found["forward"] = {"seconds": time.perf_counter() - begin, "received": counted.taken(), "memory": _memory("VmHWM") - before}
    begin = time.perf_counter()
    out.sum().backward()
    found["backward"] = {"seconds": time.perf_counter() - begin, "received": counted.taken(), "memory": _memory("VmHWM") - before}
    pipe.send(found)
    dist.barrier()
    dist.destroy_process_group()


def measured(way: str, ranks: int, length: int, dtype: str) -> list[dict[str, Any]]:
    """What each rank saw."""
    processes = multiprocessing.get_context("spawn")
    pipes = [processes.Pipe(duplex=False) for _ in range(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "store"))
        running = [processes.Process(target=_rank, args=(r, ranks, length, way, dtype, store, pipes[r][1])) for r in range(ranks)]
        for process, (_, there) in zip(running, pipes, strict=True):
            process.start()
            there.close()
        found = [here.recv() for here, _ in pipes]
        for process in running:
            process.join()
    return found


def main() -> None:
    from phasor.distributed import cost

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--ranks", type=int, default=4)
    arguments.add_argument("--length", type=int, default=8192)
    arguments.add_argument("--dtype", choices=BYTES, default="bfloat16")
    arguments.add_argument("--out", type=Path, default=Path("out/bench_distributed.json"))
    asked = arguments.parse_args()
    layer = cost.Layer(asked.length, QUERY_HEADS, KEY_HEADS, HEAD_DIM, BYTES[asked.dtype])
    given = (layer.query_row + layer.key_row) * asked.length / asked.ranks  # q, k and v are there before
    results = []
    print(f"{asked.length} tokens on {asked.ranks} ranks, {QUERY_HEADS} and {KEY_HEADS} heads of {HEAD_DIM}, {asked.dtype}, T5, causal; the busiest rank")
    print(f"{'way':8} {'pass':9} {'received, MB':>13} {'formula':>9} {'memory, MB':>11} {'formula':>9} {'seconds':>8}")
    for way in WAYS:
        found = measured(way, asked.ranks, asked.length, asked.dtype)
        for kind in ("forward", "backward"):
            row = {"way": way, "pass": kind, **{name: max(x[kind][name] for x in found) for name in ("received", "memory", "seconds")}}
            row["formula"] = cost.bytes_received(layer, asked.ranks, way, kind == "backward")
            row["held"] = cost.bytes_held(layer, asked.ranks, way, kind == "backward") - given
            results.append(row)
            sizes = f"{row['received'] / 1e6:13.2f} {row['formula'] / 1e6:9.2f} {row['memory'] / 1e6:11.1f} {row['held'] / 1e6:9.1f}"
            print(f"{way:8} {kind:9} {sizes} {row['seconds']:8.2f}")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"length": asked.length, "dtype": asked.dtype, "ranks": asked.ranks, "results": results}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
