# SPDX-License-Identifier: Apache-2.0
"""Memory that calls hold against the formulas of phasor.distributed.cost; kernels that run, and keys that travel, against pairs that see each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from phasor.distributed import cost

MEMORY = "distributed_memory"
BYTES = {torch.bfloat16: 2, torch.float32: 4}
TILE = 96  # rows that gather fills up, at either end


def _measured(ranks: Any, comm: str, size: int, tokens: int, heads: tuple[int, int], dtype: torch.dtype) -> tuple[list[Any], list[float], cost.Layer]:
    """Of each rank, forward and backward; and by the formula."""
    width, length = 16, size * tokens
    layer = cost.Layer(length, *heads, width, BYTES[dtype])
    order = "contiguous" if comm == "gather" else "zigzag"
    found = ranks.run(MEMORY, "held", size, comm, order, length, heads, width, dtype)[:size]
    return found, [cost.bytes_held(layer, size, comm, backward) for backward in (False, True)], layer


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_memory_of_a_ring(ranks: Any, size: int, dtype: torch.dtype) -> None:
    """To the byte, and the same for any number of ranks from 3 on."""
    found, formula, _ = _measured(ranks, "ring", size, 48, (8, 4), dtype)
    assert found == [tuple(formula)] * size
    if size == 3:
        more = cost.Layer(4 * 48, 8, 4, 16, BYTES[dtype])
        assert formula == [cost.bytes_held(more, 4, "ring", backward) for backward in (False, True)]


@pytest.mark.parametrize("size, heads", [(2, (16, 16)), (2, (32, 16)), (4, (32, 32)), (4, (8, 2))])
def test_memory_of_ulysses(ranks: Any, size: int, heads: tuple[int, int]) -> None:
    """To the byte. With fewer than 8 key heads on a rank the CPU's backward makes sums as one device does, by more calls, which hold more."""
    found, formula, _ = _measured(ranks, "ulysses", size, 48, heads, torch.bfloat16)
    assert [x[0] for x in found] == [formula[0]] * size
    if heads[1] >= 8 * size:
        assert [x[1] for x in found] == [formula[1]] * size


@pytest.mark.parametrize("size", [2, 3, 4])
def test_memory_of_gather(ranks: Any, size: int) -> None:
    """And of less than a tile of rows of zeros at either end."""
    found, formula, layer = _measured(ranks, "gather", size, 500, (4, 4), torch.bfloat16)
    for forward, backward in found:
        for measured, wanted in ((forward, formula[0]), (backward, formula[1])):
            assert wanted <= measured <= wanted + 2 * (TILE - 1) * 4 * (layer.query_row + layer.query_heads * 4)


# ---- Parts that nobody sees ----


def _tokens(order: str, length: int, size: int) -> list[list[int]]:
    """Of each rank, written out."""
    if order == "striped":
        return [list(range(rank, length, size)) for rank in range(size)]
    pieces = size if order == "contiguous" else 2 * size
    cuts = [length * n // pieces for n in range(pieces + 1)]
    chunks = [list(range(a, b)) for a, b in zip(cuts, cuts[1:])]
    return chunks if order == "contiguous" else [chunks[rank] + chunks[-1 - rank] for rank in range(size)]


def _sees(query: int, key: int, options: dict[str, Any], row: int) -> bool:
    """By the definition: causal but for the prefix, a window on both sides, padding."""
    if options.get("masked") and (row * options["length"] + key) % 4 == 2:
        return False
    prefix = options["prefix"][row] if "prefix" in options else -1
    left, right = options["window"] if isinstance(options.get("window"), tuple) else (options.get("window"), None)
    if options.get("causal") and key > query and key >= prefix:
        return False
    return (left is None or query - key <= left) and (right is None or key - query <= right)


PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "full": ({}, {}),
    "causal": ({}, {"causal": True}),
    "window": ({}, {"causal": True, "window": 2}),
    "both sides": ({}, {"window": (1, 2)}),
    "ahead alone": ({}, {"window": (0, 3)}),
    "prefix": ({"batch": 2}, {"causal": True, "prefix": [3, 9]}),
    "mask": ({"batch": 2}, {"causal": True, "masked": True}),
    "fewer keys": ({"keys": 6}, {"causal": True}),
    "few keys": ({"keys": 2}, {"causal": True}),
}


@pytest.mark.parametrize("order", ["zigzag", "striped", "contiguous"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_parts_that_are_computed_and_keys_that_travel(ranks: Any, size: int, order: str) -> None:
    for name, (shape, options) in PARTS.items():
        s = {"batch": 1, "queries": 17, "keys": 17, **shape}
        found = ranks.run(MEMORY, "parts", size, s, options, order)[:size]
        queries, keys = (_tokens(order, s[side], size) for side in ("queries", "keys"))
        known = {**options, "length": s["keys"]}
        ahead = s["keys"] - s["queries"]  # the last query is at the last key
        needs = [
            [any(_sees(q + ahead, k, known, row) for q in queries[rank] for k in keys[owner] for row in range(s["batch"])) for owner in range(size)]
            for rank in range(size)
        ]
        for rank in range(size):  # who sees nothing computes one part, the next that has keys
            if queries[rank] and not any(needs[rank]):
                needs[rank][next(owner for step in range(size) if keys[owner := (rank - step) % size])] = True
        far = [max([0, *((rank - owner) % size for rank in range(size) if needs[rank][owner])]) for owner in range(size)]
        row = s["batch"] * 2 * (8 + 8) * 8  # of k and v: key heads, channels, bytes of float64
        for rank in range(size):
            calls = sum(needs[rank])
            came = sum(len(keys[owner]) for owner in range(size) if 0 < (rank - owner) % size <= far[owner])
            assert found[rank] == {"forward": calls, "backward": calls, "received": came * row}, f"{name} {order} rank {rank}"


@pytest.mark.parametrize("size", [2, 4])
def test_packed_sequences_on_ranks_of_their_own(ranks: Any, size: int) -> None:
    """Each rank has whole sequences: nothing travels."""
    starts, order = [0, 4, 8, 12, 16], list(range(16))
    found = ranks.run(MEMORY, "parts", size, {"queries": 16, "keys": 16}, {"causal": True, "cu_seqlens": starts}, order)[:size]
    assert found == [{"forward": 1, "backward": 1, "received": 0}] * size


# ---- Merging ----


def test_many_parts_merged_in_turn(ranks: Any) -> None:
    for count in (4, 64):
        for middle in (0.0, -30.0, 1e4):
            ranks.run(MEMORY, "merged_in_turn", 1, count, middle)


def test_a_ring_gives_the_same_bits_again(ranks: Any) -> None:
    ranks.run(MEMORY, "same_bits_again", 4)
