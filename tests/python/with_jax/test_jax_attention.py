# SPDX-License-Identifier: Apache-2.0
"""phasor.jax.attention: every scheme against scores spelled out in float64, with every gradient, and the bits of phasor.attention."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "attention"))
from attention_oracle import CASES, Case, Mask, naive, qkv  # noqa: E402

import phasor  # noqa: E402
import phasor.jax  # noqa: E402

NAMES = list(CASES)


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def oracle(case: Case, mask: Mask) -> dict[str, np.ndarray]:
    """out, lse and every gradient of sum(out * weights) + 0.3 sum(lse)."""
    inputs, x = qkv(*case.tokens), case.tensors()
    out, lse = naive(case, *inputs, x, mask)
    ((out * weights_of(out)).sum() + 0.3 * torch.where(torch.isneginf(lse), 0.0, lse).sum()).backward()
    found = {"out": out, "lse": lse} | {name: t.grad for name, t in zip("qkv", inputs)} | {f"scheme.{name}": t.grad for name, t in x.items()}
    return {name: t.detach().numpy() for name, t in found.items()}


def weights_of(out: Any) -> torch.Tensor:
    return torch.rand(tuple(out.shape), generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def ours(case: Case, mask: Mask) -> dict[str, np.ndarray]:
    inputs = [x.detach().numpy() for x in qkv(*case.tokens)]
    x = {name: t.detach().numpy() for name, t in case.tensors().items()}
    options = {name: np.asarray(value) if isinstance(value, torch.Tensor) else value for name, value in mask.options().items()}

    def loss(inputs: Any, x: Any) -> Any:
        out, lse = phasor.jax.attention(*inputs, scheme=case.scheme(x), return_lse=True, **options)
        return (out * weights_of(out).numpy()).sum() + 0.3 * jnp.where(jnp.isneginf(lse), 0.0, lse).sum(), (out, lse)

    (_, (out, lse)), (by_inputs, by_x) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(inputs, x)
    found = {"out": out, "lse": lse} | dict(zip("qkv", by_inputs)) | {f"scheme.{name}": g for name, g in by_x.items()}
    return {name: np.asarray(value) for name, value in found.items()}


def compare(case: Case, mask: Mask) -> None:
    with jax.enable_x64(True):
        got, want = ours(case, mask), oracle(case, mask)
    for name, wanted in want.items():
        scale = max(1.0, np.abs(wanted[np.isfinite(wanted)]).max())
        np.testing.assert_allclose(got[name], wanted, atol=1e-12 * scale, rtol=0, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_is_its_formula_with_every_gradient(name: str) -> None:
    compare(CASES[name], Mask(**CASES[name].mask))


@pytest.mark.parametrize(
    "mask",
    [
        Mask(causal=True, window=(3, None)),
        Mask(causal=True, prefix=[2, 4]),
        Mask(key_mask=torch.tensor([[1, 1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0]]).bool()),
        Mask(causal=True, query_positions=torch.tensor([[9, 3, 4, 0, 7], [0, 1, 2, 3, 4]]), key_positions=torch.tensor([5, 3, 1, 9, 0, 2, 8])),
    ],
    ids=["window", "prefix", "key_mask", "positions"],
)
def test_every_mask(mask: Mask) -> None:
    compare(CASES["several" if mask.key_mask is None else "t5"], mask)


@pytest.mark.parametrize("name", ["none", "t5", "several", "shaw_values"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_bits_are_those_of_numpy(name: str, dtype: str) -> None:
    case, kind = CASES[name], jnp.dtype(dtype)
    inputs = [x.detach().numpy().astype(kind) for x in qkv(*case.tokens)]
    x = {key: t.detach().numpy().astype(np.float32) for key, t in case.tensors().items()}
    wanted = phasor.attention(*inputs, scheme=case.scheme(x), causal=True, return_lse=True)
    found = phasor.jax.attention(*inputs, scheme=case.scheme(x), causal=True, return_lse=True)
    traced = jax.jit(lambda inputs, x: phasor.jax.attention(*inputs, scheme=case.scheme(x), causal=True, return_lse=True))(inputs, x)
    for a, b, c in zip(found, traced, wanted):
        assert same(a, c) and same(b, c)


def test_gradients_have_the_bits_of_pytorch() -> None:
    case = CASES["several"]
    inputs = [x.detach().float().requires_grad_() for x in qkv(*case.tokens)]
    x = {name: t.detach().float().requires_grad_() for name, t in case.tensors().items()}
    phasor.attention(*inputs, scheme=case.scheme(x), causal=True).sum().backward()
    arrays, tables = [t.detach().numpy() for t in inputs], {name: t.detach().numpy() for name, t in x.items()}
    loss = lambda inputs, x: phasor.jax.attention(*inputs, scheme=case.scheme(x), causal=True).sum()  # noqa: E731
    by_inputs, by_x = jax.grad(loss, argnums=(0, 1))(arrays, tables)
    assert all(same(a, b.grad.numpy()) for a, b in zip(by_inputs, inputs))
    assert all(same(by_x[name], t.grad.numpy()) for name, t in x.items())


def test_ragged_batches_sinks_and_16_bits_into_float32(rng: np.random.Generator) -> None:
    q, k, v = rng.standard_normal((3, 9, 2, 4)).astype(np.float16)
    sinks = rng.standard_normal(2).astype(np.float32)
    options: dict[str, Any] = {"cu_seqlens": np.array([0, 4, 9]), "sinks": sinks, "out_dtype": "float32", "causal": True}
    found = jax.jit(lambda q, sinks: phasor.jax.attention(q, k, v, **{**options, "sinks": sinks}))(q, sinks)
    assert same(found, phasor.attention(q, k, v, **options))
    gradient = jax.grad(lambda s: phasor.jax.attention(q, k, v, **{**options, "sinks": s}).sum())(jnp.asarray(sinks))
    step = 1e-2  # of float32 outputs: the difference below is good to some 1e-4
    for i in range(2):
        ends = [float(phasor.attention(q, k, v, **{**options, "sinks": sinks + sign * step * np.eye(2, dtype=np.float32)[i]}).astype(np.float64).sum()) for sign in (1, -1)]
        assert abs(float(gradient[i]) - (ends[0] - ends[1]) / (2 * step)) < 2e-3


def test_dropout_is_that_of_its_seed(rng: np.random.Generator) -> None:
    q, k, v = rng.standard_normal((3, 2, 9, 2, 4)).astype(np.float32)
    for seed in (7, (2**63 + 5, 3)):
        assert same(phasor.jax.attention(q, k, v, dropout=0.4, dropout_seed=seed), phasor.attention(q, k, v, dropout=0.4, dropout_seed=seed))
    key = jax.random.key(3)
    words = [int(word) for word in jax.random.key_data(key)]
    wanted = phasor.attention(q, k, v, dropout=0.4, dropout_seed=words[0] + (words[1] << 32))
    assert same(jax.jit(lambda key: phasor.jax.attention(q, k, v, dropout=0.4, dropout_seed=key))(key), wanted)
    keys = jax.random.split(key, 2)  # under vmap each call drops as it would alone
    call = lambda q, key: phasor.jax.attention(q, k, v, dropout=0.4, dropout_seed=key)  # noqa: E731
    assert same(jax.vmap(call, (None, 0))(q, keys), np.stack([call(q, key) for key in keys]))
    both = np.stack([q, q + 1])
    assert same(jax.vmap(call, (0, None))(both, key), np.stack([call(x, key) for x in both]))


def test_vmap_is_calls_one_by_one(rng: np.random.Generator) -> None:
    q, k, v = rng.standard_normal((3, 3, 2, 5, 2, 4)).astype(np.float32)
    tables = rng.standard_normal((3, 2, 8)).astype(np.float32)
    call = lambda q, k, v, t: phasor.jax.attention(q, k, v, phasor.T5(t, max_distance=6), causal=True)  # noqa: E731
    assert same(jax.vmap(call)(q, k, v, tables), np.stack([call(*one) for one in zip(q, k, v, tables)]))
    folded = jax.jit(jax.vmap(call, (0, 0, 0, None)))(q, k, v, tables[0])
    assert same(folded, np.stack([call(*one, tables[0]) for one in zip(q, k, v)]))
    assert same(jax.vmap(call, (0, None, None, None))(q, k[0], v[0], tables[0]), np.stack([call(one, k[0], v[0], tables[0]) for one in q]))


def test_gradients_of_a_table_for_each_example(rng: np.random.Generator) -> None:
    q, k, v = rng.standard_normal((3, 3, 5, 2, 4)).astype(np.float32)
    table = jnp.asarray(rng.standard_normal((2, 8)).astype(np.float32))
    loss = lambda t, q, k, v: (phasor.jax.attention(q, k, v, phasor.T5(t, max_distance=6)) ** 2).sum()  # noqa: E731
    each = jax.vmap(jax.grad(loss, argnums=(0, 1)), (None, 0, 0, 0))(table, q, k, v)
    alone = [jax.grad(loss, argnums=(0, 1))(table, *one) for one in zip(q, k, v)]
    assert all(same(found, np.stack([one[i] for one in alone])) for i, found in enumerate(each))


def test_other_lengths_of_a_cache_are_no_other_program(rng: np.random.Generator) -> None:
    q, k, v = rng.standard_normal((1, 1, 2, 4)), *rng.standard_normal((2, 1, 16, 2, 4))
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    traced = []

    @jax.jit
    def step(position: Any) -> Any:
        traced.append(1)
        return phasor.jax.attention(q, k, v, phasor.Alibi(), causal=True, query_positions=position)

    for position in (3, 9, 15):
        seen = slice(0, position + 1)
        wanted = phasor.attention(q, k[:, seen], v[:, seen], phasor.Alibi(), causal=True)
        assert np.abs(np.asarray(step(position)) - wanted).max() < 1e-6
    assert len(traced) == 1


def test_bad_calls_are_refused_with_words(rng: np.random.Generator) -> None:
    x = jnp.zeros((1, 3, 2, 4))
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: phasor.jax.attention(x, x[..., :2], x), ValueError, "shapes"),
        (lambda: phasor.jax.attention(x, x[0], x), ValueError, "4, 3, 4 axes"),
        (lambda: phasor.jax.attention(x, x.astype(jnp.float16), x), TypeError, "one dtype"),
        (lambda: phasor.jax.attention(x, jnp.zeros((1, 3, 3, 4)), jnp.zeros((1, 3, 3, 4))), ValueError, "divides"),
        (lambda: phasor.jax.attention(x, x, x, key_mask=jnp.ones((1, 4), bool)), ValueError, r"key_mask has shape \(1, 4\), wanted \(1, 3\)"),
        (lambda: phasor.jax.attention(x, x, x, query_positions=jnp.arange(4)), ValueError, "query_positions: are of 1 batch rows and 4 tokens"),
        (lambda: phasor.jax.attention(x, x, x, dropout=0.5), ValueError, "dropout_seed"),
        (lambda: phasor.jax.attention(x, x, x, scheme="t5"), TypeError, "wanted a scheme of phasor"),
        (lambda: phasor.jax.attention(x, x, x, softcap=-1.0), ValueError, "softcap"),
        (lambda: jax.block_until_ready(phasor.jax.attention(x, x, x, phasor.T5(jnp.zeros((1, 8))))), jax.errors.JaxRuntimeError, "heads"),
        (lambda: jax.grad(lambda y: jax.grad(lambda z: phasor.jax.attention(z, x, x).sum())(y).sum())(x), NotImplementedError, "gradient of its gradient"),
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
