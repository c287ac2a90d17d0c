# SPDX-License-Identifier: Apache-2.0
"""phasor.jax.sinusoidal, add_sinusoidal and bias: the bits of NumPy's calls, formulas in float64, gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import phasor
import phasor.jax

H = 3
MLP = phasor.Mlp((1, 4, H), tuple(np.linspace(-0.7, 0.9, 4 + 4 + 4 * H + H)))
BIASES = {
    "alibi": phasor.Alibi(heads=H, slopes=(0.5, 0.25, 0.7)),
    "alibi_keys": phasor.Alibi(heads=H, slopes=(0.5, 0.25, 0.7), form="key_position"),
    "t5": phasor.T5Buckets(heads=H, buckets=8, max_distance=20, table=tuple(np.linspace(-1, 1, 8 * H))),
    "shaw": phasor.ShawClip(heads=H, left=3, right=2, table=tuple(np.linspace(-1, 1, 6 * H))),
    "kerple": phasor.Kerple(r1=(1.0, 0.5, 2.0), r2=(0.3, 1.0, 0.7)),
    "fire": phasor.Fire(mlp=MLP, length=6.0),
    "mlp": phasor.DynamicMlp(mlp=MLP),
}
# How the numbers that learn lie in a spec, in the order of Bias.gradient.
FIELDS: dict[str, Any] = {
    "alibi": lambda s: s.slopes,
    "alibi_keys": lambda s: s.slopes,
    "t5": lambda s: s.table,
    "shaw": lambda s: s.table,
    "kerple": lambda s: (*s.r1, *s.r2),
    "fire": lambda s: (*s.mlp.parameters, s.c, s.length),
    "mlp": lambda s: s.mlp.parameters,
}


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- Sinusoids ----


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("spec", [phasor.Sinusoidal(7), phasor.Sinusoidal(8, order="sin_cos", amplitude=0.3), phasor.Sinusoidal(12, axis_widths=(4, 8))])
def test_sinusoids_have_the_bits_of_numpy(spec: phasor.Sinusoidal, dtype: str, rng: np.random.Generator) -> None:
    axes = len(spec.spec.axis_widths) or 1
    at = rng.integers(0, 10**7, (axes, 2, 5)).astype(np.int32)
    kind = jnp.dtype(dtype)
    for positions in (at,) if axes > 1 else (at[0], at[0, 0]):
        wanted = spec(positions, kind)
        assert same(jax.jit(lambda p: phasor.jax.sinusoidal(spec, p, kind))(positions), wanted)
        x = rng.standard_normal(wanted.shape).astype(kind)
        assert same(phasor.jax.add_sinusoidal(spec, x, positions), spec.add(x, positions))


def test_sinusoids_are_the_formula() -> None:
    at = np.array([0, 3, 1000])
    angles = at[:, None] * 10000.0 ** (-np.arange(3) / 3)
    wanted = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(3, 6)
    assert np.abs(np.asarray(phasor.jax.sinusoidal(phasor.Sinusoidal(6), at)) - wanted).max() < 1e-7


def test_the_gradient_of_adding_is_the_identity(rng: np.random.Generator) -> None:
    spec, x, w = phasor.Sinusoidal(6), *rng.standard_normal((2, 3, 4, 6)).astype(np.float32)
    add = lambda x: (w[0] * phasor.jax.add_sinusoidal(spec, x, 5)).sum()  # noqa: E731
    assert same(jax.jit(jax.grad(add))(x[0]), w[0])
    assert same(jax.vmap(lambda y: phasor.jax.add_sinusoidal(spec, y, 5))(x), np.stack([spec.add(y, 5) for y in x]))
    by_position = jax.vmap(lambda p: phasor.jax.add_sinusoidal(spec, x[0], p))(jnp.arange(3))
    assert same(by_position, np.stack([spec.add(x[0], p) for p in range(3)]))


# ---- Biases ----


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_biases_have_the_bits_of_numpy(name: str, dtype: str) -> None:
    bias, kind = phasor.Bias(BIASES[name]), jnp.dtype(dtype)
    q, k = np.array([[9, 2, 3], [0, 7, 7]], np.int32), np.array([4, 0, 9, 1], np.int32)
    parameters = np.asarray(FIELDS[name](BIASES[name]))
    for at, of in ((q, k), (q[0], k), (q[1], q), (q, q)):
        wanted = bias(at, of, kind)
        assert same(jax.jit(lambda a, b: phasor.jax.bias(bias, a, b, kind))(at, of), wanted)
        with jax.enable_x64(True):
            assert same(phasor.jax.bias(BIASES[name], at, of, kind, parameters=parameters), wanted)


@pytest.mark.parametrize("name", BIASES)
def test_gradients_by_parameters_are_differences(name: str, rng: np.random.Generator) -> None:
    """Positions in any order, with repeats and gaps; the bias as a function of its parameters is NumPy's, of other specs."""
    spec = BIASES[name]
    q, k = np.array([[9, 2, 3, 30], [0, 7, 7, 8]]), np.array([[4, 0, 9, 1, 2], [5, 3, 4, 25, 3]])
    w = rng.standard_normal((2, H, 4, 5))
    p = np.asarray(FIELDS[name](spec))
    with jax.enable_x64(True):
        loss = jax.jit(lambda p: (w * phasor.jax.bias(spec, q, k, "float64", parameters=p)).sum())
        gradient = np.asarray(jax.jit(jax.grad(loss))(p))
        step = 1e-6
        wanted = [(float(loss(p + step * e)) - float(loss(p - step * e))) / (2 * step) for e in np.eye(p.size)]
        assert np.abs(gradient - wanted).max() < 1e-7 * max(1.0, np.abs(wanted).max())
        each = jax.vmap(jax.grad(lambda p, w: (w * phasor.jax.bias(spec, q, k, "float64", parameters=p)).sum()), (None, 0))(p, np.stack([w, -2 * w]))
        assert np.abs(np.asarray(each) - np.stack([gradient, -2 * gradient])).max() < 1e-12 * max(1.0, np.abs(gradient).max())


def test_a_table_of_t5_learns_by_the_pairs_that_read_it() -> None:
    spec = phasor.T5Buckets(heads=1, buckets=8, max_distance=20)
    gradient = jax.grad(lambda t: phasor.jax.bias(spec, jnp.arange(5), jnp.arange(5), parameters=t).sum())(jnp.zeros((1, 8)))
    wanted = np.zeros(8)
    for i in range(5):
        for j in range(5):
            wanted[phasor.t5_buckets(i - j, 8, 20)] += 1
    assert gradient.shape == (1, 8) and gradient[0].tolist() == wanted.tolist()


def test_bad_calls_are_refused_with_words() -> None:
    at = jnp.arange(3)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: phasor.jax.bias(BIASES["alibi"], at, at, parameters=jnp.ones(2)), ValueError, "parameters are 2, wanted 3"),
        (lambda: phasor.jax.bias(BIASES["alibi"], jnp.zeros((2, 3), int), jnp.zeros((3, 3), int)), ValueError, "2 batch rows"),
        (lambda: phasor.jax.bias(BIASES["alibi"], 5, at), TypeError, "q_positions: are 5"),
        (lambda: phasor.jax.bias(BIASES["alibi"], at, at, "int32"), TypeError, "dtype is int32"),
        (lambda: phasor.jax.sinusoidal(phasor.Sinusoidal(12, axis_widths=(4, 8)), jnp.zeros((3, 2, 4), int)), ValueError, "axes"),
        (lambda: phasor.jax.add_sinusoidal(phasor.Sinusoidal(6), jnp.zeros((3, 4))), ValueError, "width|channels|4"),
        (lambda: phasor.jax.sinusoidal("sinusoidal", at), TypeError, "wanted a phasor.Sinusoidal"),  # type: ignore[arg-type]
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
