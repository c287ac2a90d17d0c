# SPDX-License-Identifier: Apache-2.0
"""Training through the step before attention on a GPU: gradients have the CPU's bits, with whatever PyTorch does around an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import phasor
from cases import DEVICE, ON_GPU, numbers, raises, same_bits
from gpu_prepare import BLOCK, DIM, DTYPES, HEADS, KEY_HEADS, LAYOUTS, ROPE, TOKENS, YARN, Made, flash, here, qkv, there, weight_of


def learned(device: str, dtype: torch.dtype, call: Callable[..., Made], **fields: Any) -> list[Tensor]:
    """Results and gradients by q, k, v and the weights of norms, of a call without caches."""
    given = {**qkv(dtype), "q_weight": weight_of(dtype), "k_weight": numbers(KEY_HEADS, DIM, dtype=dtype, seed=6)}
    learning = {name: x.to(device).requires_grad_() for name, x in given.items()}
    outs = call(**learning, at=(torch.arange(TOKENS) * 1000).to(device), **fields)
    by = [numbers(*out.shape, dtype=dtype, seed=30 + i).to(device) for i, out in enumerate(outs)]
    return [*outs, *torch.autograd.grad(outs, list(learning.values()), by)]


def trained(q: Tensor, k: Tensor, v: Tensor, q_weight: Tensor, k_weight: Tensor, at: Tensor, **fields: Any) -> Made:
    norms = [phasor.HeadNorm(weight=weight, **fields) for weight in (q_weight, k_weight, None)]
    return phasor.prepare_attention(q, k, v, rotary=YARN, positions=at, q_norm=norms[0], k_norm=norms[1], v_norm=norms[2], query_scale=0.5)


def test_gradients_have_the_bits_of_the_cpu() -> None:
    for dtype in DTYPES:
        for fields in ({}, {"cast": "before_weight"}, {"weight_as": "one_plus"}, {"kind": "l2"}, {"over": "all_heads"}):
            got, wanted = learned(DEVICE, dtype, trained, **fields), learned("cpu", dtype, trained, **fields)
            assert len(got) == 8 and all(x.device.type == DEVICE for x in got)
            assert same_bits(got, wanted), (dtype, fields)


def tabled(q: Tensor, k: Tensor, v: Tensor, q_weight: Tensor, k_weight: Tensor, at: Tensor, **fields: Any) -> Made:
    """By given tables: k's heads and q's alike, whose values are no cosines."""
    layout = phasor.TableLayout(**{name: value for name, value in fields.items() if name != "width"})
    cos, sin = (numbers(1, TOKENS, fields["width"], dtype=q.dtype, seed=seed).to(q.device) for seed in (40, 41))
    norms = [phasor.HeadNorm(weight=weight) for weight in (q_weight, k_weight, None)]
    return phasor.prepare_attention(q, k, v, cos=cos, sin=sin, layout=layout, q_norm=norms[0], k_norm=norms[1], v_norm=norms[2], query_scale=0.5)


def test_given_tables_have_the_bits_of_the_cpu() -> None:
    for dtype in DTYPES:
        for width in (DIM // 2, DIM):  # a value for each pair, by squads; for each channel
            for fields in ({}, {"pairing": "interleaved"}, {"sense": "clockwise", "segments": 2}, {"numerics": "hf"}):
                got, wanted = (learned(device, dtype, tabled, width=width, **fields) for device in (DEVICE, "cpu"))
                assert same_bits(got, wanted), (dtype, width, fields)


def test_factors_of_queries_have_gradients_with_the_bits_of_the_cpu() -> None:
    def call(q: Tensor, k: Tensor, v: Tensor, q_weight: Tensor, k_weight: Tensor, at: Tensor, factors: Tensor) -> Made:
        norm = phasor.HeadNorm(weight=q_weight)
        return phasor.prepare_attention(q, rotary=YARN, positions=at, q_norm=norm, query_factors=factors, query_scale=0.5), k * k_weight, v * 1

    for dtype in DTYPES:
        made = []
        for device in (DEVICE, "cpu"):
            factors = numbers(TOKENS, seed=50).to(device).requires_grad_()
            given = {name: x.to(device) for name, x in qkv(dtype).items()}
            weight = weight_of(dtype).to(device).requires_grad_()
            out = call(**given, q_weight=weight, k_weight=weight, at=(torch.arange(TOKENS) * 1000).to(device), factors=factors)[0]
            made.append(torch.autograd.grad(out, (factors, weight), numbers(*out.shape, dtype=dtype, seed=30).to(device)))
        assert same_bits(*made), dtype


def test_a_dozen_specs_have_gradients_with_the_bits_of_the_cpu() -> None:
    """Their lists take more than a kernel's parameter has room for."""
    ropes = [phasor.Rotary(head_dim=DIM, base=1e4 + 100 * i) for i in range(48)]

    def call(q: Tensor, k: Tensor, v: Tensor, q_weight: Tensor, k_weight: Tensor, at: Tensor) -> Made:
        norms = [phasor.HeadNorm(weight=weight) for weight in (q_weight, k_weight)]
        spec_of = (torch.arange(TOKENS) * 5).to(q.device)
        return (*phasor.prepare_attention(q, k, rotary=ropes, spec_of=spec_of, positions=at, q_norm=norms[0], k_norm=norms[1]), v * 1)

    for dtype in DTYPES:
        assert same_bits(learned(DEVICE, dtype, call), learned("cpu", dtype, call)), dtype


def test_gradients_are_compiled_in_one_graph() -> None:
    wanted = learned("cpu", torch.float32, trained)
    for backend in ("aot_eager", "inductor") if ON_GPU else ("aot_eager",):
        torch._dynamo.reset()
        assert same_bits(learned(DEVICE, torch.float32, torch.compile(trained, fullgraph=True, backend=backend)), wanted), backend


def test_gradients_of_heads_without_norms_are_rotations() -> None:
    q, by = numbers(2, TOKENS, HEADS, DIM, dtype=torch.bfloat16), numbers(2, TOKENS, HEADS, DIM, dtype=torch.bfloat16, seed=1)
    x, y = (q.to(DEVICE).requires_grad_() for _ in range(2))
    phasor.prepare_attention(x, rotary=YARN, positions=7).backward(by.to(DEVICE))
    YARN(y, positions=7).backward(by.to(DEVICE))
    assert same_bits(x.grad, y.grad)


# ---- What training asks of an operator ----


def of_training(device: str, layer: Callable[..., Tensor]) -> Made:
    """A result, and gradients by q and by the weight of its norm."""
    q, weight = (x.to(device).requires_grad_() for x in (numbers(2, TOKENS, HEADS, DIM), weight_of(torch.float32)))
    out = layer(q, weight)
    out.backward(numbers(*out.shape, seed=31).to(device))
    return out, q.grad, weight.grad


def normed(q: Tensor, weight: Tensor) -> Tensor:
    return phasor.prepare_attention(q * 2, rotary=[ROPE, YARN], spec_of=[1, 0], positions=50, q_norm=phasor.HeadNorm(weight=weight)) * 0.5


def test_checkpoints_give_the_same_gradients() -> None:
    wanted = of_training("cpu", normed)
    for reentrant in (False, True):
        got = of_training(DEVICE, lambda *x: torch.utils.checkpoint.checkpoint(normed, *x, use_reentrant=reentrant))  # noqa: B023
        assert same_bits(got, wanted), reentrant


def test_deterministic_algorithms_give_the_same_gradients() -> None:
    """They also fill new memory with what is no number, so that all that comes back was written."""
    wanted = of_training("cpu", normed)
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            assert same_bits(of_training(DEVICE, normed), wanted)
        for name, (tensors, call) in LAYOUTS.items():
            assert same_bits(call(**there(tensors(torch.bfloat16))), call(**here(tensors(torch.bfloat16)))), name
    finally:
        torch.use_deterministic_algorithms(False)


def test_exported_with_any_length() -> None:
    class Layer(torch.nn.Module):
        def __init__(self, device: str, cached: bool) -> None:
            super().__init__()
            self.cached = cached
            self.register_buffer("weight", weight_of(torch.float32).to(device))
            self.register_buffer("kv", torch.zeros(2, 8, BLOCK, KEY_HEADS, DIM, device=device))

        def forward(self, q: Tensor, k: Tensor, v: Tensor, slots: Tensor, at: Tensor) -> Tensor:
            if self.cached:
                return flash(q, k, v, self.weight, self.kv, slots, at)[0]
            norm = phasor.HeadNorm(weight=self.weight)
            return torch.cat(phasor.prepare_attention(q, k, v, rotary=ROPE, positions=at, q_norm=norm, k_norm=norm), -2)

    def given(tokens: int) -> Made:
        slots = torch.randperm(8 * BLOCK, generator=torch.Generator().manual_seed(tokens))[:tokens]
        heads = (numbers(tokens, count, DIM, seed=count) for count in (HEADS, KEY_HEADS, KEY_HEADS))
        return *heads, slots, torch.arange(tokens) + 10**9

    length = torch.export.Dim("length", min=2, max=8 * BLOCK)
    for cached in (False, True):
        example = tuple(x.to(DEVICE) for x in given(5))
        program = torch.export.export(Layer(DEVICE, cached), example, dynamic_shapes=tuple({0: length} for _ in example)).module()
        wanted = Layer("cpu", cached)
        assert same_bits(program(*(x.to(DEVICE) for x in given(17))), wanted(*given(17))), cached
        assert same_bits(program.kv, wanted.kv) and bool(wanted.kv.any()) == cached


def test_transforms_are_followed_without_caches_and_refused_with_them() -> None:
    q = numbers(2, TOKENS, HEADS, DIM)

    def call(x: Tensor) -> Tensor:
        return phasor.prepare_attention(x, rotary=ROPE, q_norm=phasor.HeadNorm(weight=x.new_ones(DIM)))

    def to_cache(x: Tensor) -> Tensor:
        return phasor.prepare_attention(x, k=x, rotary=ROPE, k_cache=phasor.Cache(torch.zeros(1, TOKENS, HEADS, DIM, device=DEVICE)))

    def gradient(x: Tensor) -> Tensor:
        return torch.func.grad(lambda y: (call(y) * x).sum())(x)

    assert same_bits(torch.func.vmap(call)(q.to(DEVICE)), call(q))
    assert same_bits(torch.func.vmap(gradient)(q.to(DEVICE)), torch.stack([gradient(x) for x in q]))
    with raises(NotImplementedError, "prepare_attention: called inside of (a transform of torch.func|vmap)"):
        torch.func.vmap(to_cache)(q.to(DEVICE))
    with raises(NotImplementedError, "prepare_attention: called inside of a transform of torch.func"):
        torch.func.grad(lambda x: to_cache(x).sum())(q[0].to(DEVICE))
