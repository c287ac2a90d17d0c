# SPDX-License-Identifier: Apache-2.0
"""phasor.attention against scores spelled out: every scheme, forward and every gradient, in float64 and in what models use."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attention_oracle import B, CASES, D, H, TK, TQ, Case, Mask, naive, qkv

import phasor

NAMES = list(CASES)


def both(case: Case, mask: Mask, dtype=torch.float64, **options):
    """Outputs and gradients of phasor's attention and of the naive one."""
    results = []
    for ours in (True, False):
        at = dtype if ours else torch.float64
        inputs = [x.detach().to(dtype).to(at).requires_grad_() for x in qkv(*case.tokens)]
        x = {name: t.detach().to(dtype).to(at).requires_grad_() for name, t in case.tensors().items()}
        if ours:
            out, lse = phasor.attention(*inputs, scheme=case.scheme(x), return_lse=True, **mask.options(), **options)
        else:
            out, lse = naive(case, *inputs, x, mask, dtype=dtype, **options)
        weights = torch.rand(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(dtype).to(at)
        finite = torch.where(torch.isneginf(lse), 0.0, lse)
        ((out * weights).sum() + 0.3 * finite.sum()).backward()
        gradients = {name: t.grad for name, t in zip("qkv", inputs)} | {f"scheme.{name}": t.grad for name, t in x.items()}
        results.append({"out": out.detach(), "lse": lse.detach(), **gradients})
    return results


def compare(case: Case, mask: Mask, dtype=torch.float64, tolerance=1e-12, **options):
    got, want = both(case, mask, dtype, **options)
    for name in want:
        assert got[name] is not None, name
        scale = max(1.0, want[name][torch.isfinite(want[name])].abs().max().item())
        torch.testing.assert_close(got[name].double(), want[name], atol=tolerance * scale, rtol=0, msg=lambda m, n=name: f"{n}: {m}")
    assert got["out"].dtype == dtype and got["q"].dtype == dtype
    return got


@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_is_its_formula_with_every_gradient(name):
    case = CASES[name]
    compare(case, Mask(**case.mask))


@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_sees_no_further_than_causality_and_a_window_let_it(name):
    compare(CASES[name], Mask(causal=True, window=(3, None)))


# Bounds are of rounding the outputs: 2^-9 of bfloat16, 2^-12 of float16, a few times over for gradients that are sums; float32 has some
# dozens of roundings of 2^-24.
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-6), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)])
@pytest.mark.parametrize("name", ["none", "t5", "shaw_values", "xl", "deberta", "wavlm", "rope", "grid", "several"])
def test_other_dtypes_round_inputs_and_outputs_alone(name, dtype, tolerance):
    case = CASES[name]
    got = compare(case, Mask(**case.mask), dtype, tolerance)
    assert got["lse"].dtype == torch.float32
    assert all(gradient.dtype == dtype for key, gradient in got.items() if key.startswith("scheme."))


MASKS = {
    "mask": Mask(key_mask=torch.tensor([[1, 1, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)),
    "mask of bytes": Mask(causal=True, key_mask=torch.tensor([[1, 1, 0, 1, 1, 1, 0], [0, 1, 1, 1, 0, 1, 1]], dtype=torch.uint8)),
    "window": Mask(window=(2, 1)),
    "window ahead": Mask(window=(None, 0)),
    "prefix": Mask(causal=True, prefix=[4, 0]),
    "positions": Mask(causal=True, query_positions=torch.tensor([4, 9, 2, 2, 7]), key_positions=torch.tensor([1, 0, 8, 3, 3, 2, 9])),
    "positions a batch row": Mask(
        query_positions=torch.tensor([[4, 9, 2, 2, 7], [0, 1, 2, 3, 4]]),
        key_positions=torch.tensor([[1, 0, 8, 3, 3, 2, 9], [6, 5, 4, 3, 2, 1, 0]]),
    ),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["none", "t5", "shaw_values", "xl", "deberta", "rope"])
def test_every_mask(name, mask):
    compare(CASES[name], MASKS[mask])


@pytest.mark.parametrize("name", ["none", "shaw", "wavlm"])
def test_a_soft_cap_comes_after_the_terms(name):
    compare(CASES[name], Mask(), softcap=0.7, scale=1.0)


def test_a_soft_cap_does_not_show_what_a_dense_bias_hides():
    hidden = torch.arange(TK) % 3 == torch.arange(TQ)[:, None] % 3
    hidden[1] = True  # sees nothing
    case = Case(
        lambda x: phasor.Dense(x["bias"].masked_fill(hidden, -torch.inf)),
        {"bias": (B, H, TQ, TK)},
        lambda c: c.x["bias"].masked_fill(hidden, -torch.inf),
    )
    got = compare(case, Mask(), softcap=0.7, scale=1.0)
    assert torch.isneginf(got["lse"][:, 1]).all() and not got["scheme.bias"][:, :, hidden].any()


def test_rows_that_see_nothing_are_zero_and_have_no_gradient():
    q, k, v = qkv()
    mask = torch.zeros(B, TK, dtype=torch.bool)
    out, lse = phasor.attention(q, k, v, scheme=CASES["t5"].scheme(CASES["t5"].tensors()), key_mask=mask, return_lse=True)
    assert torch.equal(out, torch.zeros_like(out)) and torch.isneginf(lse).all()
    out.sum().backward()
    assert all(torch.equal(x.grad, torch.zeros_like(x)) for x in (q, k, v))


def test_sequences_of_a_ragged_batch_do_not_see_each_other():
    starts = [0, 3, 3, 10]
    q, k, v = (x.detach()[0].requires_grad_() for x in qkv(10, 10))
    x = CASES["several"].tensors()
    scheme = CASES["several"].scheme(x)
    out, lse = phasor.attention(q, k, v, scheme=scheme, causal=True, cu_seqlens=torch.tensor(starts, dtype=torch.int32), return_lse=True)
    assert out.shape == (10, H, D) and lse.shape == (10, H)
    out.sin().sum().backward()
    got = [t.grad.clone() for t in (q, k, v, *x.values())]
    for t in (q, k, v, *x.values()):
        t.grad = None
    parts = []
    for first, end in zip(starts, starts[1:]):
        if end > first:
            parts.append(phasor.attention(q[first:end], k[first:end], v[first:end], scheme=scheme, causal=True, return_lse=True))
    whole = torch.cat([part for part, _ in parts])
    whole.sin().sum().backward()
    torch.testing.assert_close(out, whole, atol=1e-13, rtol=0)
    torch.testing.assert_close(lse, torch.cat([part for _, part in parts]), atol=1e-13, rtol=0)
    for a, t in zip(got, (q, k, v, *x.values())):
        torch.testing.assert_close(a, t.grad, atol=1e-12, rtol=0)


def test_queries_and_keys_of_a_ragged_batch_have_starts_of_their_own():
    q, k, v = (x.detach()[0] for x in qkv(5, 10))
    out = phasor.attention(q, k, v, causal=True, scheme=phasor.Alibi(), cu_seqlens=([0, 2, 5], [0, 4, 10]))
    first = phasor.attention(q[:2], k[:4], v[:4], causal=True, scheme=phasor.Alibi())
    second = phasor.attention(q[2:], k[4:], v[4:], causal=True, scheme=phasor.Alibi())
    torch.testing.assert_close(out, torch.cat([first, second]), atol=1e-13, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_gives_what_pytorch_gives(name):
    case = CASES[name]
    inputs = [x.detach() for x in qkv(*case.tokens)]
    x = {key: t.detach() for key, t in case.tensors().items()}
    want, want_lse = phasor.attention(*inputs, scheme=case.scheme(x), return_lse=True, **Mask(**case.mask).options())
    arrays = {key: t.numpy() for key, t in x.items()}
    got, lse = phasor.attention(*(t.numpy() for t in inputs), scheme=case.scheme(arrays), return_lse=True, **Mask(**case.mask).options())
    assert isinstance(got, np.ndarray) and got.dtype == np.float64
    assert np.array_equal(got, want.numpy()) and np.array_equal(lse, want_lse.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_numpy_has_the_dtypes_too(dtype):
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    inputs = [x.detach().to(getattr(torch, dtype)) for x in qkv()]
    want = phasor.attention(*inputs, causal=True)
    got = phasor.attention(*(x.double().numpy().astype(kind) for x in inputs), causal=True)
    assert got.dtype == kind and np.array_equal(got.astype(np.float64), want.double().numpy())


def test_any_strides_will_do():
    q, k, v = qkv()
    want = phasor.attention(q, k, v)
    turned = [x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    channels_apart = [x.detach().transpose(1, 3).contiguous().transpose(1, 3) for x in (q, k, v)]
    for given in (turned, channels_apart, [x.numpy() for x in channels_apart]):
        assert torch.equal(torch.as_tensor(phasor.attention(*given)), want)


@pytest.mark.parametrize("kind", ["numpy", "torch", "torch with gradients"])
@pytest.mark.parametrize("ragged", [False, True])
def test_parts_of_the_keys_merge(kind, ragged):
    q, k, v = (x.detach() for x in qkv())
    want, want_lse = phasor.attention(q, k, v, scheme=phasor.Alibi(), causal=True, return_lse=True)
    if kind == "torch with gradients":
        q.requires_grad_()
    at = torch.arange(TK - TQ, TK)
    parts = []
    for first, end in ((0, 2), (2, 6), (6, TK)):
        args = [q, k[:, first:end], v[:, first:end]]
        if kind == "numpy":
            args = [x.numpy() for x in args]
        options = {"query_positions": at, "key_positions": torch.arange(first, end)}
        parts.append(phasor.attention(*args, scheme=phasor.Alibi(), causal=True, return_lse=True, **options))
    if ragged:
        parts = [(out[1], lse[1]) for out, lse in parts]
        want, want_lse = want[1], want_lse[1]
    out, lse = phasor.merge_attention(parts)
    if kind == "torch with gradients":
        (got,) = torch.autograd.grad(out.sin().sum() + lse.sum(), q)
        whole, whole_lse = phasor.attention(q, k, v, scheme=phasor.Alibi(), causal=True, return_lse=True)
        if ragged:
            whole, whole_lse = whole[1], whole_lse[1]
        torch.testing.assert_close(got, torch.autograd.grad(whole.sin().sum() + whole_lse.sum(), q)[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(torch.as_tensor(out), want, atol=1e-13, rtol=0)
    torch.testing.assert_close(torch.as_tensor(lse), want_lse, atol=1e-13, rtol=0)


def test_explain_says_what_a_call_would_do():
    x = torch.zeros(1, 700, 2, 64)
    causal = phasor.explain_attention(x, x, x, scheme=phasor.T5(torch.zeros(2, 32)), causal=True)
    assert causal["unseen_tiles"] > 0 and causal["far_tiles"] > 0 and causal["band_tiles"] > 0
    assert causal["workspace"] < 2 * 4 * 700 * 700  # the scores of two heads in float32
    assert "terms[0], bias" in causal["words"] and f"{causal['unseen_tiles']} unseen" in causal["words"]
    full = phasor.explain_attention(x.numpy(), x.numpy(), x.numpy())
    assert full["unseen_tiles"] == 0 and full["operations"] == full["plain_operations"] > causal["plain_operations"]


def test_a_certified_skip_changes_no_float32():
    q, k, v = (x.detach().repeat(1, 300, 1, 1) for x in qkv(dtype=torch.float32))
    plain = phasor.attention(q, k, v, scheme=phasor.Alibi(max_bias=2.0), causal=True)
    skipped = phasor.attention(q, k, v, scheme=phasor.Alibi(max_bias=2.0), causal=True, skip=True)
    torch.testing.assert_close(skipped, plain, atol=2**-22, rtol=0)


def test_heads_of_a_tensor_parallel_rank_keep_their_slopes():
    q, k, v = (x.detach() for x in qkv())
    want = phasor.attention(q, k, v, scheme=phasor.Alibi())
    second = phasor.attention(q[:, :, 2:], k[:, :, 1:], v[:, :, 1:], scheme=phasor.BiasTerm(phasor.Alibi(heads=H), first_head=2))
    assert torch.equal(second, want[:, :, 2:])


def test_shaw_without_a_clip_has_the_symmetric_one_of_its_rows():
    q, k, v = (x.detach() for x in qkv())
    keys, values = torch.randn(7, D, dtype=q.dtype), torch.randn(7, D, dtype=q.dtype)
    want = phasor.attention(q, k, v, scheme=phasor.Shaw(keys, values, left=3, right=3))
    assert torch.equal(phasor.attention(q, k, v, scheme=phasor.Shaw(keys, values)), want)
    assert torch.equal(phasor.attention(q, k, v, scheme=phasor.Shaw(keys, values, left=3)), want)
    assert torch.equal(phasor.attention(q, k, v, scheme=phasor.Shaw(keys[None].repeat(H, 1, 1), values, right=3)), want)
    alone = phasor.attention(q, k, v, scheme=phasor.Shaw(None, values, left=3, right=3))
    assert torch.equal(phasor.attention(q, k, v, scheme=phasor.Shaw(None, values)), alone)
    lopsided = phasor.attention(q, k, v, scheme=phasor.Shaw(keys[:4], left=3, right=0))
    assert torch.equal(phasor.attention(q, k, v, scheme=phasor.Shaw(keys[:4], left=3)), lopsided)


BAD = [
    ({"scheme": phasor.Shaw(np.zeros((4, D)))}, ValueError, "4 rows, which no symmetric clip has; wanted an odd number"),
    ({"scheme": phasor.Shaw(None)}, ValueError, "keys and values are both None"),
    ({"scheme": phasor.Shaw(np.zeros((5, D)), np.zeros((7, D)))}, ValueError, "rows"),
    ({"dropout": 1.0, "dropout_seed": 1}, ValueError, "dropout is 1, wanted 0 or above, and below 1"),
    ({"dropout": 0.5, "dropout_seed": -1}, ValueError, "dropout_seed is -1, wanted an integer of 64 bits"),
    ({"dropout": 0.5, "dropout_seed": [1, 2, 3]}, ValueError, "wanted an integer of 64 bits, or two"),
    ({"dropout": 0.5, "dropout_seed": np.zeros(2)[:, None]}, ValueError, "dropout_seed is"),
    ({"dropuot": 0.1}, TypeError, "no option 'dropuot'"),
    ({"window": (-1, 2)}, ValueError, "left -1"),
    ({"scheme": "t5"}, TypeError, "scheme is str"),
    ({"scheme": [phasor.Rope(phasor.Rotary(head_dim=D)), phasor.Xpos(phasor.Rotary(head_dim=D))]}, ValueError, "wanted one"),
    ({"scheme": phasor.Rope(phasor.Rotary(head_dim=8))}, ValueError, "head_dim"),
    ({"scheme": phasor.T5(np.zeros((3, 32)))}, ValueError, "heads"),
    ({"scheme": phasor.Shaw(np.zeros((4, D)), left=1, right=1)}, ValueError, "rows"),
    ({"scheme": phasor.Cope(np.zeros((4, D)))}, (ValueError, NotImplementedError), "causal"),
    ({"key_mask": np.ones((B, TK))}, TypeError, "bool or uint8"),
    ({"cu_seqlens": [0, 2]}, ValueError, "start"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_bad_calls_are_refused_with_words(number, kind):
    options, error, words = BAD[number]
    inputs = [x.detach() if kind == "torch" else x.detach().numpy() for x in qkv()]
    with pytest.raises(error, match=words):
        phasor.attention(*inputs, **options)


def test_bad_shapes_are_refused_with_words():
    q, k, v = (x.detach() for x in qkv())
    for args, words in (
        ((q[0], k, v), "axes"),
        ((q, k[..., :4], v), "q has width 6, k has 4"),
        ((q, k[:, :3], v), "k|keys|tokens"),
        ((q[:, :, :3], k, v), "heads"),
    ):
        with pytest.raises(ValueError, match=words):
            phasor.attention(*args)
    with pytest.raises((ValueError, TypeError), match="dtype|float"):
        phasor.attention(q.float(), k, v)
    with pytest.raises(ValueError, match="none"):
        phasor.merge_attention([])
