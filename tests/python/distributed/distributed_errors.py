# SPDX-License-Identifier: Apache-2.0
"""Calls that are wrong on one rank, or that one rank never makes: what each rank hears of them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist

import phasor
import phasor.distributed as pd
from phasor.distributed import _kernel


def _inputs(group: Any, tokens: int = 7, heads: int = 4) -> list[torch.Tensor]:
    return [pd.shard(torch.randn(1, tokens, heads, 8), group)[0] for _ in range(3)]


def _heard(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def disagreement(group: Any, what: str, comm: str) -> str:
    """Rank 1 asks for something else."""
    other = group.rank() == 1
    q, k, v = _inputs(group)
    options: dict[str, Any] = {"causal": True}
    scheme: Any = phasor.T5(torch.zeros(4, 32))
    if what == "width" and other:
        q, k = q[..., :6], k[..., :6]
    if what == "dtype" and other:
        q, k, v = q.double(), k.double(), v.double()
    if what == "causal" and other:
        options["causal"] = False
    if what == "window" and other:
        options["window"] = 3
    if what == "prefix":
        options["prefix"] = [2 + other]
    if what == "mask" and other:
        options["key_mask"] = torch.ones(1, k.shape[1])
    if what == "cu_seqlens":
        options["cu_seqlens"] = [0, 3 + other, 7]
    if what == "scheme" and other:
        scheme = phasor.Alibi()
    if what == "table" and other:
        scheme = phasor.T5(torch.zeros(4, 16))
    if what == "gradient" and other:
        q = q.clone().requires_grad_()
    if what == "order" and other:
        options["order"] = "striped"
    if what == "wrong table" and other:
        scheme = phasor.T5(torch.zeros(3, 32))
    if what == "wrong shape" and other:
        q = q[0]
    if what == "wrong scheme" and other:
        scheme = "t5"
    if what == "tokens" and other:
        q, k, v = (torch.cat([x, x], 1) for x in (q, k, v))
    if what == "positions":  # each rank counts from 0
        options["key_positions"] = options["query_positions"] = torch.arange(q.shape[1])
    if what == "positions elsewhere" and other:
        options["key_positions"] = torch.arange(3, 4 + k.shape[1])
    return _heard(lambda: pd.attention(q, k, v, scheme, mesh=group, comm=comm, **options))


def refused(group: Any) -> list[str]:
    """What is refused at once on every rank."""
    q, k, v = _inputs(group)
    cope = phasor.Cope(torch.randn(4, 8))
    grid = dist.device_mesh.DeviceMesh("cpu", torch.arange(group.size()).reshape(1, -1), mesh_dim_names=("dp", "cp"))
    calls = [
        lambda: pd.attention(q, k, v, cope, True, mesh=group),
        lambda: pd.attention(q, k, v, mesh=group, comm="tree"),
        lambda: pd.attention(q, k, v, mesh=grid),
        lambda: pd.attention(q, k, v, mesh="cp"),
        lambda: pd.attention(q, k, v, mesh=group, dropout=0.1),
        lambda: pd.attention(q, k, v, phasor.Dense(torch.zeros(4, q.shape[1], 5)), mesh=group),
        lambda: pd.attention(q.numpy(), k, v, mesh=group),
        lambda: pd.attention(q, k, v, mesh=group, winddow=3),
        lambda: pd.decode(q[:, :1], k, v, mesh=group, query_positions=0),
        lambda: pd.shard(torch.zeros(3), group, dim=2),
        lambda: pd.shard(torch.zeros(3), group, dim=0, order=[0, 0, 1]),
        lambda: pd.unshard(torch.zeros(3), group, dim=0, length=5),
        lambda: pd.shard(torch.zeros(3), group, dim=0, cu_seqlens=[0, 2]),
    ]
    return [_heard(call) for call in calls]


def outside(group: Any) -> str:
    """A mesh of ranks 0 and 1 for a call by all."""
    small = dist.new_group([0, 1])
    if group.rank() < 2:
        return "inside"
    return _heard(lambda: pd.shard(torch.zeros(7), small, dim=0))


def absent(group: Any, seconds: float) -> tuple[str, float]:
    """Rank 1 does not come."""
    q, k, v = _inputs(group)
    begun = time.monotonic()
    if group.rank() == 1:
        time.sleep(2 * seconds)
        return "absent", 0.0
    return _heard(lambda: pd.attention(q, k, v, mesh=group, timeout=seconds)), time.monotonic() - begun


def killed(group: Any, comm: str, seconds: float) -> tuple[str, float]:
    """Rank 1 dies in the middle of a call, in its first kernel."""
    q, k, v = (x.requires_grad_() for x in _inputs(group, 40))
    pd.attention(q, k, v, phasor.Alibi(), mesh=group, comm=comm).sum().backward()  # all is well
    if group.rank() == 1:
        _kernel.forward = lambda *rest: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    begun = time.monotonic()

    def again() -> None:
        for _ in range(3):
            pd.attention(q, k, v, phasor.Alibi(), mesh=group, comm=comm, timeout=seconds)

    return _heard(again), time.monotonic() - begun


def second_gradient(group: Any) -> str:
    q, k, v = (x.requires_grad_() for x in _inputs(group))
    (by_q,) = torch.autograd.grad(pd.attention(q, k, v, mesh=group).square().sum(), [q], create_graph=True)
    return _heard(lambda: by_q.sum().backward())
