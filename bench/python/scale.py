# SPDX-License-Identifier: Apache-2.0
"""A plan on paper: how long one attention layer of 1 to 10 million tokens takes on 8 to 64 GPUs, from measured kernels and the speed of links.

Prints the tables of docs/scale.md, where the assumptions are: python bench/python/scale.py. Needs no GPU and no PyTorch.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


def _cost() -> ModuleType:
    """The formulas by themselves: the package around them wants what was compiled."""
    path = Path(__file__).parents[2] / "python/phasor/distributed/cost.py"
    spec = importlib.util.spec_from_file_location("phasor_distributed_cost", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


cost = _cost()

# Measured on one H200 (docs/design/cuda.md), bfloat16, heads of 128 channels, no mask: every tile inside a long causal mask is such a one.
FORWARD_FLOPS = 635e12
BACKWARD_FLOPS = 520e12
# Beside a kernel: what memory gives (the copy of docs/design/cuda.md), and a launch with the exchange around it. The second is a guess.
MEMORY_BYTES = 4.2e12
STEP_SECONDS = 20e-6
# One direction, as sold, and the share that large messages get of it: assumptions.
NVLINK_BYTES = 450e9 * 0.8
NETWORK_BYTES = 50e9 * 0.8
GPUS_A_NODE = 8

QUERY_HEADS, KEY_HEADS, HEAD_DIM = 32, 8, 128
PRODUCTS = {"forward": 2, "backward": 5}
WINDOW = 8192


@dataclass(frozen=True)
class Ring:
    """One pass of one layer by ring: when the last rank is done, and the most that any rank computes."""

    seconds: float
    computing: float


def _step_seconds(pairs: int, rows: float, backward: bool) -> float:
    kind = "backward" if backward else "forward"
    flops = 2 * PRODUCTS[kind] * HEAD_DIM * QUERY_HEADS * pairs
    merged = rows * QUERY_HEADS * HEAD_DIM * 4 * 3  # float32 sums read and written, the part read
    return flops / (BACKWARD_FLOPS if backward else FORWARD_FLOPS) + (merged / MEMORY_BYTES if pairs else 0) + STEP_SECONDS


def ring(length: int, ranks: int, order: str, window: int | None = None, backward: bool = False) -> Ring:
    """Every rank sends on the part it uses, to the next one, as long as a rank further on needs it; a step ends when both its kernel and the next part
    are there."""
    layer = cost.Layer(length, QUERY_HEADS, KEY_HEADS, HEAD_DIM)
    parts = cost.positions_of(order, length, ranks)
    steps = cost.steps_of(parts, window)
    a_part = cost.bytes_received(layer, ranks, "ring", backward) / max(1, ranks - 1)
    links = [NETWORK_BYTES if ranks > GPUS_A_NODE and r % GPUS_A_NODE == 0 else NVLINK_BYTES for r in range(ranks)]  # into rank r
    ready = [0.0] * ranks
    computing = [0.0] * ranks
    for step in range(ranks):
        work = [_step_seconds(cost.visible_pairs(parts[r], parts[(r - step) % ranks], window), length / ranks, backward) for r in range(ranks)]
        done = [ready[r] + work[r] for r in range(ranks)]
        computing = [computing[r] + work[r] for r in range(ranks)]
        # A part leaves when its holder has it, and lands where a buffer is free: while the receiver computes.
        arrives = [max(ready[r], ready[r - 1]) + a_part / links[r] if steps[(r - step - 1) % ranks] > step else 0.0 for r in range(ranks)]
        ready = [max(done[r], arrives[r]) for r in range(ranks)]
    return Ring(max(ready), max(computing))


def ulysses(length: int, ranks: int, window: int | None = None, backward: bool = False) -> float:
    """All to all, then whole heads, then back: nothing overlaps. Only as many ranks as there are query heads."""
    layer = cost.Layer(length, QUERY_HEADS, KEY_HEADS, HEAD_DIM)
    everything = [range(length)]
    pairs = cost.visible_pairs(everything, everything, window) // ranks  # of all heads: a rank has its share of heads
    link = NETWORK_BYTES if ranks > GPUS_A_NODE else NVLINK_BYTES
    return _step_seconds(pairs, 0, backward) + cost.bytes_received(layer, ranks, "ulysses", backward) / link


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join([_row(head), "|" + "---|" * len(head)] + [_row(row) for row in rows])


def traffic_table() -> str:
    """GB that a rank receives, and holds, for one layer."""
    rows = []
    for length in (1_000_000, 10_000_000):
        for ranks in (8, 16, 32):
            layer = cost.Layer(length // (2 * ranks) * 2 * ranks, QUERY_HEADS, KEY_HEADS, HEAD_DIM)
            for comm in ("ring", "gather", "ulysses"):
                received = [cost.bytes_received(layer, ranks, comm, backward) / 1e9 for backward in (False, True)]
                held = [cost.bytes_held(layer, ranks, comm, backward) / 1e9 for backward in (False, True)]
                rows.append([f"{length:,}", str(ranks), comm, *(f"{x:.1f}" for x in (*received, *held))])
    return _table(["tokens", "ranks", "way", "received, forward, GB", "backward, GB", "held, forward, GB", "backward, GB"], rows)


def balance_table() -> str:
    """The busiest rank's pairs over the mean."""
    rows = []
    for ranks in (8, 64):
        for window in (None, WINDOW):
            length = 1_048_576
            name = "causal" if window is None else f"causal, window {window:,}"
            rows.append([str(ranks), name] + [f"{cost.balance(order, length, ranks, window):.3f}" for order in ("contiguous", "zigzag", "striped")])
    return _table(["ranks", "mask", "contiguous", "zigzag", "striped"], rows)


def schedule_table() -> str:
    """Milliseconds of one layer, forward and backward."""
    rows = []
    for tokens in (1_048_576, 4_194_304, 10_485_760):
        for ranks in (8, 16, 32, 64):
            cells = [f"{tokens:,}", str(ranks)]
            for backward in (False, True):
                zigzag, contiguous = (ring(tokens, ranks, order, None, backward) for order in ("zigzag", "contiguous"))
                whole = f"{1e3 * ulysses(tokens, ranks, None, backward):,.0f}" if ranks <= QUERY_HEADS else "-"
                cells += [f"{1e3 * zigzag.seconds:,.0f} ({zigzag.computing / zigzag.seconds:.2f})", f"{1e3 * contiguous.seconds:,.0f}", whole]
            rows.append(cells)
    head = ["tokens", "GPUs", "forward: ring, zigzag", "contiguous", "ulysses", "backward: ring, zigzag", "contiguous", "ulysses"]
    return _table(head, rows)


def window_table() -> str:
    """Milliseconds of one layer whose queries see a window."""
    rows = []
    for ranks in (8, 64):
        cells = [str(ranks)]
        for order in ("contiguous", "zigzag", "striped"):
            one = ring(1_048_576, ranks, order, WINDOW)
            cells.append(f"{1e3 * one.seconds:.1f} ({one.computing / one.seconds:.2f})")
        rows.append(cells + [f"{1e3 * ulysses(1_048_576, ranks, WINDOW):.1f}" if ranks <= QUERY_HEADS else "-"])
    return _table(["GPUs", "ring, contiguous", "zigzag", "striped", "ulysses"], rows)


TABLES = {"traffic": traffic_table, "balance": balance_table, "schedule": schedule_table, "window": window_table}


def main() -> None:
    for name, table in TABLES.items():
        print(f"\n{name}\n{table()}")


if __name__ == "__main__":
    main()
