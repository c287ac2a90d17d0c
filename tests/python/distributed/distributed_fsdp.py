# SPDX-License-Identifier: Apache-2.0
"""A small model whose parameters FSDP2 (fully_shard) keeps in parts on the ranks, beside the same model whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import phasor
import phasor.nn

WIDTH, HEADS, KEY_HEADS, DIM, ROWS = 12, 4, 2, 6, 9


class Layer(torch.nn.Module):
    """Norms of heads, rotation, attention with T5's learned table."""

    def __init__(self, prepared: bool) -> None:
        super().__init__()
        self.prepared, self.rope, self.plan = prepared, phasor.nn.Rotary(DIM), phasor.Rotary(DIM)
        self.qkv = torch.nn.Linear(WIDTH, (HEADS + 2 * KEY_HEADS) * DIM, bias=False)
        self.out = torch.nn.Linear(HEADS * DIM, WIDTH)
        self.table = torch.nn.Parameter(torch.randn(HEADS, 32))
        self.q_norm = torch.nn.Parameter(1 + 0.1 * torch.randn(DIM))
        self.k_norm = torch.nn.Parameter(1 + 0.1 * torch.randn(KEY_HEADS, DIM))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (-1, DIM)).split((HEADS, KEY_HEADS, KEY_HEADS), 2)
        if self.prepared:
            norms = {"q_norm": phasor.HeadNorm(weight=self.q_norm), "k_norm": phasor.HeadNorm(weight=self.k_norm)}
            q, k = phasor.prepare_attention(q, k, rotary=self.plan, positions=at, **norms)
        else:
            q, k = self.rope(q * self.q_norm, k * self.k_norm, at)
        return x + self.out(phasor.attention(q, k, v, phasor.T5(self.table), causal=True).flatten(2))


class Model(torch.nn.Module):
    """Learned positions (nine rows, which two ranks do not share evenly), a layer with the step before attention, one without."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = phasor.nn.Learned(ROWS, WIDTH)
        self.layers = torch.nn.ModuleList([Layer(True), Layer(False)])

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1])
        x = self.positions(x)
        for layer in self.layers:
            x = layer(x, at)
        return x.square().mean()


def trained(group: Any) -> None:
    """Two steps. Each rank has rows of its own; what a rank computes is what one process computes of its rows, and the mean of two numbers is
    rounded once in either order, so that losses, gradients and weights are the same bit for bit."""
    mesh = DeviceMesh.from_group(group, "cpu")
    whole = Model()
    sharded = Model()
    sharded.load_state_dict(whole.state_dict())
    for layer in sharded.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    steps = [torch.optim.SGD(model.parameters(), lr=0.5) for model in (whole, sharded)]
    for _ in range(2):
        rows = [torch.randn(2, 7, WIDTH) for _ in range(group.size())]
        losses = [whole(x) for x in rows]
        parts = [torch.autograd.grad(loss, list(whole.parameters())) for loss in losses]
        for x, *of in zip(whole.parameters(), *parts):
            x.grad = sum(of[1:], of[0]) / group.size()
        loss = sharded(rows[group.rank()])
        loss.backward()
        assert torch.equal(loss, losses[group.rank()])
        for (name, x), y in zip(sharded.named_parameters(), whole.parameters(), strict=True):
            assert isinstance(x, DTensor) and x.to_local().numel() < x.numel(), name
            assert y.grad.any() and torch.equal(x.grad.full_tensor(), y.grad), name
        for step in steps:
            step.step()
            step.zero_grad()
    for (name, x), y in zip(sharded.named_parameters(), whole.parameters(), strict=True):
        assert torch.equal(x.full_tensor(), y), name
