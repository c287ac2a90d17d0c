# SPDX-License-Identifier: Apache-2.0
"""Dropout and weights of phasor.attention: against plain PyTorch with the weights and factors that the library says, in parts, compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import phasor

B, T, H, HK, D = 2, 9, 4, 2, 6
SEED = (7, 3)


def qkv(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((B, T, H, D), (B, T, HK, D), (B, T, HK, D))
    return [(torch.rand(s, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype).requires_grad_() for s in shapes]


def naive_weights(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """(B, Tq, H, Tk)."""
    s = torch.einsum("bihd,bjhd->bihj", q, k.repeat_interleave(H // HK, 2)) / math.sqrt(D)
    if causal:
        s = s.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril()[:, None], -math.inf)
    return s.softmax(-1)


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_those_of_plain_pytorch(causal):
    q, k, _ = qkv()
    want = naive_weights(q, k, causal)
    torch.testing.assert_close(phasor.attention_weights(q, k, causal=causal), want.detach(), atol=1e-14, rtol=0)
    some = phasor.attention_weights(q.detach().numpy(), k.detach().numpy(), causal=causal, batch=1, queries=slice(2, 7), heads=slice(1, 3))
    np.testing.assert_allclose(some, want[1:, 2:7, 1:3].detach().numpy(), atol=1e-14)
    last = phasor.attention_weights(q, k, causal=causal, queries=-1)
    assert torch.equal(last, phasor.attention_weights(q, k, causal=causal)[:, -1:])


def test_weights_know_a_scheme():
    q, k, v = (x.detach() for x in qkv())
    scheme = [phasor.Alibi(), phasor.Rope(phasor.Rotary(D))]
    weights = phasor.attention_weights(q, k, scheme, causal=True, softcap=3.0, window=5)
    want = phasor.attention(q, k, v, scheme, causal=True, softcap=3.0, window=5)
    torch.testing.assert_close(torch.einsum("bihj,bjhd->bihd", weights, v.repeat_interleave(H // HK, 2)), want, atol=1e-14, rtol=0)


@pytest.mark.parametrize("which", [slice(0, 9, 2), slice(4, 4), 9])
def test_rows_that_are_no_block_are_refused(which):
    q, k, _ = qkv()
    with pytest.raises(ValueError, match="queries is .* wanted neighbours of 0 to 8"):
        phasor.attention_weights(q, k, queries=which)


@pytest.mark.parametrize("causal", [False, True])
def test_outputs_and_gradients_are_those_of_the_factors(causal):
    q, k, v = qkv()
    _, factors = phasor.attention_weights(q, k, causal=causal, dropout=0.25, dropout_seed=SEED, return_factors=True)
    assert set(factors.unique().tolist()) == {0.0, 1 / 0.75}
    got = phasor.attention(q, k, v, causal=causal, dropout=0.25, dropout_seed=SEED)
    want = torch.einsum("bihj,bjhd->bihd", naive_weights(q, k, causal) * factors, v.repeat_interleave(H // HK, 2))
    torch.testing.assert_close(got, want, atol=1e-13, rtol=0)
    for a, b in zip(torch.autograd.grad(got.sin().sum(), (q, k, v)), torch.autograd.grad(want.sin().sum(), (q, k, v))):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_the_seed_says_which_weights_are_dropped():
    q, k, v = (x.detach() for x in qkv())
    got = phasor.attention(q, k, v, dropout=0.5, dropout_seed=SEED)
    assert torch.equal(got, phasor.attention(q, k, v, dropout=0.5, dropout_seed=torch.tensor(SEED)))
    assert np.array_equal(got.numpy(), phasor.attention(q.numpy(), k.numpy(), v.numpy(), dropout=0.5, dropout_seed=SEED))
    assert not torch.equal(got, phasor.attention(q, k, v, dropout=0.5, dropout_seed=(7, 4)))
    assert not torch.equal(got, phasor.attention(q, k, v, dropout=0.5, dropout_seed=8))
    large = 2**64 - 1
    assert torch.equal(*(phasor.attention(q, k, v, dropout=0.5, dropout_seed=large) for _ in range(2)))
    assert torch.equal(phasor.attention(q, k, v), phasor.attention(q, k, v, dropout=0.0, dropout_seed=1))


def test_pytorchs_generator_draws_the_seed():
    q, k, v = qkv()
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(phasor.attention(q, k, v, dropout=0.5))
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])


def test_checkpointing_drops_the_same_weights_again():
    from torch.utils.checkpoint import checkpoint

    q, k, v = qkv()
    gradients = []
    for again in (False, True):
        torch.manual_seed(3)
        out = checkpoint(lambda *x: phasor.attention(*x, dropout=0.5), q, k, v, use_reentrant=False) if again else phasor.attention(q, k, v, dropout=0.5)
        gradients.append(torch.autograd.grad(out.sin().sum(), (q, k, v)))
    assert all(torch.equal(a, b) for a, b in zip(*gradients))


def test_compiled_with_a_seed_is_the_same_to_the_bit():
    def attend(q, k, v):
        return phasor.attention(q, k, v, causal=True, dropout=0.25, dropout_seed=torch.tensor(SEED))

    q, k, v = qkv(torch.float32)
    out = torch.compile(attend, fullgraph=True)(q, k, v)
    assert torch.equal(out, attend(q, k, v))
    got, want = (torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, attend(q, k, v)))
    assert all(torch.equal(a, b) for a, b in zip(got, want))


def test_compiled_without_a_seed_draws_one():
    q, k, v = (x.detach() for x in qkv(torch.float32))
    attend = torch.compile(lambda *x: phasor.attention(*x, dropout=0.5), fullgraph=True)
    outs = [attend(q, k, v) for _ in range(2)]
    assert not torch.equal(*outs)


def test_numpy_wants_a_seed():
    q, k, v = (x.detach().numpy() for x in qkv())
    with pytest.raises(ValueError, match="dropout is given without dropout_seed"):
        phasor.attention(q, k, v, dropout=0.5)
