# SPDX-License-Identifier: Apache-2.0
"""phasor.distributed with tensors on a GPU: several gloo ranks that share it, and NCCL with one rank, which is what one GPU allows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import phasor
import phasor.distributed as pd
import ranks_on_one as one
from attention_cases import hold
from cases import DEVICE, same_bits
from gpu_torch import mesh

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "distributed"))
import ranks  # noqa: E402


@contextmanager
def shared(size: int) -> Iterator[ranks.Ranks]:
    them = ranks.Ranks(size)
    try:
        yield them
    finally:
        them.stop()


def test_every_way_is_one_device() -> None:
    with shared(3) as them:
        for scheme, dtype in (("t5", "float32"), ("shaw", "float32"), ("alibi", "bfloat16"), ("t5", "bfloat16")):
            exact, by_one = (one.of_one(scheme, dtype, "cpu", how) for how in (True, False))
            for comm, order in (("ring", "zigzag"), ("ring", "contiguous"), ("gather", "zigzag"), ("ulysses", "striped")):
                for got in them.run("ranks_on_one", "of_ranks", None, scheme, comm, order, dtype):
                    hold(got, by_one, exact, one.DTYPES[dtype], torch.float32)


def decoded_by_one(dtype: str, to: torch.dtype) -> dict[str, torch.Tensor]:
    """The drafts of ranks_on_one.decoded over the whole cache, on the CPU, widened to a dtype first."""
    q, k, v = (x.detach().to(to) for x in one.inputs(one.DTYPES[dtype], "cpu"))
    return {"out": phasor.attention(q[:, -3:], k, v, phasor.Alibi(), causal=True, query_positions=one.T - 3).double()}


def test_a_cache_on_ranks() -> None:
    with shared(2) as them:
        for dtype in ("float32", "bfloat16"):
            first, second = them.run("ranks_on_one", "decoded", None, dtype)
            exact, by_one = (decoded_by_one(dtype, to) for to in (torch.float64, one.DTYPES[dtype]))
            assert same_bits(first["out"], second["out"])
            hold(first, by_one, exact, one.DTYPES[dtype], torch.float32)


def test_one_rank_is_phasor_attention() -> None:
    """By NCCL on a GPU: its calls are made, and bring nothing."""
    devices = mesh()
    q, k, v = (x.detach() for x in one.inputs(torch.float32, DEVICE))
    wanted = phasor.attention(q, k, v, phasor.Alibi(), causal=True)
    for comm in ("ring", "gather", "ulysses"):
        local = [pd.shard(x, devices)[0] for x in (q, k, v)]
        got = pd.unshard(pd.attention(*local, phasor.Alibi(), causal=True, mesh=devices, comm=comm), devices, length=one.T)
        assert got.device.type == DEVICE and torch.allclose(got, wanted, rtol=0, atol=64 * 2.0**-24), comm
