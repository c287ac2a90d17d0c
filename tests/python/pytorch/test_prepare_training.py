# SPDX-License-Identifier: Apache-2.0
"""phasor.prepare_attention in what PyTorch does around an operator that trains: deterministic algorithms, exported programs."""

from __future__ import annotations

import pytest
import torch
from test_prepare_gradient import DIM, HEADS, KEY_HEADS, ROPE, TOKENS, by_phasor, numbers, results, tensors
from torch import Tensor

import phasor


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def test_deterministic_algorithms_give_the_same_gradients() -> None:
    """They also fill new memory with what is no number: all that comes back was written."""
    given = tensors()
    by = [numbers(2, TOKENS, heads, DIM, seed=20 + heads) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    wanted = [results(by_phasor, norm, given, 9, by) for norm in ({}, {"over": "all_heads"})]
    cache, filled = torch.zeros(1, 2 * TOKENS, KEY_HEADS, DIM), torch.zeros(1, 2 * TOKENS, KEY_HEADS, DIM)
    q = phasor.prepare_attention(given["q"][0], given["k"][0], rotary=ROPE, k_cache=phasor.Cache(cache), slots=torch.arange(TOKENS) * 2)
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(2):
            for norm, (outs, gradients) in zip(({}, {"over": "all_heads"}), wanted):
                got = results(by_phasor, norm, given, 9, by)
                assert all(torch.equal(a, b) for a, b in zip((*got[0], *got[1]), (*outs, *gradients), strict=True))
                assert all(torch.isfinite(x).all() for x in (*outs, *gradients))
        again = phasor.prepare_attention(given["q"][0], given["k"][0], rotary=ROPE, k_cache=phasor.Cache(filled), slots=torch.arange(TOKENS) * 2)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(again, q) and torch.equal(filled, cache)


def test_exported_with_any_length_and_trained_after_it() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(tensors()["q_weight"])

        def forward(self, q: Tensor, k: Tensor, at: Tensor) -> Tensor:
            norm = phasor.HeadNorm(weight=self.weight)
            return torch.cat(phasor.prepare_attention(q, k, rotary=ROPE, positions=at, q_norm=norm, k_norm=norm), -2)

    def example(tokens: int) -> tuple[Tensor, ...]:
        return numbers(tokens, HEADS, DIM), numbers(tokens, KEY_HEADS, DIM, seed=1), torch.arange(tokens) + 10**6

    length = torch.export.Dim("length", min=2, max=99)
    program, layer = torch.export.export(Layer(), example(TOKENS), dynamic_shapes=({0: length},) * 3).module(), Layer()
    by = numbers(23, HEADS + KEY_HEADS, DIM, seed=2)
    made = []
    for run in (program, layer):
        out = run(*example(23))
        out.backward(by)
        made.append((out, run.weight.grad))
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))
