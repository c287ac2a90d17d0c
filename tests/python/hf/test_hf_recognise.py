# SPDX-License-Identifier: Apache-2.0
"""phasor.hf recognises rotations by their bits: every published way of writing one, and none that merely looks like one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from phasor.hf._complex import FUSED, separate_roundings
from phasor.hf._recognise import Rotation, recognise
from phasor.hf._replace import replacement, turned


def halves(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def neighbours(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def llama(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + halves(q) * sin, k * cos + halves(k) * sin


def one_tensor(x, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return x * cos + halves(x) * sin


def olmo(q, k, cos, sin, unsqueeze_dim=1):
    turned = llama(q, k, cos, sin, unsqueeze_dim)
    return turned[0].to(q.dtype), turned[1].to(k.dtype)


def partial(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    width = cos.shape[-1]
    turned = [torch.cat((t[..., :width] * cos + halves(t[..., :width]) * sin, t[..., width:]), dim=-1) for t in (q, k)]
    return turned[0], turned[1]


def glm(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = (t.unsqueeze(unsqueeze_dim)[..., : t.shape[-1] // 2].repeat_interleave(2, dim=-1) for t in (cos, sin))
    width = cos.shape[-1]
    turned = [torch.cat((t[..., :width] * cos + neighbours(t[..., :width]) * sin, t[..., width:]), dim=-1) for t in (q, k)]
    return turned[0], turned[1]


def deepseek_v3(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = (t[..., : t.shape[-1] // 2].unsqueeze(unsqueeze_dim) for t in (cos, sin))
    turned = [torch.cat((t[..., ::2] * cos - t[..., 1::2] * sin, t[..., 1::2] * cos + t[..., ::2] * sin), dim=-1) for t in (q, k)]
    return turned[0], turned[1]


def deepseek_v4(x, cos, sin, unsqueeze_dim=1):
    cos, sin = (t.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim) for t in (cos, sin))
    width = cos.shape[-1]
    turned = x[..., -width:].float() * cos + neighbours(x[..., -width:]).float() * sin
    return torch.cat((x[..., :-width], turned.to(x.dtype)), dim=-1)


def cohere(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    turned = [(t.float() * cos + neighbours(t.float()) * sin).to(t.dtype) for t in (q, k)]
    return turned[0], turned[1]


def vision(q, k, cos, sin):
    cos, sin = cos.unsqueeze(-2).float(), sin.unsqueeze(-2).float()
    turned = [(t.float() * cos + halves(t.float()) * sin).to(t.dtype) for t in (q, k)]
    return turned[0], turned[1]


def gptj(tensor, sin, cos):
    sin, cos = (torch.repeat_interleave(t[:, :, None, :], 2, 3) for t in (sin, cos))
    return tensor * cos + neighbours(tensor) * sin


def llama4(xq, xk, freqs_cis):
    numbers = [torch.view_as_complex(t.float().unflatten(-1, (-1, 2))) for t in (xq, xk)]
    turned = [torch.view_as_real(t * freqs_cis[:, :, None]).flatten(3) for t in numbers]
    return turned[0].type_as(xq), turned[1].type_as(xk)


def separate_products(xq, xk, freqs_cis):
    """Llama 4's rotation with a rounding for each product, which PyTorch's complex product has on some processors only."""
    cos, sin = freqs_cis[:, :, None].real, freqs_cis[:, :, None].imag
    pairs = [t.float().unflatten(-1, (-1, 2)).unbind(-1) for t in (xq, xk)]
    turned = [torch.stack((x * cos - y * sin, x * sin + y * cos), dim=-1).flatten(3) for x, y in pairs]
    return turned[0].type_as(xq), turned[1].type_as(xk)


def fused_products(xq, xk, freqs_cis):
    """The same with the first products fused: float64 holds a product of float32 exactly."""
    cos, sin = freqs_cis[:, :, None].real, freqs_cis[:, :, None].imag
    pairs = [t.float().unflatten(-1, (-1, 2)).unbind(-1) for t in (xq, xk)]
    wide = [(x.double() * cos.double() - (y * sin).double(), x.double() * sin.double() + (y * cos).double()) for x, y in pairs]
    turned = [torch.stack(parts, dim=-1).float().flatten(3) for parts in wide]
    return turned[0].type_as(xq), turned[1].type_as(xk)


def nanochat(q, k, cos, sin, unsqueeze_dim=1):
    return llama(q, k, cos, -sin, unsqueeze_dim)


def in_float64(hidden_states, cos, sin):
    wide = hidden_states.double()
    return (wide * cos.double() + neighbours(wide) * sin.double()).to(hidden_states.dtype)


def dinov3(q, k, cos, sin, **kwargs):
    sizes = (q.shape[-2] - sin.shape[-2], sin.shape[-2])
    (q_first, q_rest), (k_first, k_rest) = q.split(sizes, dim=-2), k.split(sizes, dim=-2)
    q_rest, k_rest = q_rest * cos + halves(q_rest) * sin, k_rest * cos + halves(k_rest) * sin
    return torch.cat((q_first, q_rest), dim=-2), torch.cat((k_first, k_rest), dim=-2)


def roformer(sinusoidal_pos, query_layer, key_layer, value_layer=None):
    sin, cos = (torch.stack([t, t], dim=-1).reshape_as(sinusoidal_pos) for t in sinusoidal_pos.chunk(2, dim=-1))
    turned = [t * cos + neighbours(t) * sin for t in (query_layer, key_layer, value_layer) if t is not None]
    return tuple(turned)


KNOWN: list[tuple[Callable, dict]] = [
    (llama, {"pairing": "half", "arithmetic": "dtype", "width": "lanes"}),
    (one_tensor, {"pairing": "half", "arithmetic": "dtype"}),
    (olmo, {"pairing": "half", "arithmetic": "dtype_back"}),
    (partial, {"pairing": "half", "place": "leading", "width": "lanes"}),
    (glm, {"pairing": "interleaved", "output_pairing": "interleaved", "width": "first_half"}),
    (deepseek_v3, {"pairing": "interleaved", "output_pairing": "half", "width": "first_half"}),
    (deepseek_v4, {"pairing": "interleaved", "place": "trailing", "width": "pairs", "arithmetic": "float32"}),
    (cohere, {"pairing": "interleaved", "arithmetic": "float32"}),
    (vision, {"pairing": "half", "arithmetic": "float32", "align": "-2"}),
    (gptj, {"pairing": "interleaved", "width": "pairs"}),
    (separate_products, {"pairing": "interleaved", "width": "pairs", "arithmetic": "float32"}),
    (nanochat, {"pairing": "half", "sense": "clockwise"}),
    (in_float64, {"pairing": "interleaved", "arithmetic": "float64"}),
    (dinov3, {"pairing": "half", "align": "none"}),
    (roformer, {"pairing": "interleaved", "width": "pairs"}),
]


@pytest.mark.parametrize("function, expected", KNOWN, ids=lambda x: getattr(x, "__name__", ""))
def test_a_published_way_to_rotate_is_recognised(function, expected):
    found = recognise(function)
    assert isinstance(found, Rotation), found
    assert {name: getattr(found.variant, name) for name in expected} == expected


def test_pytorchs_complex_product_is_recognised_where_its_roundings_are_separate_and_named_where_they_are_not():
    found = recognise(llama4)
    if separate_roundings():
        assert isinstance(found, Rotation), found
        assert (found.variant.pairing, found.variant.width, found.variant.arithmetic) == ("interleaved", "pairs", "float32")
    else:
        assert found == f"interleaved, hf_float32, complex: {FUSED}"


# fused_products is no rotation anywhere, and Llama 4's none where PyTorch fuses: other tests say so.
@pytest.mark.parametrize("function", [separate_products, *[llama4][: separate_roundings()]], ids=lambda f: f.__name__)
@pytest.mark.parametrize("pairs", [12, 16, 20, 32, 48])
def test_a_complex_rotation_has_its_own_bits_at_any_width_whoever_does_it(function, pairs):
    found = known(function)
    ours = replacement(function, found)
    x, y = torch.randn(2, 7, 3, 2 * pairs), torch.randn(2, 7, 1, 2 * pairs)
    table = torch.randn(2, 7, pairs, dtype=torch.complex64)
    for dtype in (torch.float32, torch.bfloat16):
        q, k = x.to(dtype), y.to(dtype)
        assert all(torch.equal(a, b) for a, b in zip(ours(q, k, table), function(q, k, table)))
        assert (turned(found, {}, (q, k, table), {}) is not None) == (pairs % 16 == 0)  # leftovers of a register are PyTorch's own matter


def test_which_products_pytorch_fuses_is_asked_and_not_assumed():
    """Separate in whole registers, or fused somewhere: then the answer is another one, in float32, in a fifth of the values or more."""
    a, b, c, s = torch.randn(4, 512, 16)
    got = torch.complex(a, b) * torch.complex(c, s)
    different = ((got.real != a * c - b * s) | (got.imag != a * s + b * c)).float().mean()
    assert different == 0 if separate_roundings() else different > 0.2


def scaled(q, k, cos, sin, unsqueeze_dim=1):
    turned = llama(q, k, cos, sin, unsqueeze_dim)
    return turned[0] * 1.0000001, turned[1]


def key_is_left(q, k, cos, sin, unsqueeze_dim=1):
    return llama(q, k, cos, sin, unsqueeze_dim)[0], k


def sign_is_wrong(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + torch.cat((q[..., q.shape[-1] // 2 :], q[..., : q.shape[-1] // 2]), dim=-1) * sin, k * cos + halves(k) * sin


def one_rounding_more(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    turned = [(t.float() * cos).to(t.dtype) + (halves(t.float()) * sin).to(t.dtype) * 1 for t in (q, k)]
    return tuple((t.float() + 0).to(torch.float16).to(t.dtype) if t.dtype == torch.bfloat16 else t for t in turned)


def fused(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim).double(), sin.unsqueeze(unsqueeze_dim).double()
    return tuple((t.double() * cos + (halves(t) * sin.to(t.dtype)).double()).to(t.dtype) for t in (q, k))


@pytest.mark.parametrize("function", [scaled, key_is_left, sign_is_wrong, one_rounding_more, fused, fused_products], ids=lambda f: f.__name__)
def test_what_differs_by_a_bit_is_not_recognised(function):
    assert isinstance(recognise(function), str)


@functools.cache
def known(function):
    """recognise, once per function."""
    return recognise(function)


def test_the_reason_names_a_parameter_that_is_not_known():
    def cross(q, k, cos, sin, cos_k, sin_k):
        return q, k

    assert "'cos_k'" in recognise(cross)


def test_a_call_with_another_option_goes_to_the_models_own_function():
    calls = []

    def optional(q, k, cos, sin, exclude=0):
        calls.append(exclude)
        return vision(q, k, cos, sin)

    ours = replacement(optional, recognise(optional))
    q, k, cos, sin = torch.randn(5, 3, 8), torch.randn(5, 1, 8), torch.randn(5, 8), torch.randn(5, 8)
    ours(q, k, cos, sin)  # the first of its kind is done by both
    calls.clear()
    assert torch.equal(ours(q, k, cos, sin)[0], vision(q, k, cos, sin)[0])
    assert calls == []
    ours(q, k, cos, sin, exclude=2)
    assert calls == [2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(1, 7, 1, 6), (3, 1, 11, 30), (2, 3, 5, 64)])
def test_a_replaced_function_has_the_bits_of_the_original_at_any_shape_and_stride(dtype, shape):
    ours = replacement(partial, known(partial))
    batch, heads, tokens, width = shape
    q = torch.randn(batch, tokens, heads, width).to(dtype).transpose(1, 2)  # as a projection leaves it
    k = torch.randn(batch, 1, tokens, 2 * width).to(dtype)[..., width:]
    cos, sin = (torch.randn(batch, tokens, width - 2).to(dtype) for _ in range(2))
    for got, wanted in zip(ours(q, k, cos, sin), partial(q, k, cos, sin)):
        assert got.dtype == wanted.dtype and torch.equal(got, wanted)


@pytest.mark.parametrize("patches", [1, 4, 6])
def test_tokens_before_the_first_row_do_not_turn_even_when_there_is_one_row(patches):
    ours = replacement(dinov3, known(dinov3))
    q, k, cos, sin = torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 8), torch.randn(patches, 8), torch.randn(patches, 8)
    assert all(torch.equal(a, b) for a, b in zip(ours(q, k, cos, sin), dinov3(q, k, cos, sin)))


@pytest.mark.parametrize("heads, tokens", [(1, 1), (1, 5), (4, 1)])
def test_one_head_or_one_token_is_served_in_either_order(heads, tokens):
    found = known(llama)
    cos, sin = torch.randn(2, tokens, 8), torch.randn(2, tokens, 8)
    for shape, axis in (((2, heads, tokens, 8), 1), ((2, tokens, heads, 8), 2)):
        q, k = torch.randn(shape), torch.randn(shape)
        got = turned(found, {}, (q, k, cos, sin), {"unsqueeze_dim": axis})
        assert got is not None and all(torch.equal(a, b) for a, b in zip(got, llama(q, k, cos, sin, axis)))


def test_tables_that_learn_keep_their_gradient():
    ours = replacement(llama, known(llama))
    q, k, sin = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8), torch.randn(1, 3, 8)
    cos = torch.randn(1, 3, 8, requires_grad=True)
    ours(q, k, cos, sin)[0].sum().backward()
    assert cos.grad is not None and cos.grad.abs().max() > 0
