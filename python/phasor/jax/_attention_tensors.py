# SPDX-License-Identifier: Apache-2.0
"""The arrays of a call of attention as its handler takes them, by names such as "0.table" (of the first term) and "sinks"."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasor._attention import Call
from phasor.jax._operands import four_axes, integer_dtype, positions_of, tensor


def check_qkv(q: Any, k: Any, v: Any) -> tuple[list[jax.Array], bool]:
    """(B, T, H, D) each, and whether the batch axis was added."""
    given = [tensor("attention", name, x) for name, x in (("q", q), ("k", k), ("v", v))]
    axes = {x.ndim for x in given}
    if axes not in ({3}, {4}):
        raise ValueError(f"attention: q, k and v have {', '.join(str(x.ndim) for x in given)} axes, wanted (B, T, H, D) or (T, H, D)")
    q, k, v = made = [four_axes("attention", name, x) for name, x in zip("qkv", given)]
    if len({x.dtype for x in made}) > 1:
        raise TypeError(f"attention: q, k and v are of {', '.join(x.dtype.name for x in made)}, wanted one dtype")
    if k.shape[:3] != v.shape[:3] or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(f"attention: q, k and v have shapes {q.shape}, {k.shape} and {v.shape}, wanted (B, Tq, H, D), (B, Tk, Hk, D) and (B, Tk, Hk, Dv)")
    if not k.shape[2] or q.shape[2] % k.shape[2]:
        raise ValueError(f"attention: q has {q.shape[2]} heads and k {k.shape[2]}, wanted a number that divides those of q")
    return made, axes == {3}


def _four(name: str, x: Any) -> jax.Array:
    made = tensor("attention", name, x)
    if made.ndim != 4:
        raise ValueError(f"attention: {name} has {made.ndim} axes where the library wants 4, shape {made.shape}")
    return made


def _list(name: str, x: Any) -> jax.Array:
    """Integers; those of NumPy that JAX would cut are refused."""
    host = x if isinstance(x, jax.Array) else np.asarray(x)
    if host.dtype.kind not in "iu" or host.ndim != 1:
        raise TypeError(f"attention: {name} is of {host.dtype} with {host.ndim} axes, wanted a list of integers")
    if isinstance(host, np.ndarray) and host.size and np.abs(host.astype(object)).max() > np.iinfo(np.dtype(integer_dtype())).max:
        raise ValueError(f"attention: {name} does not fit in the integers that JAX has")
    return jnp.asarray(host, integer_dtype())


def _mask(x: Any, k: jax.Array) -> jax.Array:
    made = jnp.asarray(x)
    if made.shape != k.shape[:2]:
        raise ValueError(f"attention: key_mask has shape {made.shape}, wanted {k.shape[:2]}")
    return made if made.dtype == jnp.bool_ else made != 0


def _words(seed: Any) -> jax.Array:
    """Seed and offset as four words of 32 bits, low ones first: JAX has no wider ones by itself."""
    if isinstance(seed, jax.Array):
        raw = jax.random.key_data(seed) if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) else seed
        if raw.dtype != jnp.uint32 or raw.ndim != 1 or raw.size > 4:
            raise ValueError(f"attention: dropout_seed is of {raw.dtype} and shape {raw.shape}, wanted a key of jax.random, or integers")
        return jnp.concatenate([raw, jnp.zeros(4 - raw.size, jnp.uint32)])
    pair = np.asarray(seed, object).reshape(-1).tolist()
    if np.ndim(seed) > 1 or not 1 <= len(pair) <= 2 or any(not isinstance(x, int) or not 0 <= x < 2**64 for x in pair):
        raise ValueError(f"attention: dropout_seed is {seed!r}, wanted an integer of 64 bits, two (seed and offset), or a key of jax.random")
    return jnp.asarray([word for x in [*pair, 0][:2] for word in (x & 0xFFFFFFFF, x >> 32)], jnp.uint32)


def _positions(name: str, x: Any, like: jax.Array) -> jax.Array:
    return positions_of(f"attention: {name}", x, like.shape[0], like.shape[1])


def named_tensors(call: Call, seed: Any, q: jax.Array, k: jax.Array) -> dict[str, jax.Array]:
    """Every array of a call, in the order in which it is handed over."""
    found: dict[str, jax.Array] = {}
    for number, term in enumerate(call.tensors["terms"]):
        for name, x in term.items():
            segments = {"query_segments": q, "key_segments": k}
            found[f"{number}.{name}"] = _positions(name, x, segments[name]) if name in segments else _four(name, x)
    given = {name: x for name, x in call.tensors.items() if x is not None and name not in ("terms", "dropout_seed")}
    for name, x in given.items():
        if name in ("prefix", "query_starts", "key_starts"):
            found[name] = _list(name, x)
        elif name in ("query_positions", "key_positions"):
            found[name] = _positions(name, x, q if name == "query_positions" else k)
        else:
            found[name] = _mask(x, k) if name == "key_mask" else _four(name, x)
    if call.scheme.dropout:
        if seed is None:
            raise ValueError("attention: dropout is given without dropout_seed, wanted an integer or a key of jax.random")
        found["dropout_seed"] = _words(seed)
    return found
