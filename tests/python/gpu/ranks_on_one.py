# SPDX-License-Identifier: Apache-2.0
"""What a rank does for gpu_distributed.py: several gloo processes with one device, the whole of every tensor drawn by each of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor
import phasor.distributed as pd
from attention_cases import UNIT, Named, results
from cases import DEVICE, numbers

B, T, H, HK, D = 2, 133, 4, 2, 64  # divides by no number of ranks, more than a tile
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in UNIT}


def tables(scheme: str, device: str) -> Named:
    """What learns, in float32."""
    shapes = {"t5": {"table": (H, 32)}, "shaw": {"keys": (33, D), "values": (33, D)}}.get(scheme, {})
    return {name: (numbers(*shape, seed=20 + n) / 4).to(device).requires_grad_() for n, (name, shape) in enumerate(shapes.items())}


def scheme_of(scheme: str, learned: Named) -> Any:
    if scheme == "t5":
        return phasor.T5(learned["table"])
    if scheme == "shaw":
        return phasor.Shaw(learned["keys"], learned["values"])
    return phasor.Alibi() if scheme == "alibi" else None


def inputs(dtype: torch.dtype, device: str) -> list[Tensor]:
    """q, k and v of the whole."""
    shapes = ((B, T, H, D), (B, T, HK, D), (B, T, HK, D))
    return [numbers(*shape, seed=n).to(device, dtype).requires_grad_() for n, shape in enumerate(shapes)]


def of_ranks(group: Any, scheme: str, comm: str, order: str, dtype: str) -> Named:
    """The whole's results and gradients, which `shard` and `unshard` put together on every rank."""
    learned = tables(scheme, DEVICE)

    def attend(*whole: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (pd.shard(x, group, 1, order)[0] for x in whole)
        out, lse = pd.attention(q, k, v, scheme_of(scheme, learned), causal=True, mesh=group, comm=comm, order=order, return_lse=True)
        return tuple(pd.unshard(x, group, 1, order, length=T) for x in (out, lse))

    return results(attend, inputs(DTYPES[dtype], DEVICE), learned, DTYPES[dtype])


def of_one(scheme: str, dtype: str, device: str, exact: bool) -> Named:
    """Without ranks; in float64 with the same numbers, or as it is."""
    given, learned = inputs(DTYPES[dtype], device), tables(scheme, device)
    if exact:
        given = [x.detach().double().requires_grad_() for x in given]
        learned = {name: x.detach().double().requires_grad_() for name, x in learned.items()}
    return results(lambda *qkv: phasor.attention(*qkv, scheme_of(scheme, learned), causal=True, return_lse=True), given, learned, DTYPES[dtype])


def decoded(group: Any, dtype: str) -> dict[str, Tensor]:
    """Three drafts over a cache dealt out in blocks of 16; the same on every rank."""
    q, k, v = (x.detach() for x in inputs(DTYPES[dtype], DEVICE))
    own = pd.interleaved(T, group, 16)
    own = own[own < T].to(DEVICE)
    out = pd.decode(q[:, -3:], k[:, own], v[:, own], phasor.Alibi(), mesh=group, query_positions=T - 3, key_positions=own)
    return {"out": out.cpu().double()}
