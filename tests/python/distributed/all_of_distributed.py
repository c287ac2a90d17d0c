# SPDX-License-Identifier: Apache-2.0
"""phasor.distributed, the large set (`make test-distributed`): every scheme on every number of ranks, by every way, in every order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from distributed_schemes import ALL
from test_distributed import CASES, CAUSAL, COMMS, OPTIONS, SEVEN, SIZES

ORDERS = ["zigzag", "striped", "contiguous"]
F32 = {"dtype": torch.float32}
EXACT = ["gather", "ulysses"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ALL)
def test_every_scheme_everywhere(ranks: Any, scheme: str, size: int) -> None:
    shapes = [SEVEN, {"batch": 2, "queries": 1, "keys": 1}, {"batch": 2, "queries": 13, "keys": 30, "heads": 6, "key_heads": 3, "value_width": 5}]
    ranks.run(CASES, "same", size, [scheme], shapes, [CAUSAL], list(COMMS), ORDERS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_everywhere(ranks: Any, name: str, size: int) -> None:
    shape, options = OPTIONS[name]
    schemes = ["alibi", "shaw", "xlnet", "deberta", "dense", "t5_gated", "key_features", "rope"]
    if "far" in options:
        schemes = [x for x in schemes if x != "dense"]
    ranks.run(CASES, "same", size, schemes, [{**SEVEN, **shape}], [options], list(COMMS), ["zigzag", "striped"])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ALL)
def test_bits_everywhere(ranks: Any, scheme: str, size: int) -> None:
    """Few queries that are decoded, one more, several tiles; batches, and heads that do not divide; far positions."""
    shapes = [{"batch": 2, "queries": 8, "keys": 8}, {"queries": 9, "keys": 9}, {"batch": 2, "queries": 97, "keys": 97, "heads": 3, "key_heads": 3}]
    shapes += [{"queries": 213, "keys": 213, "heads": 4, "key_heads": 1}, {"queries": 5, "keys": 300}, {"batch": 3, "queries": 20, "keys": 70, "key_heads": 4}]
    ranks.run(CASES, "bits", size, [scheme], [{**shape, **F32} for shape in shapes], [CAUSAL], EXACT, ORDERS)
    ranks.run(CASES, "bits", size, [scheme], [{"queries": 120, "keys": 120, **F32}], [{**CAUSAL, "far": True}], EXACT, ["zigzag"])


@pytest.mark.parametrize("size", SIZES)
def test_bits_of_packed_sequences(ranks: Any, size: int) -> None:
    starts = {"cu_seqlens": [0, 3, 3, 120, 127, 230], "causal": True}
    ranks.run(CASES, "bits", size, ["plain", "t5", "shaw", "rope", "alibi"], [{"queries": 230, "keys": 230, **F32}], [starts], EXACT, ORDERS)
    few = {"cu_seqlens": [0, 3, 3, 10], "causal": True}
    ranks.run(CASES, "bits", size, ["plain", "t5", "shaw"], [{"queries": 10, "keys": 10, **F32}], [few], EXACT, ORDERS)


@pytest.mark.parametrize("size", SIZES)
def test_bits_of_sixteen(ranks: Any, size: int) -> None:
    shapes = [{"queries": 130, "keys": 130, "dtype": dtype} for dtype in (torch.bfloat16, torch.float16)]
    ranks.run(CASES, "bits", size, ["plain", "t5", "rope"], shapes, [CAUSAL, {"window": (40, 7)}], EXACT, ["zigzag", "contiguous"])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("comm", COMMS)
def test_by_the_definition(ranks: Any, comm: str, size: int) -> None:
    for order in ORDERS:
        for tokens in (1, 7, 40):
            ranks.run(CASES, "by_definition", size, comm, order, tokens)
