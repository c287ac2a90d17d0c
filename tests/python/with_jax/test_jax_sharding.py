# SPDX-License-Identifier: Apache-2.0
"""Over several devices of the host (conftest.py asks XLA for four): shards have the bits of the whole, gradients of what is shared are summed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import phasor
import phasor.jax

ROPE = phasor.Rotary(8, scaling=phasor.YarnScaling(factor=4, original_length=64))


@pytest.fixture
def mesh() -> jax.sharding.Mesh:
    assert len(jax.devices("cpu")) == 4, "conftest.py asks for four before XLA begins"
    return jax.make_mesh((2, 2), ("batch", "heads"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def tensors(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple(rng.standard_normal((4, 7, heads, 8)).astype(np.float32) for heads in (4, 2, 2))


@pytest.mark.parametrize("checked", [True, False])
def test_a_rotation_sharded_by_batch_and_heads(mesh: Any, checked: bool, rng: np.random.Generator) -> None:
    q, k, _ = tensors(rng)
    at = rng.integers(0, 10**6, (4, 7)).astype(np.int32)
    split, rows = PartitionSpec("batch", None, "heads", None), PartitionSpec("batch", None)
    turn = lambda q, k, p: phasor.jax.rotary(ROPE, q, k, p)  # noqa: E731
    sharded = jax.shard_map(turn, mesh=mesh, in_specs=(split, split, rows), out_specs=split, check_vma=checked)
    for found, wanted in zip(jax.jit(sharded)(q, k, at), ROPE(q, k, at)):
        assert np.asarray(found).tobytes() == wanted.tobytes()
    gradient = jax.grad(lambda q: (sharded(q, k, at)[0] * q).sum())(jnp.asarray(q))
    whole = jax.grad(lambda q: (turn(q, k, at)[0] * q).sum())(jnp.asarray(q))
    assert np.asarray(gradient).tobytes() == np.asarray(whole).tobytes()


def test_sharded_arrays_without_shard_map_are_gathered(mesh: Any, rng: np.random.Generator) -> None:
    q, _, _ = tensors(rng)
    placed = jax.device_put(q, NamedSharding(mesh, PartitionSpec("batch", None, "heads", None)))
    assert np.asarray(jax.jit(lambda q: phasor.jax.rotary(ROPE, q, positions=9))(placed)).tobytes() == ROPE(q, positions=9).tobytes()


def test_attention_sharded_by_batch_and_heads(mesh: Any, rng: np.random.Generator) -> None:
    """Heads of a table go with those of q; over the batch the table is shared, and its gradient the sum over the shards."""
    q, k, v = tensors(rng)
    table = rng.standard_normal((4, 8)).astype(np.float32)
    split, heads = PartitionSpec("batch", None, "heads", None), PartitionSpec("heads", None)
    call = lambda q, k, v, t: phasor.jax.attention(q, k, v, phasor.T5(t, max_distance=6), causal=True)  # noqa: E731
    sharded = jax.shard_map(call, mesh=mesh, in_specs=(split, split, split, heads), out_specs=split)
    found = jax.jit(sharded)(q, k, v, table)
    assert np.asarray(found).tobytes() == np.asarray(call(q, k, v, table)).tobytes()
    loss = lambda f: lambda *x: (f(*x) ** 2).sum()  # noqa: E731
    ours, whole = (jax.grad(loss(f), argnums=(0, 1, 2, 3))(*(jnp.asarray(x) for x in (q, k, v, table))) for f in (sharded, call))
    for a, b in zip(ours[:3], whole[:3]):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert np.abs(np.asarray(ours[3] - whole[3])).max() <= 2e-6 * np.abs(np.asarray(whole[3])).max()  # two parts, each rounded to float32


def test_a_parameter_of_a_bias_shared_by_shards(mesh: Any) -> None:
    at = np.arange(8, dtype=np.int32).reshape(4, 2) * 3
    spec = phasor.Alibi(heads=2)
    fill = lambda p, slopes: phasor.jax.bias(spec, p, jnp.arange(5), parameters=slopes)  # noqa: E731
    sharded = jax.shard_map(fill, mesh=mesh, in_specs=(PartitionSpec("batch", None), PartitionSpec()), out_specs=PartitionSpec("batch"))
    slopes = jnp.asarray([0.5, 0.25])
    assert np.array_equal(sharded(at, slopes), fill(at, slopes))
    ours, whole = (jax.grad(lambda s, f=f: (f(at, s) * jnp.arange(5.0)).sum())(slopes) for f in (sharded, fill))
    assert np.array_equal(ours, whole)  # whole numbers


def test_pmap_still_works(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 7, 2, 8)).astype(np.float32)
    found = jax.pmap(lambda x, p: phasor.jax.rotary(ROPE, x, positions=p))(x, np.arange(4, dtype=np.int32) * 100)
    assert np.asarray(found).tobytes() == np.stack([ROPE(x[i], positions=100 * i) for i in range(4)]).tobytes()
