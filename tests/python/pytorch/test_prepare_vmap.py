# SPDX-License-Identifier: Apache-2.0
"""phasor.prepare_attention without caches under vmap and torch.func.grad: what a loop of calls gives, in one call where rows allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from test_prepare_gradient import DIM, HEADS, KEY_HEADS, ROPE, TOKENS, Watch, numbers
from torch import Tensor

import phasor

MAPPED = 3
ROPES = [ROPE, phasor.Rotary(head_dim=DIM, rotary_width=16, rotary_offset=4, base=1e6)]


@pytest.fixture(autouse=True)
def no_slow_loop() -> Iterator[None]:
    """PyTorch's own loop, for operators without a rule, is an error."""
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(True)


def qk(q: Tensor, k: Tensor, weight: Tensor, at: Any = 9, **more: Any) -> tuple[Tensor, ...]:
    norms = {name: phasor.HeadNorm(weight=weight, epsilon=0.5) for name in ("q_norm", "k_norm")}
    return phasor.prepare_attention(q, k, **{"rotary": ROPE, "positions": at, **norms, **more})


def by_tables(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return phasor.prepare_attention(q, cos=cos, sin=sin)


Q, K, W = (numbers(*shape, seed=i) for i, shape in enumerate([(MAPPED, 2, TOKENS, HEADS, DIM), (MAPPED, 2, TOKENS, KEY_HEADS, DIM), (DIM,)]))
FACTORS, ROWS, POSITIONS = numbers(MAPPED, 2, TOKENS, seed=4).abs(), torch.tensor([[0, 1], [1, 1], [1, 0]]), torch.arange(MAPPED * 2 * TOKENS).reshape(MAPPED, 2, TOKENS)
TABLE = numbers(TOKENS, DIM // 2, MAPPED, seed=5)
CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], tuple[int | None, ...], int]] = {
    # a call, its tensors with the mapped axis, where that is, and how many calls of the operator there may be
    "rows": (qk, (Q, K, W), (0, 0, None), 1),
    "one of them": (qk, (Q, K[0], W), (0, None, None), 1),
    "tokens, another axis": (qk, (Q[:, 0].movedim(0, 2), K[:, 0].movedim(0, 3), W), (2, 3, None), 1),
    "positions": (qk, (Q, K, W, POSITIONS.movedim(0, 2)), (0, 0, None, 2), 1),
    "shared positions": (qk, (Q, K, W, POSITIONS[0]), (0, 0, None, None), 1),
    "positions alone": (qk, (Q[0], K[0], W, POSITIONS[:, 0]), (None, None, None, 0), 1),
    "factors": (lambda q, k, w, f: qk(q, k, w, query_factors=f), (Q, K, W, FACTORS), (0, 0, None, 0), 1),
    "shared factors of tokens": (lambda q, k, w, f: qk(q, k, w, query_factors=f), (Q[:, 0], K[:, 0], W, FACTORS[0, 0]), (0, 0, None, None), 1),
    "specs by row": (lambda q, k, w, of: qk(q, k, w, rotary=ROPES, spec_of=of), (Q, K, W, ROWS.T.contiguous()), (0, 0, None, 1), 1),
    "shared specs by token": (lambda q, k, w, of: qk(q, k, w, rotary=ROPES, spec_of=of), (Q, K, W, (POSITIONS[0] % 2).reshape(-1)), (0, 0, None, None), 1),
    "tables": (by_tables, (Q[0], TABLE.cos(), TABLE.sin()), (None, 2, 2), 1),
    "shared tables": (by_tables, (Q, TABLE[..., 0].cos(), TABLE[..., 0].sin()), (0, None, None), 1),
    "weights": (qk, (Q, K[0], numbers(DIM, MAPPED, seed=6)), (0, None, 1), MAPPED),
}


def tuple_of(x: Any) -> tuple[Tensor, ...]:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", CASES)
def test_vmap_gives_what_a_loop_gives(name: str) -> None:
    call, given, dims, calls = CASES[name]
    given = tuple(x.clone().requires_grad_(x.is_floating_point() and call is qk) for x in given)
    with Watch() as watch:
        got = tuple_of(torch.vmap(call, dims)(*given))
    assert len(watch.seen) == calls
    each = [tuple_of(call(*(x if dim is None else x.select(dim, i).contiguous() for x, dim in zip(given, dims)))) for i in range(MAPPED)]
    wanted = tuple(torch.stack(parts) for parts in zip(*each))
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    if call is not qk:
        return
    by = [numbers(*x.shape, seed=7) for x in got]
    learning = [x for x in given if x.requires_grad]
    for x, a, b in zip(learning, torch.autograd.grad(got, learning, by), torch.autograd.grad(wanted, learning, by)):
        # A shared tensor's gradient is a sum of as many numbers as there are calls, which one call of the core rounds once.
        bound = 0 if x.ndim == 5 else 2 * MAPPED * 2.0**-24 * float(b.abs().max())
        assert float((a - b).abs().max()) <= bound and float(b.abs().max()) > 1e-3


def test_gradients_of_torch_func_and_of_many_at_once() -> None:
    q, k = Q[0], K[0]
    by = [numbers(*x.shape, seed=8) for x in (q, k)]

    def loss(q: Tensor, weight: Tensor) -> Tensor:
        return sum((x * y).sum() for x, y in zip(qk(q, k, weight), by))

    learning = [x.clone().requires_grad_() for x in (q, W)]
    wanted = torch.autograd.grad(loss(*learning), learning)
    assert all(torch.equal(a, b) for a, b in zip(torch.func.grad(loss, (0, 1))(q, W), wanted))
    each = torch.func.vmap(torch.func.grad(loss, (0, 1)), (0, None))(Q, W)
    for i in range(MAPPED):
        assert all(torch.equal(a[i], b) for a, b in zip(each, torch.func.grad(loss, (0, 1))(Q[i], W)))
    out, back = torch.func.vjp(lambda q, weight: qk(q, k, weight)[0], q, W)
    many = numbers(MAPPED, *out.shape, seed=9)
    for i, batched in enumerate(zip(*torch.func.vmap(back)(many))):
        assert all(torch.equal(a, b) for a, b in zip(batched, back(many[i])))


def test_second_and_forward_gradients_inside_of_transforms_are_refused() -> None:
    def loss(q: Tensor) -> Tensor:
        return qk(q, K[0], W)[0].square().sum()

    with pytest.raises(NotImplementedError, match="prepare_attention: the gradient of its gradient"):
        torch.func.grad(lambda q: torch.func.grad(loss)(q).square().sum())(Q[0])
    for transformed in (torch.func.jacfwd(loss), torch.func.hessian(loss)):
        with pytest.raises(NotImplementedError, match="prepare_attention: a tensor has a forward-mode gradient"):
            transformed(Q[0])


def test_compiled() -> None:
    call = torch.func.vmap(lambda q, k: qk(q, k, W))
    assert all(torch.equal(a, b) for a, b in zip(torch.compile(call, fullgraph=True, backend="aot_eager")(Q, K), call(Q, K)))
    torch._dynamo.reset()


def test_what_writes_is_refused() -> None:
    cache = torch.zeros(2, TOKENS, KEY_HEADS, DIM)
    words = "prepare_attention: called inside of (a transform of torch.func|vmap)"
    for call in (
        lambda k: phasor.prepare_attention(k, k=k, rotary=ROPE, k_cache=phasor.Cache(cache)),
        lambda k: phasor.prepare_attention(k, rotary=ROPE, q_out=k),
    ):
        with pytest.raises(NotImplementedError, match=words):
            torch.func.vmap(call)(K)
    assert not cache.any()
