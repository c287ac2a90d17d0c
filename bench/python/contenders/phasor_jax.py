# SPDX-License-Identifier: Apache-2.0
"""phasor.jax under jit: a rotation as a call of XLA, and forward with its gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from harness import BASE, HEAD_DIM, Case, Contestant

import phasor
import phasor.jax

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}


def contestants(case: Case) -> list[Contestant]:
    rope = phasor.Rotary(head_dim=HEAD_DIM, base=BASE)
    phasor.set_num_threads(case.threads)
    q, k = (jnp.asarray(x.float().numpy()).astype(DTYPES[case.dtype]) for x in case.inputs())
    positions = jnp.asarray(case.position_ids().numpy().astype("int32"))
    rotate = jax.jit(lambda q, k, at: phasor.jax.rotary(rope, q, k, at))

    @jax.jit
    def train(q: jax.Array, k: jax.Array, at: jax.Array) -> tuple[jax.Array, ...]:
        rotated, back = jax.vjp(lambda q, k: phasor.jax.rotary(rope, q, k, at), q, k)
        return *rotated, *back(rotated)

    run = lambda: jax.block_until_ready(rotate(q, k, positions))  # noqa: E731
    both = lambda: jax.block_until_ready(train(q, k, positions))  # noqa: E731
    return [
        Contestant("phasor.jax, jit", run, run),
        Contestant("phasor.jax, jit, forward and backward", both, lambda: both()[:2]),
    ]
