# SPDX-License-Identifier: Apache-2.0
"""Eager calls with a gradient go past PyTorch's dispatcher, with the bits of the operator; where somebody looks on, it is the operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import phasor
from phasor._torch.attention import operators


class Seen(TorchDispatchMode):
    """Names of our operators that the dispatcher meets."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "phasor":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def leaves(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    shapes = [(2, 5, 3, 16)] * 3 + [(3, 8)]
    return [torch.randn(shape, generator=draw).to(dtype).requires_grad_() for shape in shapes]


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scheme = phasor.T5(table, bidirectional=False, max_distance=16)
    return phasor.attention(q, k, v, scheme=scheme, causal=True, return_lse=True, query_positions=[4, 0, 1, 3, 2], key_positions=range(5))


def gradients(out: torch.Tensor, lse: torch.Tensor, of: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad((out.float() ** 2).sum() + (lse * 0.3).nan_to_num(neginf=0).sum(), of)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_same_bits_as_the_operator(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    given = leaves(dtype)
    past = [*run(*given)]
    past += gradients(*past, given)
    monkeypatch.setattr(operators, "plain_call", lambda contents, call: False)
    monkeypatch.setattr(operators.Attended, "apply", None)
    by_operator = [*run(*given)]
    by_operator += gradients(*by_operator, given)
    assert all(torch.equal(a, b) for a, b in zip(past, by_operator, strict=True))


def test_who_looks_on_sees_operators_and_else_there_are_none() -> None:
    given = leaves()
    with Seen() as seen:
        out, lse = run(*given)
        gradients(out, lse, given)
    assert seen.names == ["attention", "attention_backward"]
    out, lse = run(*given)
    assert type(out.grad_fn).__name__ == "AttendedBackward"
    with Seen() as seen:
        gradients(out, lse, given)
    assert seen.names == ["attention_backward"]


def test_a_gradient_of_the_gradient_is_refused_with_words() -> None:
    q, k, v, table = leaves()
    out, lse = run(q, k, v, table)
    (first,) = torch.autograd.grad((out**2).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="attention: the gradient of its gradient is wanted"):
        torch.autograd.grad(first.sum(), q)


def test_what_needs_no_gradient_gets_none() -> None:
    q, k, v, table = leaves()
    out, lse = run(q, k.detach(), v, table.detach())
    out.sum().backward()
    assert q.grad is not None and v.grad is not None and k.grad is None and table.grad is None
