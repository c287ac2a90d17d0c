# SPDX-License-Identifier: Apache-2.0
"""phasor.distributed on 2, 3 and 4 gloo processes against one: the short set. Large ones are in all_of_distributed.py, `make test-distributed`."""

from __future__ import annotations

from typing import Any

import pytest
from distributed_schemes import ALL, MERGEABLE

SIZES = (2, 3, 4)
COMMS = ("ring", "gather", "ulysses")
CASES = "distributed_cases"
CACHES = "distributed_caches"
SEVEN = {"batch": 1, "queries": 7, "keys": 7}
CAUSAL = {"causal": True}


@pytest.mark.parametrize("size", SIZES)
def test_shards_make_the_whole(ranks: Any, size: int) -> None:
    for name in ("shards", "gradients_of_unshard", "as_the_core_deals"):
        ranks.run(CASES, name, size)


@pytest.mark.parametrize("number, scheme", list(enumerate(ALL)))
def test_every_scheme(ranks: Any, number: int, scheme: str) -> None:
    """Seven tokens, each scheme with one of the sizes and one of the orders; the large set has them all."""
    order = ("zigzag", "striped", "contiguous")[number % 3]
    ranks.run(CASES, "same", SIZES[number % 3 - 1], [scheme], [{**SEVEN, "batch": 2}], [CAUSAL], list(COMMS), [order])


@pytest.mark.parametrize("number, scheme", list(enumerate(ALL)))
def test_bits_of_one_device(ranks: Any, number: int, scheme: str) -> None:
    import torch

    shape = {"batch": 1, "queries": 110, "keys": 110, "dtype": torch.float32}
    ranks.run(CASES, "bits", SIZES[number % 3], [scheme], [{**SEVEN, "dtype": torch.float32}, shape], [CAUSAL], ["gather", "ulysses"], ["zigzag"])


DROPOUT = {"causal": True, "dropout": 0.3, "dropout_seed": [5, 9]}
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "window": ({}, {"causal": True, "window": 3}),
    "both sides": ({}, {"window": (2, 1)}),
    "mask": ({"batch": 2}, {"masked": True}),
    "prefix": ({"batch": 2}, {"causal": True, "prefix": [3, 0]}),
    "softcap and sinks": ({}, {"causal": True, "softcap": 5.0, "sinks": True}),
    "more keys than queries": ({"queries": 5, "keys": 11}, {"causal": True}),
    "few keys": ({"queries": 9, "keys": 3}, {}),
    "queries that see nothing": ({"queries": 9, "keys": 3}, {"causal": True}),
    "sinks that see nothing": ({"queries": 9, "keys": 3}, {"causal": True, "sinks": True}),
    "far": ({}, {"causal": True, "far": True}),
    "packed": ({"queries": 12, "keys": 12}, {"causal": True, "cu_seqlens": [0, 5, 5, 12]}),
    "packed, two lists": ({"queries": 6, "keys": 9}, {"causal": True, "cu_seqlens": ([0, 2, 6], [0, 4, 9])}),
    "packed with a prefix": ({"queries": 12, "keys": 12}, {"causal": True, "cu_seqlens": [0, 5, 12], "prefix": [2, 3]}),
    "dropout": ({"batch": 2}, DROPOUT),
    "one head of keys": ({"key_heads": 1, "value_width": 5}, {"causal": True}),
}


@pytest.mark.parametrize("number, name", list(enumerate(OPTIONS)))
def test_options(ranks: Any, number: int, name: str) -> None:
    shape, options = OPTIONS[name]
    ranks.run(CASES, "same", SIZES[number % 3], ["t5", "several"], [{**SEVEN, **shape}], [options], list(COMMS), ["zigzag"])


def test_dropout_draws_the_same(ranks: Any) -> None:
    """Numbers go by positions, and by the batch row and head of the whole: shards drop what one device drops."""
    ranks.run(CASES, "same", 3, ["t5", "shaw"], [{**SEVEN, "batch": 2}], [DROPOUT], list(COMMS), ["zigzag"])
    packed = {**DROPOUT, "cu_seqlens": [0, 5, 5, 12]}
    ranks.run(CASES, "same", 4, ["alibi"], [{"queries": 12, "keys": 12, "key_heads": 1}], [packed], list(COMMS), ["zigzag"])


def test_bits_with_dropout(ranks: Any) -> None:
    """Rows of a batch and heads that are computed by themselves, too, so that sums are those of one device."""
    import torch

    shapes = [{"batch": 3, "queries": 110, "keys": 110}, {"batch": 1, "queries": 110, "keys": 110, "heads": 3, "key_heads": 3}]
    ranks.run(CASES, "bits", 2, ["t5"], [{**shape, "dtype": torch.float32} for shape in shapes], [DROPOUT], ["gather", "ulysses"], ["zigzag"])


def test_any_permutation(ranks: Any) -> None:
    order = [6, 2, 4, 0, 1, 5, 3]
    for size in (1, 3):  # one rank has its tokens in that order, too
        ranks.run(CASES, "same", size, ["t5", "shaw", "rope", "dense", "dense_row"], [SEVEN], [CAUSAL], list(COMMS), [order, (order[::-1], order)])
    assert set(MERGEABLE) < set(ALL)


@pytest.mark.parametrize("size", SIZES)
def test_caches_over_ranks(ranks: Any, size: int) -> None:
    for scheme, drafts, block in (("t5", 1, 1), ("alibi", 3, 4), ("rope", 5, 16), ("shaw", 9, 2)):
        ranks.run(CACHES, "caches", size, scheme, drafts, block)


def test_paged_caches(ranks: Any) -> None:
    import torch

    for storage in (torch.float32, torch.bfloat16):
        ranks.run(CACHES, "paged_caches", 3, storage)


@pytest.mark.parametrize("comm", COMMS)
def test_seven_tokens_on_four_ranks_by_the_definition(ranks: Any, comm: str) -> None:
    ranks.run(CASES, "by_definition", 4, comm, "zigzag", 7)
    ranks.run(CASES, "by_definition", 3, comm, "striped", 20)


def test_parts_are_rounded_once(ranks: Any) -> None:
    import torch

    ranks.run(CASES, "rounded_once", 4, torch.bfloat16, 2.0**-8)
    ranks.run(CASES, "rounded_once", 3, torch.float16, 2.0**-11)
