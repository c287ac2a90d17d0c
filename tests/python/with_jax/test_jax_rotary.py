# SPDX-License-Identifier: Apache-2.0
"""phasor.jax.rotary and cos_sin: the bits of the rest of the package, the formula in float64, and every transform of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import phasor
import phasor.jax

B, T, H, HK, D = 2, 5, 3, 1, 8
YARN = phasor.YarnScaling(factor=4, original_length=64)
ROPES = {
    "plain": phasor.Rotary(D),
    "interleaved": phasor.Rotary(D, pairing="interleaved", base=500.0),
    "partial": phasor.Rotary(D, rotary_width=4, rotary_offset=2),
    "yarn": phasor.Rotary(D, scaling=YARN),
    "deepseek": phasor.Rotary(D, pairing="interleaved", output_pairing="half"),
    "hf": phasor.Rotary(D, numerics="hf"),
    "axes": phasor.Rotary(D, axes=phasor.Axes(sections=(1, 2, 1))),
    "lanes": phasor.Rotary(D, pairing="interleaved", lanes="per_channel_frequencies"),
}


def inputs(rng: np.random.Generator, dtype: Any = np.float32, heads: int = H) -> np.ndarray:
    return rng.standard_normal((B, T, heads, D)).astype(dtype)


def naive(x: np.ndarray, positions: np.ndarray, base: float = 10000.0) -> np.ndarray:
    """Channels (i, i + D/2) turned by position * base^(-2i / D), in float64; positions (T) or (B, T)."""
    half = x.shape[-1] // 2
    angles = (positions.astype(np.float64)[..., None] * base ** (-np.arange(half) / half))[..., None, :]
    one, two = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    return np.concatenate([one * np.cos(angles) - two * np.sin(angles), one * np.sin(angles) + two * np.cos(angles)], -1)


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- Values ----


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_bits_are_those_of_numpy(name: str, dtype: str, rng: np.random.Generator) -> None:
    rope, kind = ROPES[name], jnp.dtype(dtype)
    q, k = inputs(rng, kind), inputs(rng, kind, HK)
    at = np.array([[3, 0, 100_003, 2**31 - 1, -7], [0, 1, 2, 3, 4]], np.int32)
    positions = np.stack([at, at + 1 if name == "axes" else at, at]) if name == "axes" else at
    positions = np.minimum(positions, 2**31 - 1).astype(np.int32)
    wanted = rope(q, k, positions)
    for found in (phasor.jax.rotary(rope, q, k, positions), jax.jit(lambda q, k, p: phasor.jax.rotary(rope, q, k, p))(q, k, positions)):
        assert all(same(a, b) for a, b in zip(found, wanted))
    turned = phasor.jax.rotary(rope, q, positions=positions, direction="transpose")
    assert same(turned, rope(q, positions=positions, direction="transpose"))
    if name != "lanes":  # which cannot be undone
        assert same(phasor.jax.rotary(rope, wanted[0], positions=positions, inverse=True), rope(wanted[0], positions=positions, inverse=True))


def test_it_is_the_formula(rng: np.random.Generator) -> None:
    x = inputs(rng)
    at = np.array([0, 1, 77, 1000, 123_456])
    assert np.abs(np.asarray(phasor.jax.rotary(ROPES["plain"], x, positions=at)) - naive(x, at)).max() < 1e-6


def test_shapes_offsets_and_positions(rng: np.random.Generator) -> None:
    rope, x = ROPES["plain"], inputs(rng)
    for shape in (x, x[0], x[0, :, 0]):
        assert same(phasor.jax.rotary(rope, shape), rope(shape))
        assert same(phasor.jax.rotary(rope.spec, shape, positions=9), rope(shape, positions=9))
    assert same(phasor.jax.rotary(rope, x, positions=jnp.int32(9)), rope(x, positions=9))
    assert same(phasor.jax.rotary(rope, x, positions=[4, 3, 2, 1, 0]), rope(x, positions=[4, 3, 2, 1, 0]))
    assert phasor.jax.rotary(rope, x[:, :0]).shape == (B, 0, H, D)
    assert phasor.jax.rotary(rope, x[:0]).shape == (0, T, H, D)


def test_wide_positions_and_tensors_with_x64(rng: np.random.Generator) -> None:
    rope, x = ROPES["yarn"], inputs(rng, np.float64)
    with jax.enable_x64(True):
        for at in (np.arange(T) + 10**15, np.linspace(-3.25, 7e6, T)):
            assert same(phasor.jax.rotary(rope, x, positions=at), rope(x, positions=at))
        assert same(phasor.jax.rotary(rope, x, positions=2**40), rope(x, positions=2**40))
        for found, wanted in zip(phasor.jax.cos_sin(rope, np.arange(T), "float64"), rope.cos_sin(np.arange(T), "float64")):
            assert same(found, wanted)


@pytest.mark.parametrize("name", ROPES)
def test_rows_are_those_of_numpy(name: str) -> None:
    rope = ROPES[name]
    at = np.arange(3 * B * T, dtype=np.int32).reshape(3, B, T) * 1001 if name == "axes" else np.arange(B * T, dtype=np.int32).reshape(B, T) * 1001
    for positions in (at,) if name == "axes" else (at, at[1]):
        found = jax.jit(lambda p: phasor.jax.cos_sin(rope, p))(positions)
        assert all(same(a, b) for a, b in zip(found, rope.cos_sin(positions)))


def test_threads_do_not_change_bits(rng: np.random.Generator) -> None:
    rope, x = phasor.Rotary(64), rng.standard_normal((3, 217, 7, 64)).astype(np.float32)
    wanted = rope(x, positions=11)
    for threads in (1, 0):
        phasor.set_num_threads(threads)
        assert same(phasor.jax.rotary(rope, x, positions=11), wanted)


# ---- Transforms ----


def test_other_positions_are_no_other_program(rng: np.random.Generator) -> None:
    rope, x = ROPES["plain"], inputs(rng)
    traced = []

    @jax.jit
    def turn(x: Any, at: Any) -> Any:
        traced.append(1)
        return phasor.jax.rotary(rope, x, positions=at)

    for first in (0, 5, 70_000):
        assert same(turn(x, first), rope(x, positions=first))
    assert len(traced) == 1


@pytest.mark.parametrize("name", ["plain", "yarn", "partial", "deepseek"])
@pytest.mark.parametrize("inverse", [False, True])
def test_gradients_are_the_transposed_rotation(name: str, inverse: bool, rng: np.random.Generator) -> None:
    """<w, R x> = <R^T w, x>, so that the gradient of <w, R x> by x is R^T w whatever x is; R as a matrix, column by column."""
    rope = ROPES[name]
    with jax.enable_x64(True):
        x, w = rng.standard_normal((2, 3, D))
        turn = lambda x: phasor.jax.rotary(rope, x, positions=[2, 50, 9], inverse=inverse)  # noqa: E731
        gradient = jax.jit(jax.grad(lambda x: (w * turn(x)).sum()))(x)
        columns = [np.asarray(turn(np.tile(np.eye(D)[i], (3, 1)))) for i in range(D)]
        wanted = np.stack([(w * column).sum(-1) for column in columns], -1)
        assert np.abs(np.asarray(gradient) - wanted).max() < 1e-14


def test_gradients_of_q_and_k_and_of_one_of_them(rng: np.random.Generator) -> None:
    rope = ROPES["yarn"]
    q, k, w = inputs(rng), inputs(rng, heads=HK), inputs(rng, heads=HK)
    by_k = jax.grad(lambda q, k: (w * phasor.jax.rotary(rope, q, k, 7)[1]).sum(), argnums=(0, 1))(q, k)
    assert not np.asarray(by_k[0]).any() and same(by_k[1], rope(w, positions=7, direction="transpose"))
    assert not np.asarray(jax.grad(lambda q: phasor.jax.rotary(rope, q, k, 7)[1].sum())(q)).any()


def test_second_gradients(rng: np.random.Generator) -> None:
    """f(x) = sum of (R x)^4 / 12: its second derivative is R^T diag((R x)^2) R."""
    rope, x = ROPES["yarn"], rng.standard_normal((1, D))
    with jax.enable_x64(True):
        turn = lambda x: phasor.jax.rotary(rope, x, positions=[13])  # noqa: E731
        second = jax.jacrev(jax.grad(lambda x: (turn(x) ** 4).sum() / 12))(jnp.asarray(x)).reshape(D, D)
        matrix = np.stack([np.asarray(turn(np.eye(D)[i : i + 1]))[0] for i in range(D)], -1)
        wanted = matrix.T @ np.diag((matrix @ x[0]) ** 2) @ matrix
        assert np.abs(np.asarray(second) - wanted).max() < 1e-12


def test_vmap_is_calls_one_by_one(rng: np.random.Generator) -> None:
    rope = ROPES["plain"]
    x = rng.standard_normal((4, 3, B, T, H, D)).astype(np.float32)
    at = rng.integers(0, 10**6, (4, 3, B, T)).astype(np.int32)
    turn = lambda x, p: phasor.jax.rotary(rope, x, positions=p)  # noqa: E731
    one_by_one = lambda f, *mapped: np.stack([np.asarray(f(*one)) for one in zip(*mapped)])  # noqa: E731
    cases = {
        "both": (jax.vmap(turn)(x[0], at[0]), one_by_one(turn, x[0], at[0])),
        "positions of all": (jax.vmap(turn, (0, None))(x[0], at[0, 0]), one_by_one(lambda y: turn(y, at[0, 0]), x[0])),
        "positions of tokens": (jax.vmap(turn, (0, None))(x[0], at[0, 0, 0]), one_by_one(lambda y: turn(y, at[0, 0, 0]), x[0])),
        "positions alone": (jax.vmap(turn, (None, 0))(x[0, 0], at[0]), one_by_one(lambda p: turn(x[0, 0], p), at[0])),
        "the last axis": (jax.vmap(turn, (-1, 0), -1)(np.moveaxis(x[0], 0, -1), at[0]), np.moveaxis(one_by_one(turn, x[0], at[0]), 0, -1)),
        "twice": (jax.jit(jax.vmap(jax.vmap(turn)))(x, at), np.stack([one_by_one(turn, *pair) for pair in zip(x, at)])),
        "twice, apart": (
            jax.vmap(jax.vmap(turn, (0, None)), (None, 0))(x[0], at[:, 0]),
            np.stack([one_by_one(lambda y, p=p: turn(y, p), x[0]) for p in at[:, 0]]),
        ),
    }
    for name, (found, wanted) in cases.items():
        assert same(found, wanted), name


def test_vmap_and_grad_in_either_order(rng: np.random.Generator) -> None:
    rope = ROPES["yarn"]
    x, w = rng.standard_normal((2, 3, T, H, D)).astype(np.float32)
    at = rng.integers(0, 1000, (3, T)).astype(np.int32)
    loss = lambda x, w, p: (w * phasor.jax.rotary(rope, x, positions=p)).sum()  # noqa: E731
    wanted = np.stack([rope(w[i], positions=at[i], direction="transpose") for i in range(3)])
    assert same(jax.vmap(jax.grad(loss))(x, w, at), wanted)
    assert same(jax.grad(lambda x: jax.vmap(loss)(x, w, at).sum())(x), wanted)


def test_inside_loops_and_checkpoints(rng: np.random.Generator) -> None:
    rope, x = ROPES["plain"], inputs(rng)
    found, _ = jax.lax.scan(lambda x, p: (phasor.jax.rotary(rope, x, positions=p), None), x, jnp.arange(3))
    wanted = x
    for first in range(3):
        wanted = rope(wanted, positions=first)
    assert same(found, wanted)
    kept = jax.checkpoint(lambda x: phasor.jax.rotary(rope, x, positions=3))
    assert same(jax.grad(lambda y: kept(y).sum())(x), rope(np.ones_like(x), positions=3, direction="transpose"))


# ---- Bad input: said before anything runs, in the library's words ----


@pytest.mark.parametrize("traced", [False, True])
def test_bad_calls_are_refused_with_words(traced: bool, rng: np.random.Generator) -> None:
    rope, x = ROPES["plain"], inputs(rng)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda x: phasor.jax.rotary(rope, x[..., :6]), ValueError, "head_dim"),
        (lambda x: phasor.jax.rotary(rope, x, positions=np.arange(4)), ValueError, "positions: are of 1 batch rows and 4 tokens, wanted 2 or 1 and 5"),
        (lambda x: phasor.jax.rotary(rope, x, positions=np.zeros((3, T), int)), ValueError, "3 batch rows"),
        (lambda x: phasor.jax.rotary(rope, x, positions=np.zeros((2, B, T), int)), ValueError, "axes"),
        (lambda x: phasor.jax.rotary(rope, x, positions=np.zeros(T, np.float32)), TypeError, "float32, wanted int32, int64 or float64"),
        (lambda x: phasor.jax.rotary(rope, x, positions=2**31 - 2), ValueError, "2147483650 does not fit in 32 bits, wanted jax_enable_x64"),
        (lambda x: phasor.jax.rotary(rope, x, positions=np.full(T, 2**31)), ValueError, "does not fit in 32 bits"),
        (lambda x: phasor.jax.rotary(rope, x, positions=np.zeros(T)), ValueError, "float64, wanted jax_enable_x64"),
        (lambda x: phasor.jax.rotary(rope, x.astype(int)), TypeError, "q is of int32"),
        (lambda x: phasor.jax.rotary(rope, x, x[:1]), ValueError, "k is of 1 batch rows"),
        (lambda x: phasor.jax.rotary(rope, x[0, 0, 0]), ValueError, "q has 1 axes"),
        (lambda x: phasor.jax.rotary(ROPES["lanes"], x, inverse=True), (ValueError, NotImplementedError), "per-channel|inverse"),  # type: ignore[list-item]
        (lambda x: phasor.jax.rotary("rope", x), TypeError, "wanted a phasor.Rotary"),  # type: ignore[arg-type]
        (lambda x: phasor.jax.cos_sin(rope, None), TypeError, "positions: are None"),
        (lambda x: phasor.jax.cos_sin(rope, np.arange(3), "float64"), ValueError, "wanted jax_enable_x64"),
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            (jax.jit(call) if traced else call)(jnp.asarray(x))


def test_a_gradient_by_positions_is_refused(rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(inputs(rng))
        with pytest.raises(NotImplementedError, match="gradient by positions is wanted"):
            jax.grad(lambda p: phasor.jax.rotary(ROPES["plain"], x, positions=p).sum())(jnp.arange(T) * 1.0)


def test_what_a_handler_finds_is_an_error_of_xla() -> None:
    """A call past phasor.jax whose text is no spec: told in the library's words."""
    call = jax.ffi.ffi_call("phasor_rotary", jax.ShapeDtypeStruct((1, 2, 1, 8), jnp.float32))
    at, x = jnp.zeros((1, 1, 2), jnp.int32), jnp.zeros((1, 2, 1, 8))
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT.*(?s:.*)head_dim"):
        jax.block_until_ready(call(at, x, spec=phasor.spec_to_json(phasor.Rotary(6).spec), direction=np.int64(0)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no attribute direction"):
        jax.block_until_ready(call(at, x, spec=phasor.spec_to_json(phasor.Rotary(8).spec)))
