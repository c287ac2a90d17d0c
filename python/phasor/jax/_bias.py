# SPDX-License-Identifier: Apache-2.0
"""Biases on attention scores in JAX, with gradients by the numbers that learn."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from phasor import _core
from phasor._bias import Bias
from phasor._bias_specs import BiasSpec
from phasor.jax._operands import float_dtype, position_array, tensor, three_axes
from phasor.jax._targets import alike, called


@functools.lru_cache(maxsize=256)
def _made(spec: BiasSpec) -> tuple[Bias, str]:
    return Bias(spec), _core.spec_to_json(spec)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _filled(text: str, result: Any, queries: Any, keys: Any, parameters: Any) -> Any:
    return called("phasor_bias", [result], [queries, keys, parameters], spec=text)[0]


def _forward(text: str, result: Any, queries: Any, keys: Any, parameters: Any) -> tuple[Any, Any]:
    return _filled(text, result, queries, keys, parameters), (queries, keys, parameters)


def _backward(text: str, result: Any, saved: Any, gradient: Any) -> tuple[None, None, Any]:
    queries, keys, parameters = saved
    wide = gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32))
    (summed,) = called("phasor_bias_gradient", [(parameters.shape, parameters.dtype)], [queries, keys, parameters, wide], spec=text)
    return None, None, summed


_filled.defvjp(_forward, _backward)


def _positions(name: str, positions: Any) -> jax.Array:
    made = position_array(name, positions)
    if made.ndim == 3 or made.dtype == jnp.float64:
        raise ValueError(f"bias: {name} have {made.ndim} axes and are of {made.dtype.name}, wanted (T) or (B, T) of integers")
    return made


def bias(bias: Bias | BiasSpec, q_positions: Any, k_positions: Any, dtype: Any = None, *, parameters: Any = None) -> jax.Array:
    """The biases of queries and keys at positions (T) or (B, T): (heads, Tq, Tk) or (B, heads, Tq, Tk), of `dtype` (float32).

    `parameters`, as many as `Bias.parameter_count` and in the order of `Bias.gradient`, take the place of the spec's and have gradients.

    >>> import jax.numpy as jnp, phasor, phasor.jax
    >>> phasor.jax.bias(phasor.Alibi(heads=1), jnp.arange(2), jnp.arange(2))[0, 1]
    Array([-0.00390625,  0.        ], dtype=float32)
    """
    spec = bias.spec if isinstance(bias, Bias) else bias
    made, text = _made(spec)
    found = float_dtype("bias", dtype)
    queries, keys = _positions("q_positions", q_positions), _positions("k_positions", k_positions)
    batched = queries.ndim == 2 or keys.ndim == 2
    q, k = three_axes(queries), three_axes(keys)
    if q.shape[0] != k.shape[0] and 1 not in (q.shape[0], k.shape[0]):
        raise ValueError(f"bias: q_positions are of {q.shape[0]} batch rows and k_positions of {k.shape[0]}, wanted as many, or 1")
    rows = k.shape[0] if q.shape[0] == 1 else q.shape[0]
    result = ((rows, made.heads, q.shape[2], k.shape[2]), found)
    if parameters is None:
        (out,) = called("phasor_bias", [result], [q, k], spec=text)
    else:
        out = _filled(text, result, *alike([q, k, _parameters(made, parameters)]))
    return out if batched else out[0]


def _parameters(made: Bias, parameters: Any) -> jax.Array:
    """As a list of float32 or float64."""
    given = tensor("bias", "parameters", parameters).reshape(-1)
    if given.size != made.parameter_count:
        raise ValueError(f"bias: parameters are {given.size}, wanted {made.parameter_count}")
    return given.astype(jnp.promote_types(given.dtype, jnp.float32))
