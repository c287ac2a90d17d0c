# SPDX-License-Identifier: Apache-2.0
"""JAX: the usual lines under jit, float32 tables made in the call and cast to the tensors' dtype."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from harness import BASE, HEAD_DIM, Case, Contestant

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}


@jax.jit
def rotate(q: jax.Array, k: jax.Array, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    pairs = HEAD_DIM // 2
    angles = positions.astype(jnp.float32)[:, None] * (1.0 / BASE ** (jnp.arange(pairs, dtype=jnp.float32) / pairs))
    cos, sin = jnp.cos(angles)[:, None, :].astype(q.dtype), jnp.sin(angles)[:, None, :].astype(q.dtype)

    def turn(x: jax.Array) -> jax.Array:
        one, two = x[..., :pairs], x[..., pairs:]
        return jnp.concatenate([one * cos - two * sin, one * sin + two * cos], axis=-1)

    return turn(q), turn(k)


def contestants(case: Case) -> list[Contestant]:
    q, k = (jnp.asarray(x.float().numpy()).astype(DTYPES[case.dtype]) for x in case.inputs())
    positions = jnp.asarray(case.position_ids().numpy().astype("int32"))
    run = lambda: jax.block_until_ready(rotate(q, k, positions))  # noqa: E731
    return [Contestant("JAX jit, tables made in the call", run, run)]
