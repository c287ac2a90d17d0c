# SPDX-License-Identifier: Apache-2.0
"""The formulas of cost against counting, and docs/scale.md against the script that makes its tables."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def _load(name, path):
    """A file by itself: neither needs what is compiled, nor PyTorch."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


scale = _load("phasor_bench_scale", "bench/python/scale.py")
cost = scale.cost


@pytest.mark.parametrize("order", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_position_belongs_to_one_rank(order, ranks):
    length = 14 * ranks
    held = [p for part in cost.positions_of(order, length, ranks) for run in part for p in run]
    assert sorted(held) == list(range(length))


@pytest.mark.parametrize("order", ["contiguous", "zigzag", "striped"])
def test_visible_pairs_are_those_counted_one_by_one(order):
    draw = random.Random(17)
    for _ in range(40):
        ranks = draw.randrange(1, 6)
        length = 2 * ranks * draw.randrange(1, 9)
        window = draw.choice([None, 0, 1, 2, 7, length, 3 * length])
        parts = cost.positions_of(order, length, ranks)
        for queries in parts:
            for keys in parts:
                counted = sum(k <= q and (window is None or k > q - window) for a in queries for q in a for b in keys for k in b)
                assert cost.visible_pairs(queries, keys, window) == counted


def test_zigzag_is_even_under_a_causal_mask_and_contiguous_is_not():
    assert cost.balance("zigzag", 1 << 20, 8) == 1
    assert cost.balance("striped", 1 << 20, 8) == pytest.approx(1, abs=1e-5)
    assert cost.balance("contiguous", 1 << 20, 8) == pytest.approx(1.875, abs=1e-3)  # 15/16 of the keys for the last, half of them on average


def test_bytes_of_a_million_tokens_on_eight_ranks():
    layer = cost.Layer(1_000_000, 32, 8, 128)
    assert cost.bytes_received(layer, 8, "ring") == pytest.approx(3.584e9)  # 875,000 tokens, 8 heads, 128 channels, k and v, 2 bytes
    assert cost.bytes_received(layer, 8, "gather") == cost.bytes_received(layer, 8, "ring")
    assert cost.bytes_received(layer, 8, "ulysses") == pytest.approx(2.24e9 + 0.014e9)  # and a logarithm per row and head
    assert cost.bytes_received(layer, 1, "ring") == cost.bytes_received(layer, 1, "ulysses") == 0


def test_a_key_head_at_least_travels_where_ranks_are_more():
    few = cost.Layer(1024, 32, 2, 64)
    whole_head = 2 * 64 * 2
    share = cost.bytes_received(few, 8, "ulysses") - (7 / 8 * 1024) * (2 * few.query_row + 32 * 4) / 8
    assert share == pytest.approx(7 / 8 * 1024 * whole_head)


def test_a_ring_is_never_faster_than_its_busiest_rank_or_its_bytes():
    for order in ("contiguous", "zigzag", "striped"):
        for ranks in (2, 8, 16):
            one = scale.ring(1 << 17, ranks, order, 4096)
            layer = cost.Layer(1 << 17, scale.QUERY_HEADS, scale.KEY_HEADS, scale.HEAD_DIM)
            steps = cost.steps_of(cost.positions_of(order, 1 << 17, ranks), 4096)
            came = max(sum(0 < (rank - owner) % ranks <= far for owner, far in enumerate(steps)) for rank in range(ranks))
            assert one.seconds >= one.computing
            assert one.seconds >= came * cost.bytes_received(layer, ranks, "ring") / (ranks - 1) / scale.NVLINK_BYTES


def test_how_far_keys_go():
    """Under a causal mask contiguous keys go to the last rank, and no further; with a window to a neighbour; those of two pieces all around."""
    parts = {order: cost.positions_of(order, 64, 4) for order in ("contiguous", "zigzag", "striped")}
    assert cost.steps_of(parts["contiguous"]) == [3, 2, 1, 0]
    assert cost.steps_of(parts["contiguous"], 17) == [1, 1, 1, 0]
    assert cost.steps_of(parts["contiguous"], 18) == [2, 2, 1, 0]
    assert cost.steps_of(parts["zigzag"]) == cost.steps_of(parts["striped"]) == [3, 3, 3, 3]


def test_a_ring_holds_no_more_for_more_ranks():
    """The same tokens on each rank: 125,000 of 32 heads, an output in float32 and a part beside q, k, v and the keys of two ranks, and logarithms."""
    held = [[cost.bytes_held(cost.Layer(125_000 * ranks, 32, 8, 128), ranks, "ring", backward) for ranks in (3, 8, 64)] for backward in (False, True)]
    assert held[0] == [pytest.approx(125_000 * (8192 + 3 * 4096 + 2 * 16384 + 8 * 128))] * 3
    assert held[1][0] == held[1][1] == held[1][2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost.positions_of("zigzag", 7, 4), "cost: length is 7, wanted a multiple of 8, two pieces for each of 4 ranks"),
        (lambda: cost.positions_of("zigzag", 8, 0), "cost: ranks is 0, wanted 1 or more"),
        (lambda: cost.positions_of("sorted", 8, 4), "cost: order is 'sorted', wanted 'contiguous', 'zigzag' or 'striped'"),
        (lambda: cost.bytes_received(cost.Layer(8, 1, 1, 2), 4, "bus"), "cost: comm is 'bus', wanted 'ring', 'gather' or 'ulysses'"),
        (lambda: cost.bytes_held(cost.Layer(8, 1, 1, 2), 4, "bus"), "cost: comm is 'bus', wanted 'ring', 'gather' or 'ulysses'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


def test_the_page_has_the_tables_of_the_script():
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    for name, table in scale.TABLES.items():
        assert table() in page, f"docs/scale.md: its table {name!r} is not what bench/python/scale.py prints"
