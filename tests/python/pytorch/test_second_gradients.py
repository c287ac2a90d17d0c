# SPDX-License-Identifier: Apache-2.0
"""The gradient of a gradient: right where there is one, and refused by name where there is none. None is a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import phasor
import phasor.nn
from phasor._torch import words_of

D, T, H = 6, 4, 2
ROPE = phasor.Rotary(D, scaling=phasor.YarnScaling(4.0, 64))
ops = torch.ops.phasor


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


NARROW = drawn(1, T, H, D).detach().float().requires_grad_()  # prepare_attention has no float64
Q, X, TABLE, F = drawn(1, T, H, D), drawn(T, D, seed=1), drawn(9, D, seed=2), drawn(D // 2, seed=3)
AT, WORDS = torch.arange(T, dtype=torch.float64), words_of(ROPE)
TEXT = phasor.nn.Sinusoidal(D).text
EVERY: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "rotary": (lambda q: ROPE(q, positions=3), (Q,)),
    "tables": (lambda q, c, s: phasor.apply_rotary(q, None, c, s), (Q, drawn(T, D // 2, seed=4), drawn(T, D // 2, seed=5))),
    "rotaries": (lambda q: phasor.apply_rotaries([ROPE, ROPE], [1], q, positions=3), (Q,)),
    "add_sinusoidal": (lambda x, a: ops.add_sinusoidal(x, TEXT, None, 3, a), (X, drawn(seed=6))),
    "lookup_add": (lambda x, t: phasor.lookup_add(x, t, [1, 3, 3, 0]), (X, TABLE)),
    "hierarchical_table": (lambda t: phasor.hierarchical_table(t, 20), (TABLE,)),
    "learned_rotary by x": (lambda q: ops.learned_rotary(q, WORDS, F.detach(), None, 3, 0), (Q,)),
    "t5 bias": (lambda t: torch.func.functional_call(phasor.nn.T5Bias(H), {"weight": t}, (T,)), (drawn(H, 32, seed=7),)),
}
NONE: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str]] = {
    "attention": (lambda q: phasor.attention(q, q, q), (Q,), "attention: the gradient of its gradient is wanted"),
    "attention by a table": (lambda t: phasor.attention(Q.detach(), Q.detach(), Q.detach(), phasor.T5(t)), (drawn(H, 32, seed=7),), "attention: the gradient of its gradient is wanted"),
    "prepare_attention": (lambda q: phasor.prepare_attention(q, rotary=ROPE), (NARROW,), "prepare_attention: the gradient of its gradient is wanted"),
    "learned_rotary by frequencies": (lambda f: ops.learned_rotary(Q.detach(), WORDS, f, None, 3, 0), (F,), "learned_rotary: second derivatives by frequencies or positions are not there"),
    "learned_rotary by positions": (lambda p: ROPE(Q.detach(), positions=p), (AT.clone().requires_grad_(),), "learned_rotary: second derivatives by frequencies or positions are not there"),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_second_gradients_are_right(name: str) -> None:
    """Against differences of first gradients, of a function of the result that is not linear."""
    call, given = EVERY[name]
    assert torch.autograd.gradgradcheck(lambda *x: call(*x).sin(), given)


@pytest.mark.parametrize("name", NONE)
def test_second_gradients_are_refused_by_name(name: str) -> None:
    call, given, words = NONE[name]
    first = torch.autograd.grad(call(*given).sin().sum(), given, create_graph=True)
    with pytest.raises(NotImplementedError, match=words):
        torch.autograd.grad(sum(x.square().sum() for x in first), given)
    if not name.startswith("attention"):  # which torch.func's transforms do not take: PyTorch says so
        with pytest.raises(NotImplementedError, match=words):
            torch.func.grad(lambda *x: torch.func.grad(lambda *y: call(*y).sin().sum())(*x).square().sum())(*[x.detach() for x in given])
