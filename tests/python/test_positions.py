# SPDX-License-Identifier: Apache-2.0
"""Builders of positions and position maps through Python: against the recorded models, NumPy, and what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from phasor import positions
from phasor.positions import (
    DualChunk,
    GridLayout,
    ImageGrid,
    LeakyReRope,
    MaskRule,
    MropeInput,
    MropeTokens,
    QueryTemperature,
    ReRope,
    SelfExtend,
    Shard,
)

GOLDEN = Path(__file__).parents[1] / "golden"
IDS = json.loads((GOLDEN / "position_ids.json").read_text())
MROPE = json.loads((GOLDEN / "mrope_ids.json").read_text())


def test_offsets_and_ragged_batches():
    assert positions.from_offset(4, -2).tolist() == [-2, -1, 0, 1]
    assert positions.from_offsets(3, torch.tensor([0, 7], dtype=torch.int32)).tolist() == [[0, 1, 2], [7, 8, 9]]
    assert positions.from_cu_seqlens(np.array([0, 2, 2, 5], np.int32), [10, 20, 30]).tolist() == [10, 11, 30, 31, 32]
    assert positions.from_offset(2).dtype == np.int64


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float64])
def test_out_may_be_a_tensor_of_any_type_of_positions(dtype):
    out = torch.full((2, 6), -9, dtype=dtype)
    assert positions.from_offsets(3, [0, 5], out=out[:, ::2]).data_ptr() == out.data_ptr()
    assert out.tolist() == [[0, -9, 1, -9, 2, -9], [5, -9, 6, -9, 7, -9]]


def test_masks_are_read_as_the_models_do():
    masks = IDS["masks"]
    mask = np.array(masks["mask"]).reshape(-1, 7)
    for kind in (np.bool_, np.uint8, np.int16, np.int32, np.int64):
        assert positions.from_mask(mask.astype(kind)).reshape(-1).tolist() == masks["generate"]
    opt = positions.from_mask(mask, MaskRule(first=0, masked=-1)) + 2
    assert opt.reshape(-1).tolist() == masks["opt_rows"]
    assert positions.from_mask(mask, MaskRule.roberta(1)).reshape(-1).tolist() == masks["roberta"]
    after = positions.from_mask(mask, MaskRule(masked=-1), past=3) + 2
    assert after.reshape(-1).tolist() == masks["opt_rows_after_3"]


def test_pages_and_slots_are_each_others_inverse():
    blocks, lengths = np.array([[3, 0, -1], [1, 4, 2]]), np.array([5, 7])
    at = positions.from_pages(blocks, lengths, 3, cache_blocks=6)
    assert at.shape == (6, 3) and (at[5] == -1).all()
    for row, length in enumerate(lengths):
        slots = positions.slots(np.arange(length)[None], blocks[row : row + 1], 3)
        assert (at.reshape(-1)[slots[0]] == np.arange(length)).all()
    joined = positions.slots(np.array([[0, 1, 0, 1, 2]]), blocks, 3, lengths=lengths, cu_seqlens=[0, 2, 5])
    assert joined.tolist() == [[9, 10, 3, 4, 5]]


def test_drafts_are_at_their_depth():
    assert positions.from_tree([-1, -1, 0, 2, 1], 7 * np.ones(1, int)).tolist() == [7, 7, 8, 9, 8]
    assert positions.from_tree([-1, 0], [3, 5]).tolist() == [[3, 4], [5, 6]]
    assert positions.from_tree([[-1, 0], [-1, -1]]).tolist() == [[0, 1], [0, 0]]


def test_grids_go_by_row_and_column():
    rows, columns = np.divmod(np.arange(6), 3)
    assert positions.from_grids([ImageGrid(rows=2, columns=3)]).tolist() == [[rows.tolist()], [columns.tolist()]]
    merged = positions.from_grids(torch.tensor([[2, 4, 6], [1, 2, 2]]), GridLayout(merge=2))
    assert merged.shape == (2, 1, 52) and merged[0, 0, :8].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    layout = GridLayout(axes=("column", "row"), first=1, suffix=1, outside=-5)
    assert positions.from_grids([(1, 1, 2)], layout)[:, 0].tolist() == [[1, 2, -5], [1, 1, -5]]
    centres = positions.from_grids([(1, 2, 2)], GridLayout(unit="centre"))
    assert centres.dtype == np.float64 and centres[0, 0].tolist() == [-0.5, -0.5, 0.5, 0.5]
    frames = positions.from_patches([[7, 0]], (2, 2, 2), GridLayout(axes=("frame", "row", "column")))
    assert frames[:, 0].tolist() == [[1, 0], [1, 0], [1, 0]]


@pytest.mark.parametrize("case", MROPE["cases"], ids=lambda case: case["model"])
def test_multimodal_ids_are_those_of_transformers(case):
    given = MropeInput(
        model=case["model"],
        input_ids=case["ids"],
        attention_mask=case["mask"],
        images=case["images"],
        videos=case["videos"],
        seconds_per_grid=case["seconds"],
        audio_lengths=case["audio"],
        use_audio_in_video=case["in_video"],
        tokens=MropeTokens(**MROPE["tokens"]),
        merge=case["merge"],
        tokens_per_second=case.get("tokens_per_second", 2.0),
        position_id_per_seconds=case.get("rate", 25.0),
    )
    ids, deltas = positions.mrope(given)
    assert ids.reshape(-1).tolist() == case["positions"]
    assert deltas.tolist() == case["deltas"]


def test_shards_hold_every_token_once():
    for order in ("contiguous", "zigzag", "striped"):
        held = [positions.shard(Shard(rank=rank, ranks=3, order=order, tokens=12)) for rank in range(3)]
        assert sorted(np.concatenate(held).tolist()) == list(range(12)), order
    assert positions.shard(Shard(rank=1, ranks=2, tokens=8)).tolist() == [2, 3, 4, 5]
    ragged = Shard(rank=0, ranks=2, cu_seqlens=[0, 4, 12], offsets=[100, 0])
    assert positions.shard(ragged).tolist() == [100, 103, 0, 1, 6, 7]
    assert positions.shard_tokens(ragged).tolist() == [0, 3, 4, 5, 10, 11]
    permuted = Shard(rank=1, ranks=2, order="permuted", tokens=4, permutation=[3, 1, 0, 2])
    assert positions.shard_tokens(permuted).tolist() == [0, 2]


def test_random_positions_are_sorted_distinct_and_repeatable():
    drawn = positions.random(20, 64, seed=5, batch=3)
    assert (np.diff(drawn) > 0).all() and drawn.min() >= 0 and drawn.max() < 64
    assert (drawn == positions.random(20, 64, seed=5, batch=3)).all() and (drawn != positions.random(20, 64, seed=6, batch=3)).any()


def test_positions_for_learned_tables():
    assert positions.abacus([[9, 1, 2, 9, 1]], [1, 2], offset=3).tolist() == [[0, 4, 5, 0, 4]]
    mask = np.array([[[1, 1, 0], [1, 1, 0]]])
    assert positions.detr(2, 3, mask)[:, 0].tolist() == [[1, 1, 0, 2, 2, 0], [1, 2, 2, 1, 2, 2]]
    share = positions.detr(1, 2, normalised=True)
    assert share.dtype == np.float64 and share[1, 0].tolist() == [1 / (2 + 1e-6), 2 / (2 + 1e-6)]
    assert positions.window(2, 3).tolist() == [0, 1, 2, 5, 6, 7]


@pytest.mark.parametrize(
    "map", [ReRope(5), LeakyReRope(5, 4.0), SelfExtend(6, 3), DualChunk(8, 2), DualChunk(8, 2, critical=True)], ids=repr
)
def test_each_key_is_in_one_pass_at_the_distance_of_the_map(map):
    at = np.arange(23)
    where = [
        (positions.pass_positions(map, i, "queries", at), positions.pass_positions(map, i, "keys", at))
        for i in range(positions.passes_of(map))
    ]
    for query in at.tolist():
        keys = [positions.keys_of_pass(map, i, query) for i in range(len(where))]
        assert sorted(key for one in keys for key in one) == list(range(query + 1))
        for (queries_at, keys_at), one in zip(where, keys):
            for key in one:
                assert abs(queries_at[query] - keys_at[key] - positions.mapped_distance(map, query, key)) < 1e-12
    assert math.isnan(positions.mapped_distance(map, 1, 2))


def test_temperatures_of_queries():
    llama4 = QueryTemperature(kind="floored_log", scale=0.1, length=8192, shift=1)
    at = np.array([[0, 8190, 8191], [20000, 10**6, 3]])
    wanted = 1 + 0.1 * np.log(1 + np.floor((at + 1) / 8192))
    assert np.allclose(positions.temperature(llama4, at), wanted, rtol=1e-7) and positions.temperature(llama4, at).dtype == np.float32
    out = np.zeros((2, 6), np.float32)[:, ::2]  # any strides
    assert positions.temperature(llama4, at, out=out) is out and (out == positions.temperature(llama4, at)).all()
    with pytest.raises(ValueError, match="out are float64 of 2 axes, wanted float32"):
        positions.temperature(llama4, at, out=np.zeros((2, 3)))
    assert math.isclose(positions.query_temperature(llama4, 10**6), 1 + 0.1 * math.log(1 + 1000001 // 8192))
    assert math.isnan(positions.query_temperature(QueryTemperature(kind="log_n", length=1), 5))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: positions.from_offset(3, 2**31, out=np.empty(3, np.int32)), ValueError, "i32"),
        (lambda: positions.from_offset(3, out=np.empty(3, np.float32)), TypeError, "int32, int64 or float64"),
        (lambda: positions.from_offsets(3, [0.5]), TypeError, "integers"),
        (lambda: positions.from_cu_seqlens([0, 5, 3]), ValueError, "cu_seqlens"),
        (lambda: positions.from_mask([[0, 2]]), ValueError, "2"),
        (lambda: positions.from_mask([0, 1]), ValueError, "axes"),
        (lambda: positions.from_mask(np.zeros((1, 2), np.uint64) + 2**63), ValueError, "64 bits"),
        (lambda: positions.from_pages([[0, 0]], [4], 2, cache_blocks=1), ValueError, "block 0"),
        (lambda: positions.from_tree([1, -1]), ValueError, "parent"),
        (lambda: positions.from_grids([(1, 3, 3)], GridLayout(merge=2)), ValueError, "merge"),
        (lambda: positions.from_grids([(1, 2)]), TypeError, "ImageGrid"),
        (lambda: positions.from_grids([(1, 2, 2)], GridLayout(axes=("depth",))), ValueError, "frame, row or column"),
        (lambda: positions.mrope(MropeInput(model="llava", input_ids=[[1]])), ValueError, "qwen2_vl"),
        (lambda: positions.mrope(MropeInput(input_ids=[1])), ValueError, "axes"),
        (lambda: positions.shard(Shard(rank=2, ranks=2, tokens=8)), ValueError, "rank"),
        (lambda: positions.temperature(QueryTemperature(length=8), 5), TypeError, "wanted an array"),
        (lambda: positions.temperature(QueryTemperature(length=8), np.zeros((2, 3, 4), int)), ValueError, "axes"),
        (lambda: positions.slots(None, [[0]], 2), TypeError, "wanted an array"),
        (lambda: positions.random(5, 4), ValueError, "4"),
        (lambda: positions.mapped_distance("rerope", 1, 0), TypeError, "ReRope"),
        (lambda: positions.pass_positions(ReRope(4), 5, "keys", [0]), ValueError, "pass"),
        (lambda: positions.pass_positions(ReRope(4), 0, "values", [0]), ValueError, "queries or keys"),
        (lambda: positions.pass_positions(LeakyReRope(4, 2.0), 1, "keys", [0, 1], out=np.empty(2, np.int64)), ValueError, "a fraction"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_nothing_is_written_on_an_error():
    out = np.full((1, 3), 77)
    with pytest.raises(ValueError):
        positions.from_mask([[1, 1, 5]], out=out)
    assert (out == 77).all()
