# SPDX-License-Identifier: Apache-2.0
"""DTensors of phasor.attention, and calls under torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import phasor
import phasor.distributed as pd
from distributed_schemes import ALL, Numbers, Shape

PLACEMENTS = {"batch": (Shard(0), Shard(0)), "heads": (Shard(2), Shard(2)), "queries": (Shard(1), Replicate()), "none": (Replicate(), Replicate())}


def _mesh(group: Any) -> DeviceMesh:
    return DeviceMesh.from_group(group, "cpu")


def sharded(group: Any, scheme: str, batch: int, options: dict[str, Any]) -> None:
    """By batch, heads or queries: out and every gradient are those of plain tensors."""
    mesh = _mesh(group)
    s = Shape(batch=batch, queries=7, keys=9, heads=4, key_heads=2)
    numbers = Numbers(s)
    ALL[scheme](numbers, lambda x, axis, side: x)
    for x in numbers.learned.values():
        x.requires_grad_()
    sizes = ((7, s.heads, s.width), (9, s.key_heads, s.width), (9, s.key_heads, s.width))
    contents = [torch.randn(batch, *size, dtype=s.dtype, requires_grad=True) for size in sizes]
    do = torch.randn(batch, 7, s.heads, s.width, dtype=s.dtype)
    learned = list(numbers.learned.values())
    one = phasor.attention(*contents, ALL[scheme](numbers, lambda x, axis, side: x), causal=True, **options)
    wanted = torch.autograd.grad((one * do).sum(), [*contents, *learned])
    for name, (of_q, of_k) in PLACEMENTS.items():
        if name == "heads" and group.size() > 2:
            continue  # two heads of keys
        leaves = [distribute_tensor(x.detach(), mesh, [p]).requires_grad_() for x, p in zip(contents, (of_q, of_k, of_k))]
        out, lse = phasor.attention(*leaves, ALL[scheme](numbers, lambda x, axis, side: x), causal=True, return_lse=True, **options)
        assert isinstance(out, DTensor) and out.placements == (of_q,) and lse.shape == (batch, 7, s.heads)
        torch.testing.assert_close(out.full_tensor().detach(), one.detach(), rtol=1e-12, atol=1e-12)
        found = torch.autograd.grad((out * distribute_tensor(do, mesh, [of_q])).sum(), [*leaves, *learned])
        for x, y in zip(found, wanted):
            whole = x.full_tensor() if isinstance(x, DTensor) else x
            torch.testing.assert_close(whole, y, rtol=1e-11, atol=1e-11)


def refused_placements(group: Any) -> str:
    mesh = _mesh(group)
    q, k, v = (distribute_tensor(torch.randn(1, 8, 4, 8), mesh, [Shard(1)]) for _ in range(3))
    try:
        phasor.attention(q, k, v)
    except ValueError as error:
        return str(error)
    return "nothing"


def refused_dropout(group: Any) -> str:
    """Ranks would draw seeds of their own."""
    q = distribute_tensor(torch.randn(2, 8, 4, 8), _mesh(group), [Shard(0)])
    try:
        phasor.attention(q, q, q, dropout=0.5)
    except ValueError as error:
        return str(error)
    return "nothing"


def compiled(group: Any) -> str:
    """A call inside of a compiled function is made outside of its graph; a whole graph is refused with the reason."""
    x = torch.randn(1, 7, 2, 8)
    local = pd.shard(x, group)[0].requires_grad_()

    def step(local: Any) -> Any:
        return pd.attention(2 * local, local, local, phasor.Alibi(), True, mesh=group).square().sum()

    step(local).backward()
    wanted, local.grad = local.grad, None
    torch.compile(step, backend="aot_eager")(local).backward()
    assert torch.equal(local.grad, wanted)
    try:
        torch.compile(step, backend="eager", fullgraph=True)(local)
    except Exception as error:
        return str(error)
    return "nothing"
