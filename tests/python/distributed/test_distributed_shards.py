# SPDX-License-Identifier: Apache-2.0
"""DTensors of every operator, and FSDP2, on two processes."""

from __future__ import annotations

from typing import Any

import pytest
from distributed_shards import cases

SHARDS = "distributed_shards"


@pytest.mark.parametrize("name", cases())
def test_shards_compute_what_the_whole_does(ranks: Any, name: str) -> None:
    for also in (False, True):
        ranks.run(SHARDS, "same", 2, name, also)


def test_biases_and_odd_ones(ranks: Any) -> None:
    ranks.run(SHARDS, "biases", 2)
    ranks.run(SHARDS, "odd_ones", 2)


REFUSED = {
    "channels": "add_sinusoidal: x is Shard(dim=2) on axis 0 of the mesh, wanted it replicated or sharded by batch rows or tokens",
    "partial": "add_sinusoidal: x is Partial(sum) on axis 0 of the mesh, wanted it replicated or",
    "uneven": "as PyTorch deals them out",
    "positions by other axes": "add_sinusoidal: positions is Shard(dim=0) on axis 0 of the mesh, wanted it replicated, or sharded as x is (Shard(dim=1))",
    "rows of a table": "lookup_add: table is Shard(dim=0) on axis 0 of the mesh, wanted it replicated",
    "a table alone": "lookup_add: x is a Tensor beside a DTensor, wanted all of one kind",
    "longer by rows": "hierarchical_table: table is Shard(dim=0) on axis 0 of the mesh, wanted it replicated or sharded by channels",
    "axes of positions": "cos_sin: positions is Shard(dim=0) on axis 0 of the mesh, wanted it replicated or",
    "queries and keys": "bias: on axis 0 of the mesh q_positions are Shard(dim=0) and k_positions Shard(dim=0), wanted both by batch rows, or one by tokens",
    "rows of one": "bias: on axis 0 of the mesh q_positions are Shard(dim=0) and k_positions Replicate(), wanted both by batch rows",
    "gradient": "lookup_gradient: a tensor is a DTensor, wanted the shards of this rank",
    "directions": "apply_rotaries: q is sharded by heads, and each turns by directions of its own, wanted it replicated or sharded by batch rows or tokens",
    "rows": "apply_rotaries: spec_of has 3 entries, wanted 2 (one per batch row) or 10 (one per token)",
    "k of another kind": "apply_rotaries: one of q and k is a DTensor and the other is not, wanted two of a kind",
    "all heads": "prepare_attention: q is sharded by heads and its norm is over all of them, wanted a norm over each head",
    "unlike": "wanted one mesh, and batch rows and tokens sharded alike",
    "tables by head": "prepare_attention: q is sharded by heads and cos has rows for each of them, wanted tables of all heads",
    "cache": "prepare_attention: a tensor is a DTensor, wanted the shards of this rank",
    "a table of buckets": "T5Bias: a tensor is a DTensor, wanted the shards of this rank",
    "attention's table": "attention: a tensor is a DTensor, wanted the shards of this rank",
    "cached": "cached_attention: a tensor is a DTensor, wanted the shards of this rank",
    "moved": "rerotate_: a tensor is a DTensor, wanted the shards of this rank",
    "core": "Sinusoidal: a tensor is a DTensor, wanted the shards of this rank",
    "bias": "Bias: a tensor is a DTensor, wanted the shards of this rank",
}


def test_other_placements_are_refused_by_name(ranks: Any) -> None:
    for heard in ranks.run(SHARDS, "refused", 2)[:2]:
        assert {name: words for name, words in REFUSED.items() if words not in heard[name]} == {}
        assert set(heard) == set(REFUSED)


def test_fsdp2_trains_as_one_process_does(ranks: Any) -> None:
    ranks.run("distributed_fsdp", "trained", 2)
