# SPDX-License-Identifier: Apache-2.0
"""phasor.prepare_attention for training: into new tensors, with the gradients that PyTorch's own autograd has of a norm and a rotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import phasor

TOKENS, HEADS, KEY_HEADS, DIM = 7, 5, 2, 24
ROPE = phasor.Rotary(head_dim=DIM, rotary_width=16, rotary_offset=4, scaling=phasor.YarnScaling(factor=4, original_length=64))
NORMS: dict[str, dict[str, Any]] = {
    "rms": {},
    "gemma": {"weight_as": "one_plus"},
    "qwen": {"cast": "before_weight", "epsilon": 1e-3},
    "l2": {"kind": "l2", "epsilon": 0.5},
    "all heads": {"over": "all_heads"},
    "latent": {"width": 10},
}


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def tensors(shape: tuple[int, ...] = (2, TOKENS), dtype: torch.dtype = torch.float32, width: int = DIM) -> dict[str, Tensor]:
    made = {"q": (*shape, HEADS, DIM), "k": (*shape, KEY_HEADS, DIM), "v": (*shape, KEY_HEADS, DIM), "q_weight": (width,), "k_weight": (KEY_HEADS, width)}
    return {name: numbers(*size, seed=i, dtype=dtype) for i, (name, size) in enumerate(made.items())}


def normed(x: Tensor, weight: Tensor | None, kind: str = "rms", over: str = "head", weight_as: str = "plain", **more: Any) -> Tensor:
    """A norm by PyTorch's operations, in the dtype of x."""
    width = more.get("width", 0) or x.shape[-1]
    part = x[..., :width]
    axes = (-2, -1) if over == "all_heads" else (-1,)
    squares = part.square().sum(axes, keepdim=True)
    count = width * (x.shape[-2] if over == "all_heads" else 1)
    made = part * torch.rsqrt((squares / count if kind == "rms" else squares) + more.get("epsilon", 1e-6))
    if weight is not None:
        made = made * ((1 + weight) if weight_as == "one_plus" else weight)
    return torch.cat((made, x[..., width:]), -1)


def by_pytorch(norm: dict[str, Any], q: Tensor, k: Tensor, v: Tensor, q_weight: Tensor, k_weight: Tensor, at: Any) -> tuple[Tensor, ...]:
    return ROPE(normed(q, q_weight, **norm), positions=at) * 0.5, ROPE(normed(k, k_weight, **norm), positions=at), normed(v, None, **norm)


def by_phasor(norm: dict[str, Any], q: Tensor, k: Tensor, v: Tensor, q_weight: Tensor, k_weight: Tensor, at: Any) -> tuple[Tensor, ...]:
    norms = [phasor.HeadNorm(weight=weight, **norm) for weight in (q_weight, k_weight, None)]
    return phasor.prepare_attention(q, k, v, rotary=ROPE, positions=at, q_norm=norms[0], k_norm=norms[1], v_norm=norms[2], query_scale=0.5)


class Watch(torch.utils._python_dispatch.TorchDispatchMode):
    """Which operators of ours are called, and with what."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "phasor":
            self.seen.append((function, args))
        return function(*args, **(kwargs or {}))


Call = Callable[..., tuple[Tensor, ...]]


def results(call: Call, norm: dict[str, Any], given: dict[str, Tensor], at: Any, by: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Results, and gradients by every tensor."""
    learning = {name: x.clone().requires_grad_() for name, x in given.items()}
    outs = call(norm, **learning, at=at)
    return list(outs), list(torch.autograd.grad(outs, list(learning.values()), [x.to(out.dtype) for x, out in zip(by, outs)]))


def close(got: Tensor, wanted: Tensor, terms: int) -> bool:
    """Float32 beside float64: `terms` roundings of numbers as large as the largest of their sum."""
    return float((got.detach().double() - wanted.detach()).abs().max()) <= terms * 2.0**-24 * float(wanted.detach().abs().max())


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(2, TOKENS), (TOKENS,)])
@pytest.mark.parametrize("rows", [False, True])
def test_gradients_are_those_of_pytorch(name: str, shape: tuple[int, ...], rows: bool) -> None:
    norm = NORMS[name]
    given = tensors(shape, width=norm.get("width", DIM))
    at = torch.arange(TOKENS) * 100 if not rows or len(shape) == 1 else torch.arange(2 * TOKENS).reshape(2, TOKENS)
    by = [numbers(*shape, heads, DIM, seed=20 + heads) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    outs, gradients = results(by_phasor, norm, given, at, by)
    wide = {key: x.double() for key, x in given.items()}
    wanted_outs, wanted = results(by_pytorch, norm, wide, at, [x.double() for x in by])
    # A head: its norm's sum over channels (of all heads), root, reciprocal, weight, rotation, scale, forward and backward.
    channels = DIM * (HEADS if name == "all heads" else 1)
    for got, want in zip(outs, wanted_outs):
        assert got.dtype == torch.float32 and close(got, want, channels + 12)
    for key, got, want in zip(given, gradients, wanted):
        tokens = (2 * TOKENS * HEADS) if key.endswith("weight") else 1
        assert got.shape == given[key].shape and close(got, want, tokens + 4 * channels + 24), key
        assert want.abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_sixteen_bits_are_rounded_ones(dtype: torch.dtype) -> None:
    given = tensors(dtype=dtype)
    by = [numbers(2, TOKENS, heads, DIM, seed=20 + heads, dtype=dtype) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    _, gradients = results(by_phasor, {}, given, 9, by)
    _, wanted = results(by_pytorch, {}, {key: x.double() for key, x in given.items()}, 9, [x.double() for x in by])
    ulp = float(torch.finfo(dtype).eps)
    for key, got, want in zip(given, gradients, wanted):
        assert got.dtype == dtype
        # Each of the steps (scale, rotation, weight, norm) is rounded to the dtype, and the sums have such terms; a weight's are independent.
        terms = 8 * (TOKENS * 2) ** 0.5 if key.endswith("weight") else 8
        assert float((got.double() - want).abs().max()) <= terms * ulp * float(want.abs().max()), key


def test_gradients_of_a_latent_head_whose_queries_are_rotated_elsewhere() -> None:
    """MLA: k is a latent part, normed, and a rotated one; q has the rotated channels first."""
    rope = phasor.Rotary(head_dim=DIM, rotary_width=8, rotary_offset=16, pairing="interleaved")
    turned = phasor.Rotary(head_dim=12, rotary_width=8, rotary_offset=2, pairing="interleaved")
    q, k, weight = numbers(TOKENS, HEADS, 12), numbers(TOKENS, 1, DIM, seed=1), numbers(16, seed=2)
    by = [numbers(*x.shape, seed=5) for x in (q, k)]

    def own(q: Tensor, k: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        norm = phasor.HeadNorm(weight=weight, width=16)
        return phasor.prepare_attention(q, k, rotary=rope, positions=9, k_norm=norm, q_rotary_offset=2)

    def theirs(q: Tensor, k: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return turned(q, positions=9), rope(normed(k, weight, width=16), positions=9)

    made = []
    for call, dtype in ((own, torch.float32), (theirs, torch.float64)):
        given = [x.to(dtype).requires_grad_() for x in (q, k, weight)]
        outs = call(*given)
        made.append([*outs, *torch.autograd.grad(outs, given, [x.to(dtype) for x in by])])
    assert all(close(got, want, TOKENS + 5 * 16) for got, want in zip(*made, strict=True))


def test_results_are_those_with_caches() -> None:
    given = tensors((TOKENS,))
    q, k, v = by_phasor(NORMS["qwen"], **given, at=3)
    k_cache, v_cache = (torch.zeros(1, TOKENS, KEY_HEADS, DIM) for _ in range(2))
    norms = [phasor.HeadNorm(weight=given.get(name), **NORMS["qwen"]) for name in ("q_weight", "k_weight", "none")]
    q_out = phasor.prepare_attention(
        given["q"], given["k"], given["v"], rotary=ROPE, positions=3, q_norm=norms[0], k_norm=norms[1], v_norm=norms[2], query_scale=0.5,
        k_cache=phasor.Cache(k_cache), v_cache=phasor.Cache(v_cache),
    )  # fmt: skip
    assert torch.equal(q, q_out) and torch.equal(k, k_cache[0]) and torch.equal(v, v_cache[0])


def test_what_is_given_comes_back() -> None:
    given = tensors((TOKENS,))
    q, k = given["q"], given["k"]
    both = phasor.prepare_attention(q, k, rotary=ROPE, positions=5)
    assert isinstance(both, tuple) and all(torch.equal(a, b) for a, b in zip(both, ROPE(q, k, 5), strict=True))
    assert torch.equal(phasor.prepare_attention(k=k, rotary=ROPE, positions=5), ROPE(k, positions=5))
    arrays = phasor.prepare_attention(q.numpy(), k.numpy(), rotary=ROPE, positions=5)
    assert all(isinstance(a, np.ndarray) and (a == b.numpy()).all() for a, b in zip(arrays, both, strict=True))
    with pytest.raises(ValueError, match="k is given and has no output"):
        phasor.prepare_attention(q, k, rotary=ROPE, slots=torch.arange(TOKENS))


@pytest.mark.parametrize("learning", [("q",), ("k_weight",), ("q", "v"), ("q_weight", "k"), ("v",)])
def test_only_what_learns_gets_a_gradient(learning: tuple[str, ...]) -> None:
    given = tensors()
    by = [numbers(2, TOKENS, heads, DIM, seed=20 + heads) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    _, every = results(by_phasor, {}, given, 9, by)
    for name in learning:
        given[name].requires_grad_()
    outs = by_phasor({}, **given, at=9)
    with Watch() as watch:
        torch.autograd.backward([out for out in outs if out.requires_grad], [g for g, out in zip(by, outs) if out.requires_grad])
    needed = [any(name[0] == head for name in learning) for head in "qkv"]
    assert [x is not None for x in watch.seen[0][1][:3]] == needed  # nothing is computed that nobody wants
    for wanted, (name, x) in zip(every, given.items()):
        assert (x.grad is None) == (name not in learning)
        assert x.grad is None or torch.equal(x.grad, wanted), name


def test_a_result_that_nobody_uses_costs_nothing_and_breaks_nothing() -> None:
    given = {name: x.requires_grad_() for name, x in tensors().items()}
    _, k, _ = by_phasor({}, **given, at=9)
    with Watch() as watch:
        k.sum().backward()
    assert [x is None for x in watch.seen[0][1][:3]] == [True, False, True]
    assert given["q"].grad is None and given["q_weight"].grad is None and given["v"].grad is None
    assert given["k"].grad is not None and given["k_weight"].grad is not None


def test_heads_without_a_norm_are_not_kept() -> None:
    kept: list[Any] = []
    q = numbers(TOKENS, HEADS, DIM).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
        out = phasor.prepare_attention(q, rotary=ROPE, positions=4)
    assert q.shape not in kept
    out.backward(numbers(*q.shape, seed=3))
    x = q.detach().clone().requires_grad_()
    ROPE(x, positions=4).backward(numbers(*q.shape, seed=3))
    assert torch.equal(q.grad, x.grad)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_in_one_graph_with_gradients(backend: str) -> None:
    compiled = torch.compile(by_phasor, fullgraph=True, backend=backend, dynamic=True)
    for tokens in (TOKENS, 11):
        given = tensors((2, tokens))
        by = [numbers(2, tokens, heads, DIM, seed=20 + heads) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
        for got, wanted in zip(results(compiled, {}, given, 9, by), results(by_phasor, {}, given, 9, by)):
            assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_opcheck_accepts_the_operators() -> None:
    given = tensors((TOKENS,))
    with Watch() as watch:
        results(by_phasor, {}, given, torch.arange(TOKENS), [numbers(TOKENS, heads, DIM) for heads in (HEADS, KEY_HEADS, KEY_HEADS)])
    assert [function for function, _ in watch.seen] == [torch.ops.phasor.prepare_attention.default, torch.ops.phasor.prepare_attention_backward.default]
    for function, args in watch.seen:
        torch.library.opcheck(function, torch.utils._pytree.tree_map_only(Tensor, lambda x: x.detach(), args))
    learning = torch.utils._pytree.tree_map_only(Tensor, lambda x: x.detach().requires_grad_(x.is_floating_point()), watch.seen[0][1])
    torch.library.opcheck(torch.ops.phasor.prepare_attention.default, learning)


def test_gradients_that_there_are_none_of_are_refused() -> None:
    given = {name: x.requires_grad_() for name, x in tensors().items()}
    with pytest.raises(NotImplementedError, match="positions or tables require a gradient"):
        phasor.prepare_attention(given["q"], rotary=ROPE, positions=torch.arange(TOKENS, dtype=torch.float64).requires_grad_())
    with pytest.raises(ValueError, match="requires a gradient"):
        phasor.prepare_attention(given["q"], given["k"], rotary=ROPE, k_cache=phasor.Cache(torch.zeros(2, TOKENS, KEY_HEADS, DIM)))
    (first,) = torch.autograd.grad(by_phasor({}, **given, at=9)[0].sum(), given["q"], create_graph=True)
    with pytest.raises(NotImplementedError, match="gradient of its gradient"):
        first.sum().backward()


def tangent_calls() -> dict[str, Callable[[Tensor], Any]]:
    """Calls whose forward-mode gradient would be lost: into a new tensor, in place, to a cache, by a weight, the operators themselves."""
    q = tensors((TOKENS,))["q"]

    def by_operator(x: Tensor) -> Tensor:
        (args,) = [args for function, args in seen if function is torch.ops.phasor.prepare_attention.default]
        return torch.ops.phasor.prepare_attention(x, *args[1:])[0]

    def to_cache(x: Tensor) -> Tensor:
        return phasor.prepare_attention(x, k=x, rotary=ROPE, k_cache=phasor.Cache(torch.zeros(1, TOKENS, HEADS, DIM)))

    def by_operator_in_place(x: Tensor) -> Tensor:
        (args,) = [args for function, args in seen if function is torch.ops.phasor.prepare_attention_.default]
        torch.ops.phasor.prepare_attention_(x, *args[1:])
        return x

    with Watch() as watch:
        phasor.prepare_attention(q, rotary=ROPE)
        phasor.prepare_attention(q, rotary=ROPE, q_out=torch.empty_like(q))
    seen = watch.seen
    return {
        "new": lambda x: phasor.prepare_attention(x, rotary=ROPE),
        "in place": lambda x: phasor.prepare_attention(x, rotary=ROPE, q_out=x),
        "to a cache": to_cache,
        "weight": lambda x: phasor.prepare_attention(q, rotary=ROPE, q_norm=phasor.HeadNorm(weight=x[0, 0])),
        "operator": by_operator,
        "operator in place": by_operator_in_place,
    }


@pytest.mark.parametrize("name", tangent_calls())
def test_forward_gradients_and_transforms_are_refused_rather_than_lost(name: str) -> None:
    call, q = tangent_calls()[name], tensors((TOKENS,))["q"]
    call(q.clone())  # without them it is taken
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q.clone(), torch.ones_like(q))
        with pytest.raises(NotImplementedError, match="prepare_attention: a tensor has a forward-mode gradient"):
            call(dual)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(dual).primal, q)  # nothing was written
        call(q.clone())
        both = phasor.prepare_attention(q, q.clone().requires_grad_(), rotary=ROPE)
        assert [x.requires_grad for x in both] == [False, True]
    transforms = [lambda: torch.func.jvp(call, (q.clone(),), (torch.ones_like(q),)), lambda: torch.func.jacfwd(call)(q.clone())]
    if "place" in name or "cache" in name:  # those that write nothing are followed: test_prepare_vmap.py
        transforms += [lambda: torch.func.grad(lambda x: call(x).sum())(q.clone()), lambda: torch.func.vmap(call)(torch.stack((q, q)))]
    for transform in transforms:
        with pytest.raises(NotImplementedError, match="prepare_attention: (called inside of (a transform of torch.func|vmap)|a tensor has a forward-mode gradient)"):
            transform()


def test_forward_gradients_of_a_gradient_are_refused_rather_than_lost() -> None:
    q = tensors((TOKENS,))["q"].requires_grad_()
    out = phasor.prepare_attention(q, rotary=ROPE)
    with torch.autograd.forward_ad.dual_level():
        by = torch.autograd.forward_ad.make_dual(torch.ones_like(out), torch.ones_like(out))
        with pytest.raises(NotImplementedError, match="forward-mode gradient"):
            torch.autograd.grad(out, q, by)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_result_of_a_head_that_does_not_learn_does_not_either(compiled: bool) -> None:
    def call(q: Tensor, k: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return phasor.prepare_attention(q, k, rotary=ROPE, positions=4, q_norm=phasor.HeadNorm(weight=weight))

    run = torch.compile(call, fullgraph=True, backend="aot_eager") if compiled else call
    q, k, weight = (tensors((TOKENS,))[name] for name in ("q", "k", "q_weight"))
    assert [x.requires_grad for x in run(q, k.clone().requires_grad_(), weight)] == [False, True]
    assert [x.requires_grad for x in run(q.clone().requires_grad_(), k, None)] == [True, False]
    assert [x.requires_grad for x in run(q, k, weight.clone().requires_grad_())] == [True, False]


@pytest.mark.parametrize("learns", [False, True])
def test_channels_that_do_not_lie_side_by_side_are_taken(learns: bool) -> None:
    q = numbers(TOKENS, DIM, HEADS).transpose(1, 2).requires_grad_(learns)
    wanted = phasor.prepare_attention(q.detach().contiguous(), rotary=ROPE, positions=3)
    assert torch.equal(phasor.prepare_attention(q, rotary=ROPE, positions=3), wanted)
    assert torch.equal(torch.compile(lambda x: phasor.prepare_attention(x, rotary=ROPE, positions=3), backend="aot_eager")(q), wanted)


def test_arrays_of_the_host_beside_tensors_that_learn() -> None:
    given = tensors((TOKENS,))
    factors, weight, ropes = np.linspace(1, 2, TOKENS, dtype=np.float32), given["q_weight"].numpy(), [ROPE, ROPE]
    factors.flags.writeable = False

    def call(q: Tensor, spec_of: Any, factors: Any, weight: Any) -> Tensor:
        norm = phasor.HeadNorm(weight=weight)
        return phasor.prepare_attention(q, rotary=ropes, spec_of=spec_of, query_factors=factors, q_norm=norm, positions=5)

    wanted = call(given["q"], torch.tensor([1]), torch.from_numpy(factors.copy()), given["q_weight"])
    for q in (given["q"], given["q"].clone().requires_grad_()):
        out = call(q, [1], factors, weight)
        assert torch.equal(out, wanted) and out.requires_grad == q.requires_grad
    out.sum().backward()
    assert q.grad is not None


def test_strides_and_packed_rows() -> None:
    packed = numbers(2, TOKENS, (HEADS + 2 * KEY_HEADS) * DIM).requires_grad_()

    def split(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads = x.view(2, TOKENS, -1, DIM)
        return heads[:, :, :HEADS], heads[:, :, HEADS : HEADS + KEY_HEADS], heads[:, :, HEADS + KEY_HEADS :]

    weights = {name: x for name, x in tensors().items() if name.endswith("weight")}
    whole = by_phasor({}, *split(packed), **weights, at=9)
    apart = by_phasor({}, *(x.contiguous() for x in split(packed)), **weights, at=9)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in split(packed)]  # (B, H, T, D) in memory
    other = by_phasor({}, *turned, **weights, at=9)
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(whole, apart, other, strict=True))
    by = [numbers(*x.transpose(1, 2).shape, seed=8).transpose(1, 2) for x in whole]
    gradients = [torch.autograd.grad(outs, packed, by)[0] for outs in (whole, apart, other)]
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[0], gradients[2])


def test_training_with_checkpoints_and_specs_by_row() -> None:
    ropes = [phasor.Rotary(head_dim=DIM), phasor.Rotary(head_dim=DIM, base=1e6)]
    spec_of = torch.tensor([1, 0])
    given = tensors()

    def layer(q: Tensor, weight: Tensor) -> Tensor:
        return phasor.prepare_attention(q * 2, rotary=ropes, spec_of=spec_of, positions=50, q_norm=phasor.HeadNorm(weight=weight)).sin()

    def gradients(call: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        q, weight = given["q"].clone().requires_grad_(), given["q_weight"].clone().requires_grad_()
        return torch.autograd.grad(call(q, weight).sum(), (q, weight))

    wanted = gradients(layer)
    again = gradients(lambda *x: torch.utils.checkpoint.checkpoint(layer, *x, use_reentrant=False))
    assert all(torch.equal(a, b) for a, b in zip(again, wanted, strict=True))
    rows = [
        torch.autograd.grad(
            phasor.prepare_attention(x * 2, rotary=ropes[1 - i], positions=50, q_norm=phasor.HeadNorm(weight=given["q_weight"])).sin().sum(), x
        )[0]
        for i, x in enumerate(x[None].clone().requires_grad_() for x in given["q"])
    ]
    assert torch.equal(wanted[0], torch.cat(rows))


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize("shape, compiled", [((TOKENS,), False), ((2, TOKENS), False), ((2, TOKENS), True)])
def test_factors_of_queries_have_the_gradient_of_pytorch(norm: dict[str, Any], shape: tuple[int, ...], compiled: bool) -> None:
    whole, factors, of_norm = (numbers(*size, seed=8).requires_grad_() for size in ((*shape, HEADS, DIM), shape, (norm.get("width", DIM),)))

    def prepared(q: Tensor, weight: Tensor | None) -> Tensor:
        of = None if weight is None else phasor.HeadNorm(weight=weight, **norm)
        return phasor.prepare_attention(q, rotary=ROPE, positions=9, query_factors=factors, query_scale=0.5, q_norm=of)

    for weight in (of_norm, None):
        call = torch.compile(prepared, fullgraph=True, backend="aot_eager") if compiled else prepared
        learning = (factors, whole) if weight is None else (factors, whole, weight)
        out = ROPE(whole if weight is None else normed(whole, weight, **norm), positions=9) * (factors * 0.5)[..., None, None]
        made = torch.autograd.grad(call(whole, weight), learning, torch.cos(whole).detach())
        torch.testing.assert_close(made, torch.autograd.grad(out, learning, torch.cos(whole).detach()), rtol=1e-5, atol=1e-5)
        assert torch.equal(torch.autograd.grad(call(whole.detach(), weight), factors, torch.cos(whole).detach())[0], made[0])  # without a gradient by q
