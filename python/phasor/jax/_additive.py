# SPDX-License-Identifier: Apache-2.0
"""Sinusoidal encoding in JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from phasor import _core
from phasor._additive import Sinusoidal, SinusoidalSpec
from phasor.jax._operands import float_dtype, position_array, positions_of, tensor, three_axes, without_tokens
from phasor.jax._targets import alike, called


@functools.lru_cache(maxsize=256)
def _made(spec: SinusoidalSpec) -> tuple[Sinusoidal, str]:
    return Sinusoidal.from_spec(spec), _core.spec_to_json(spec)


def _encoding_of(where: str, encoding: Sinusoidal | SinusoidalSpec) -> tuple[Sinusoidal, str]:
    spec = encoding.spec if isinstance(encoding, Sinusoidal) else encoding
    if not isinstance(spec, SinusoidalSpec):
        raise TypeError(f"{where}: the encoding is {type(encoding).__name__}, wanted a phasor.Sinusoidal or a SinusoidalSpec")
    return _made(spec)


def sinusoidal(encoding: Sinusoidal | SinusoidalSpec, positions: Any, dtype: Any = None) -> jax.Array:
    """The encoding of every token, (..., D) for positions (T), (B, T) or (axes, B, T): the nearest values, of `dtype` (float32).

    >>> import jax.numpy as jnp, phasor, phasor.jax
    >>> phasor.jax.sinusoidal(phasor.Sinusoidal(4), jnp.array([1_000_000]))[0, 0]
    Array(-0.3499935, dtype=float32)
    """
    made, text = _encoding_of("sinusoidal", encoding)
    found = float_dtype("sinusoidal", dtype)
    given = position_array("positions", positions)
    at = three_axes(given)
    width = made.spec.width
    made._core.fill(np.empty((at.shape[0], 0, width), found), without_tokens(at, 2).swapaxes(0, 1))
    (out,) = called("phasor_sinusoidal", [((at.shape[0], at.shape[2], 1, width), found)], [at], spec=text)
    return out.reshape(*(given.shape[1:] if given.ndim == 3 else given.shape), width)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _added(spec: SinusoidalSpec, x: Any, positions: Any) -> Any:
    return called("phasor_add_sinusoidal", [(x.shape, x.dtype)], [x, positions], spec=_made(spec)[1])[0]


def _forward(spec: SinusoidalSpec, x: Any, positions: Any) -> tuple[Any, None]:
    if positions.perturbed and positions.value.dtype == np.float64:
        raise NotImplementedError("add_sinusoidal: a gradient by positions is wanted, which phasor.jax has not; wanted jax.lax.stop_gradient(positions)")
    return _added_at_once(spec, x.value, positions.value), None


_added.defvjp(_forward, lambda spec, _, gradient: (gradient, None), symbolic_zeros=True)
_added_at_once = jax.jit(_added, static_argnums=(0,), inline=True)


def add_sinusoidal(encoding: Sinusoidal | SinusoidalSpec, x: Any, positions: Any = None) -> jax.Array:
    """x + encoding, (B, T, D) or (T, D), in one pass and with one rounding. Its gradient by x is the identity.

    >>> import jax.numpy as jnp, phasor, phasor.jax
    >>> phasor.jax.add_sinusoidal(phasor.Sinusoidal(2), jnp.ones((2, 2)))[1]
    Array([1.841471 , 1.5403023], dtype=float32)
    """
    made, _ = _encoding_of("add_sinusoidal", encoding)
    given = tensor("add_sinusoidal", "x", x)
    if not 2 <= given.ndim <= 3:
        raise ValueError(f"add_sinusoidal: x has {given.ndim} axes, wanted (B, T, D) or (T, D)")
    tokens = given[None] if given.ndim == 2 else given
    at = positions_of("positions", positions, *tokens.shape[:2])
    empty = without_tokens(tokens, 1)
    made._core.add(empty, without_tokens(at, 2).swapaxes(0, 1), empty.copy())
    together, at = alike([tokens[:, :, None], at])
    return _added_at_once(made.spec, together, at).reshape(given.shape)
