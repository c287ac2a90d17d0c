# SPDX-License-Identifier: Apache-2.0
"""Sinks and float32 outputs of phasor.attention: against plain PyTorch, with gradients, compiled, and in parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import phasor

B, T, H, HK, D = 2, 9, 4, 2, 6


def qkv(dtype: torch.dtype = torch.float64, tokens: int = T) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((B, T, H, D), (B, tokens, HK, D), (B, tokens, HK, D))
    return [(torch.rand(s, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype).requires_grad_() for s in shapes]


def sinks_of(count: int = H, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([0.5, -1.0, 2.0, 0.25][:count], dtype=dtype).requires_grad_()


def naive(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """As gpt-oss writes it: the sink is a column of the scores that is dropped after the softmax."""
    k, v = (x.repeat_interleave(H // HK, 2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(D)
    if causal:
        s = s.masked_fill(~torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1]), -math.inf)
    s = torch.cat([s, sinks.reshape(1, -1, 1, 1).expand(q.shape[0], H, q.shape[1], 1)], -1)
    return torch.einsum("bhij,bjhd->bihd", s.softmax(-1)[..., :-1], v), s.logsumexp(-1).transpose(1, 2)


@pytest.mark.parametrize("count", [H, 1])
@pytest.mark.parametrize("causal, tokens", [(False, T), (True, T), (True, 4)])  # of 4 keys the first queries see none
def test_outputs_and_gradients_are_those_of_plain_pytorch(count, causal, tokens):
    q, k, v = qkv(tokens=tokens)
    sinks = sinks_of(count)
    got = phasor.attention(q, k, v, causal=causal, sinks=sinks, return_lse=True)
    want = naive(q, k, v, sinks, causal)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, atol=1e-13, rtol=0)

    def loss(pair):
        return pair[0].sin().sum() + pair[1].cos().sum()

    for a, b in zip(torch.autograd.grad(loss(got), (q, k, v, sinks)), torch.autograd.grad(loss(want), (q, k, v, sinks))):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_gradients_are_those_of_differences():
    q, k, v = qkv()
    assert torch.autograd.gradcheck(lambda *x: phasor.attention(*x[:3], causal=True, sinks=x[3], return_lse=True), (q, k, v, sinks_of()))


def test_beside_a_scheme_whose_tensors_learn_too():
    q, k, v = qkv()
    sinks, table = sinks_of(), torch.randn(H, 32, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, t: phasor.attention(q, k, v, phasor.T5(t), sinks=s), (sinks, table))


def test_numpy_is_the_same_as_pytorch():
    q, k, v = (x.detach() for x in qkv(torch.float32))
    want = phasor.attention(q, k, v, sinks=sinks_of(dtype=torch.float32)).detach()
    got = phasor.attention(*(x.numpy() for x in (q, k, v)), sinks=np.array([0.5, -1.0, 2.0, 0.25]))
    assert np.array_equal(got, want.numpy())
    assert "sinks" in phasor.explain_attention(q, k, v, sinks=[0.5])["words"]


def test_compiled_is_the_same_to_the_bit():
    sinks = sinks_of(dtype=torch.float32)

    def attend(q, k, v):
        return phasor.attention(q, k, v, causal=True, sinks=sinks, out_dtype=torch.float32)

    q, k, v = qkv(torch.bfloat16)
    out = torch.compile(attend, fullgraph=True)(q, k, v)
    assert out.dtype == torch.float32 and torch.equal(out, attend(q, k, v))
    got = torch.autograd.grad(out.sin().sum(), (q, sinks))
    want = torch.autograd.grad(attend(q, k, v).sin().sum(), (q, sinks))
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(got, want))


def test_opcheck_accepts_the_operator():
    from phasor._attention import call_of
    from phasor._torch.attention.text import encoded

    options = {"sinks": sinks_of(dtype=torch.float32), "out_dtype": torch.float32}
    torch.library.opcheck(torch.ops.phasor.attention.default, (*qkv(torch.bfloat16), *encoded(call_of(H, None, True, None, options))))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_float32_outputs_rounded_are_the_others(dtype):
    q, k, v = qkv(dtype)
    wide = phasor.attention(q, k, v, out_dtype=torch.float32)
    assert wide.dtype == torch.float32 and not torch.equal(wide, phasor.attention(q, k, v).float())
    assert torch.equal(wide.to(dtype), phasor.attention(q, k, v))
    wide.sum().backward()
    assert q.grad.dtype == dtype
    assert torch.equal(phasor.attention(q, k, v, out_dtype=dtype), phasor.attention(q, k, v))
    with torch.no_grad():
        assert torch.equal(phasor.attention(q, k, v, out_dtype="float32"), wide)


def test_numpy_has_float32_outputs_too():
    q, k, v = (x.detach().numpy() for x in qkv(torch.float16))
    wide = phasor.attention(q, k, v, out_dtype=np.float32)
    assert wide.dtype == np.float32 and np.array_equal(wide.astype(np.float16), phasor.attention(q, k, v))


@pytest.mark.parametrize("learned", [False, True])
def test_float32_parts_are_merged_to_16_bits(learned):
    q, k, v = (x if learned else x.detach() for x in qkv(torch.bfloat16))
    sinks = sinks_of(dtype=torch.float32).detach()
    parts = [
        phasor.attention(q, k[:, t:end], v[:, t:end], sinks=sinks if t == 0 else None, out_dtype=torch.float32, return_lse=True)
        for t, end in ((0, 4), (4, T))
    ]  # exactly one part takes the sinks
    out, lse = phasor.merge_attention(parts, out_dtype=torch.bfloat16)
    want, want_lse = phasor.attention(q, k, v, sinks=sinks, out_dtype=torch.float32, return_lse=True)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), want, atol=0, rtol=2**-8)
    torch.testing.assert_close(lse, want_lse, atol=1e-6, rtol=0)
    torch.testing.assert_close(phasor.merge_attention(parts)[0], want, atol=1e-6, rtol=0)


def test_what_does_not_fit_is_said():
    q, k, v = (x.detach() for x in qkv(torch.float32))
    with pytest.raises(ValueError, match=r"attention: sinks has shape \(1, 1, 3, 1\), wanted \(1, 1, 4 or 1, 1\)"):
        phasor.attention(q, k, v, sinks=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="attention: sinks have 2 axes, wanted 1"):
        phasor.attention(q, k, v, sinks=torch.zeros(1, 4))
    with pytest.raises(TypeError, match="attention: out_dtype is int32, wanted float32, or that of q"):
        phasor.attention(q, k, v, out_dtype=torch.int32)
    with pytest.raises(ValueError, match="attention: out is bf16, wanted f32"):
        phasor.attention(q, k, v, out_dtype=torch.bfloat16)
