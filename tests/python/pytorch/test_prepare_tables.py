# SPDX-License-Identifier: Apache-2.0
"""phasor.prepare_attention by given tables: as apply_rotary, alone, to caches, after norms, compiled, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import phasor

TOKENS, HEADS, KEY_HEADS, DIM = 7, 4, 2, 32
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("numerics", ["exact", "hf", "vllm"])
@pytest.mark.parametrize("shape", [(TOKENS, DIM // 2), (TOKENS, DIM), (1, TOKENS, DIM // 2), (1, TOKENS, HEADS, DIM // 2)])
def test_given_tables_are_those_of_apply_rotary(dtype: torch.dtype, numerics: str, shape: tuple[int, ...]) -> None:
    """Of torch and of NumPy; to caches, too."""
    cos, sin = (numbers(*shape, seed=seed, dtype=dtype) for seed in (5, 6))
    q, k = (numbers(TOKENS, HEADS, DIM, seed=seed, dtype=dtype) for seed in (0, 1))
    wanted = phasor.apply_rotary(q, k, cos, sin, numerics=numerics)
    layout = phasor.TableLayout(numerics=numerics)
    for made, expected in zip(phasor.prepare_attention(q, k, cos=cos, sin=sin, layout=layout), wanted):
        assert torch.equal(made, expected)
    cache = torch.zeros(1, TOKENS, HEADS, DIM, dtype=dtype)
    phasor.prepare_attention(k=k, cos=cos, sin=sin, layout=layout, k_cache=phasor.Cache(cache))
    assert torch.equal(cache[0], wanted[1])
    if dtype == torch.float32:
        made = phasor.prepare_attention(q.numpy(), cos=cos.numpy(), sin=sin.numpy(), layout=layout)
        assert isinstance(made, np.ndarray) and (made == wanted[0].numpy()).all()


def test_tables_that_do_not_fit_are_refused() -> None:
    q, cos = numbers(TOKENS, HEADS, DIM), torch.ones(TOKENS, DIM // 2)
    wrong: dict[str, dict[str, Any]] = {
        "one of cos and sin is given": {"cos": cos},
        "a layout is given without tables": {"layout": phasor.TableLayout()},
        "rotaries and tables are given": {"cos": cos, "sin": cos, "rotary": phasor.Rotary(head_dim=DIM)},
        "cos has 6 tokens, wanted 7": {"cos": cos[1:], "sin": cos[1:]},
        "cos is f64 and q is f32": {"cos": cos.double(), "sin": cos.double()},
        "pairing is 'odd', wanted 'half', 'interleaved'": {"cos": cos, "sin": cos, "layout": phasor.TableLayout(pairing="odd")},
    }
    for message, given in wrong.items():
        with pytest.raises(ValueError, match=message):
            phasor.prepare_attention(q, **given)


LAYOUTS = {
    "half": phasor.TableLayout(rotary_width=16, rotary_offset=4),
    "interleaved": phasor.TableLayout(rotary_width=16, rotary_offset=4, pairing="interleaved", sense="clockwise"),
    "across": phasor.TableLayout(rotary_width=16, rotary_offset=4, pairing="interleaved", output_pairing="half", segments=2),
}


def fields_of(layout: phasor.TableLayout) -> dict[str, Any]:
    return {name: getattr(layout, name) for name in phasor.TableLayout.__dataclass_fields__}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("compiled", [False, True])
def test_tables_are_those_of_apply_rotary_with_its_gradients(layout: phasor.TableLayout, width: int, compiled: bool) -> None:
    """With a value for each pair, or each channel: a norm, then apply_rotary; by autograd the same."""
    cos, sin = numbers(2, TOKENS, width, seed=20), numbers(2, TOKENS, width, seed=21)

    def prepared(q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        return phasor.prepare_attention(q, k, cos=cos, sin=sin, layout=layout, k_norm=phasor.HeadNorm())

    q, k = numbers(2, TOKENS, HEADS, 24).requires_grad_(), numbers(2, TOKENS, KEY_HEADS, 24, seed=1).requires_grad_()
    outs = (torch.compile(prepared, fullgraph=True, backend="aot_eager") if compiled else prepared)(q, k)
    wanted = phasor.apply_rotary(q, phasor.prepare_attention(k=k, k_norm=phasor.HeadNorm()), cos, sin, **fields_of(layout))
    by = [numbers(*out.shape, seed=30 + i) for i, out in enumerate(outs)]
    for made, expected in zip((*outs, *torch.autograd.grad(outs, (q, k), by)), (*wanted, *torch.autograd.grad(wanted, (q, k), by))):
        assert torch.equal(made, expected)


def test_tables_that_learn_are_refused() -> None:
    cos, sin = numbers(TOKENS, DIM // 2).requires_grad_(), numbers(TOKENS, DIM // 2)
    with pytest.raises(NotImplementedError, match="positions or tables require a gradient"):
        phasor.prepare_attention(numbers(TOKENS, HEADS, DIM), cos=cos, sin=sin)
