# SPDX-License-Identifier: Apache-2.0
"""Positions from what engines and models have at hand: offsets, ragged batches, masks, pages, draft trees, grids, shards; position maps.

Every builder returns a NumPy array of int64 (float64 where positions are fractions), or fills `out`, an int32, int64 or float64 array of
any library, (T), (B, T) or (axes, B, T), and returns that. All input is checked first: nothing is written on an error. Offsets, ragged
batches and slots are built on a GPU too, from lists that are there: nothing waits, and their numbers are the caller's word.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from phasor import _core
from phasor._arrays import Array, Positions, empty_on_gpu, gpu_of, positions_argument
from phasor._bias_specs import Window
from phasor._numbers import host_array, integers
from phasor._types.positions import (
    DualChunk,
    GridLayout,
    ImageGrid,
    LeakyReRope,
    MaskRule,
    MropeInput,
    MropeTokens,
    PositionMap,
    QueryTemperature,
    ReRope,
    SelfExtend,
    Shard,
    grids_of,
)

__all__ = [
    "DualChunk",
    "GridLayout",
    "ImageGrid",
    "LeakyReRope",
    "MaskRule",
    "MropeInput",
    "MropeTokens",
    "QueryTemperature",
    "ReRope",
    "SelfExtend",
    "Shard",
    "Window",
    "abacus",
    "detr",
    "from_cu_seqlens",
    "from_grids",
    "from_mask",
    "from_offset",
    "from_offsets",
    "from_pages",
    "from_patches",
    "from_tree",
    "keys_of_pass",
    "mapped_distance",
    "mrope",
    "pass_positions",
    "passes_of",
    "query_temperature",
    "random",
    "shard",
    "shard_tokens",
    "slots",
    "temperature",
    "window",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def _made(out: Array | None, shape: tuple[int, ...], dtype: type = np.int64) -> Array:
    return np.empty(shape, dtype) if out is None else out


def _integers(values: Any, where: str) -> Array:
    """Lists of the host as NumPy arrays; those on a GPU stay there, for an `out` beside them."""
    return integers(values, where) if gpu_of(values) is None else values


def _beside(lists: Array, shape: tuple[int, ...], dtype: type = np.int64) -> Array:
    """Memory where the lists are."""
    return np.empty(shape, dtype) if gpu_of(lists) is None else empty_on_gpu(shape, dtype, lists)


def _given(positions: Positions, where: str) -> Array:
    """Positions that must be an array here: an offset alone does not say how many tokens there are."""
    at = positions_argument(positions)
    if at is None or isinstance(at, int):
        raise TypeError(f"{where}: is {at!r}, wanted an array of positions")
    return at


def from_offset(tokens: int, offset: int = 0, *, out: Array | None = None) -> Array:
    """offset + t for `tokens` tokens.

    >>> from_offset(3, 100).tolist()
    [100, 101, 102]
    """
    out = _made(out, (tokens,))
    _core.fill_from_offset(out, offset)
    return out


def from_offsets(tokens: int, offsets: Any, *, out: Array | None = None) -> Array:
    """(B, T): offsets[b] + t.

    >>> from_offsets(2, [5, 9]).tolist()
    [[5, 6], [9, 10]]
    """
    firsts = _integers(offsets, "offsets")
    out = _beside(firsts, (math.prod(firsts.shape), tokens)) if out is None else out
    _core.fill_from_offsets(out, firsts)
    return out


def from_cu_seqlens(cu_seqlens: Any, offsets: Any = None, *, out: Array | None = None) -> Array:
    """Sequences one after the other: s is the tokens cu_seqlens[s] to cu_seqlens[s + 1] and begins at position offsets[s] (0).

    >>> from_cu_seqlens([0, 2, 5]).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = _integers(cu_seqlens, "cu_seqlens")
    if out is None and gpu_of(ends) is not None:
        raise ValueError("from_cu_seqlens: cu_seqlens are on a GPU, whose last number nobody waits for; wanted out=")
    out = np.empty(int(ends.reshape(-1)[-1]) if ends.size else 0, np.int64) if out is None else out
    _core.fill_from_cu_seqlens(out, ends, _integers(offsets, "offsets"))
    return out


def from_mask(mask: Any, rule: MaskRule = MaskRule(), *, pad: int | None = None, past: int = 0, out: Array | None = None) -> Array:
    """From an attention mask (B, past + T) of 1 and 0, or token ids with `pad`: the n-th unmasked token is at rule.first + n.

    >>> from_mask([[0, 0, 1, 1, 1]]).tolist()
    [[0, 0, 0, 1, 2]]
    >>> from_mask([[7, 8, 1]], MaskRule.roberta(1), pad=1).tolist()
    [[2, 3, 1]]
    """
    values = integers(mask, "mask")
    shape = np.shape(values)
    if out is None and len(shape) != 2:
        raise ValueError(f"from_mask: mask has {len(shape)} axes, wanted (B, past + T)")
    out = _made(out, (shape[0], max(shape[-1] - past, 0)))
    _core.fill_from_mask(out, values, pad, past, rule)
    return out


def from_pages(blocks: Any, lengths: Any, page_size: int, *, cache_blocks: int, empty: int = -1, out: Array | None = None) -> Array:
    """(cache_blocks, page_size): the position of the token in every place of a paged cache, `empty` where there is none.

    Page i of sequence s is block blocks[s, i] (negative: none); lengths are the tokens of each sequence.

    >>> from_pages([[2, 0]], [3], 2, cache_blocks=3).tolist()
    [[2, -1], [-1, -1], [0, 1]]
    """
    out = _made(out, (cache_blocks, page_size))
    _core.fill_from_pages(out, integers(blocks, "blocks"), integers(lengths, "lengths"), page_size, empty)
    return out


def slots(at: Any, blocks: Any, page_size: int, *, lengths: Any = None, cu_seqlens: Any = None, out: Array | None = None) -> Array:
    """Slots block * page_size + place of the tokens at positions `at` (B, T): row b is sequence b, or with cu_seqlens one row holds all.

    >>> slots([[0, 1, 2]], [[2, 0]], 2).tolist()
    [[4, 5, 0]]
    """
    positions = _given(at, "slots: at")
    out = _beside(positions, tuple(positions.shape)) if out is None else out
    lists = (_integers(blocks, "blocks"), _integers(lengths, "lengths"), _integers(cu_seqlens, "cu_seqlens"))
    _core.fill_slots(out, positions, page_size, lists)
    return out


def from_tree(parents: Any, offsets: Any = None, *, out: Array | None = None) -> Array:
    """Speculative drafts: offset + depth. Token t hangs on parents[t] (T) or (B, T), or (-1) on the tokens accepted so far.

    >>> from_tree([-1, 0, 0, 1], [10]).tolist()
    [10, 11, 11, 12]
    """
    above, firsts = integers(parents, "parents"), integers(offsets, "offsets")
    shape = above.shape if above.ndim == 2 or firsts.size <= 1 else (firsts.size, *above.shape)
    out = _made(out, shape)
    _core.fill_from_tree(out, above, firsts)
    return out


def _grid_shape(layout: GridLayout) -> tuple[int, type]:
    return len(layout.axes) or 2, np.float64 if layout.unit == "centre" else np.int64


def from_grids(grids: Any, layout: GridLayout = GridLayout(), *, out: Array | None = None) -> Array:
    """(axes, 1, T): positions of the patches of images or videos, ImageGrid or (frames, rows, columns), one after the other.

    >>> from_grids([(1, 2, 2)])[:, 0].tolist()
    [[0, 0, 1, 1], [0, 1, 0, 1]]
    """
    found = grids_of(grids, "grids")
    tokens = sum(grid.frames * grid.rows * grid.columns + layout.prefix + layout.suffix for grid in found)
    axes, dtype = _grid_shape(layout)
    out = _made(out, (axes, 1, max(tokens, 0)), dtype)
    _core.fill_from_grids(out, found, layout)
    return out


def from_patches(
    patches: Any, grid: ImageGrid | tuple[int, int, int], layout: GridLayout = GridLayout(), *, out: Array | None = None
) -> Array:
    """(axes, B, T): positions of the patches of given indices (B, T) in a grid, as a masked V-JEPA 2 has them.

    >>> from_patches([[3, 0]], (1, 2, 2))[:, 0].tolist()
    [[1, 0], [1, 0]]
    """
    indices = np.atleast_2d(integers(patches, "patches"))
    axes, dtype = _grid_shape(layout)
    out = _made(out, (axes, *indices.shape), dtype)
    _core.fill_from_patches(out, indices, grids_of([grid], "grid")[0], layout)
    return out


def mrope(given: MropeInput, *, out: Array | None = None) -> tuple[Array, np.ndarray]:
    """(3, B, T) frame, row and column ids, bit for bit those of transformers' get_rope_index, and B deltas.

    A delta is what to add to a token's index to go on after the row. Qwen3-Omni's ids may be fractions: float64.

    >>> tokens = MropeTokens(image=9, vision_start=8)
    >>> ids, deltas = mrope(MropeInput(input_ids=[[1, 8, 9, 2]], images=[(1, 2, 2)], tokens=tokens))
    >>> ids[:, 0].tolist(), deltas.tolist()
    ([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]], [0.0])
    """
    ready = _ready_mrope(given)
    shape = ready.input_ids.shape or ready.token_types.shape
    if ready.input_ids.size == 0:
        shape = ready.token_types.shape
    if out is None and len(shape) != 2:
        raise ValueError(f"mrope: input_ids have {len(shape)} axes, wanted (B, T)")
    out = _made(out, (3, *shape), np.float64 if given.model == "qwen3_omni" else np.int64)
    return out, np.array(_core.fill_mrope(out, ready))


def _ready_mrope(given: MropeInput) -> MropeInput:
    """The same with lists made into what the core takes."""
    lists: dict[str, Any] = {
        name: integers(getattr(given, name), name) for name in ("input_ids", "token_types", "attention_mask", "audio_lengths")
    }
    seconds = tuple(float(one) for one in host_array(given.seconds_per_grid).reshape(-1))
    return replace(
        given, images=grids_of(given.images, "images"), videos=grids_of(given.videos, "videos"), seconds_per_grid=seconds, **lists
    )


def _ready_shard(given: Shard) -> tuple[Shard, int]:
    """The same with lists made into what the core takes, and the tokens of a rank."""
    lists: dict[str, Any] = {name: integers(getattr(given, name), name) for name in ("cu_seqlens", "offsets", "permutation")}
    ends = lists["cu_seqlens"].reshape(-1)
    tokens = lists["permutation"].size or (int(ends[-1]) if ends.size else given.tokens)
    return replace(given, **lists), max(tokens, 0) // max(given.ranks, 1)


def shard(part: Shard, *, out: Array | None = None) -> Array:
    """Positions of the tokens that one rank of a context-parallel group holds.

    >>> shard(Shard(rank=0, ranks=2, tokens=8)).tolist()
    [0, 1, 6, 7]
    """
    ready, tokens = _ready_shard(part)
    out = _made(out, (tokens,))
    _core.fill_shard(out, ready)
    return out


def shard_tokens(part: Shard, *, out: Array | None = None) -> Array:
    """Which tokens of the whole those are.

    >>> shard_tokens(Shard(rank=1, ranks=2, order="striped", tokens=6)).tolist()
    [1, 3, 5]
    """
    ready, tokens = _ready_shard(part)
    out = _made(out, (tokens,))
    _core.fill_shard_tokens(out, ready)
    return out


def random(tokens: int, length: int, seed: int = 0, *, batch: int = 1, out: Array | None = None) -> Array:
    """(batch, tokens) of the positions 0 to length - 1, drawn without replacement and sorted, for each row anew; the same on every machine.

    >>> drawn = random(4, 100, seed=1)
    >>> drawn.shape, bool((np.diff(drawn[0]) > 0).all())
    ((1, 4), True)
    """
    out = _made(out, (batch, tokens))
    _core.fill_random(out, length, seed)
    return out


def abacus(input_ids: Any, digits: Any, offset: int = 0, *, out: Array | None = None) -> Array:
    """Abacus: the n-th digit of a run of digits is at n + offset (n from 1), every other token at 0.

    >>> abacus([[5, 1, 2, 5, 1]], digits=[1, 2]).tolist()
    [[0, 1, 2, 0, 1]]
    """
    ids = integers(input_ids, "input_ids")
    out = _made(out, ids.shape)
    _core.fill_abacus(out, ids, integers(digits, "digits"), offset)
    return out


def detr(rows: int, columns: int, mask: Any = None, *, normalised: bool = False, out: Array | None = None) -> Array:
    """DETR's pixels, (2, B, rows * columns): row, then column, from 1 over what `mask` (B, rows, columns) has; normalised: float64.

    >>> detr(1, 3)[:, 0].tolist()
    [[1, 1, 1], [1, 2, 3]]
    """
    pixels = integers(mask, "mask")
    batch = pixels.shape[0] if pixels.ndim == 3 else 1
    out = _made(out, (2, batch, max(rows, 0) * max(columns, 0)), np.float64 if normalised else np.int64)
    _core.fill_detr(out, (rows, columns), pixels, normalised)
    return out


def window(height: int, width: int, *, out: Array | None = None) -> Array:
    """The positions of a window's tokens, row by row, for SwinTable and SwinV2.

    >>> window(2, 2).tolist()
    [0, 1, 3, 4]
    """
    out = _made(out, (max(height, 0) * max(width, 0),))
    _core.fill_window(out, Window(height, width))
    return out


def mapped_distance(map: PositionMap, query: int, key: int) -> float:
    """The distance that a query sees a key at; NaN for a key behind its query and negative positions.

    >>> mapped_distance(ReRope(window=4), 10, 1)
    4.0
    """
    return _core.mapped_distance(map, query, key)


def passes_of(map: PositionMap) -> int:
    """How often queries and keys are rotated: 3 for DualChunk, else 2, near and far.

    >>> passes_of(DualChunk(chunk=8, local=2))
    3
    """
    return _core.passes_of(map)


def keys_of_pass(map: PositionMap, pass_: int, query: int) -> range:
    """The keys at which a query takes its scores from a pass; every key from 0 to the query is in exactly one.

    >>> keys_of_pass(ReRope(window=4), 0, 10)
    range(7, 11)
    """
    return range(*_core.keys_of_pass(map, pass_, query))


def pass_positions(map: PositionMap, pass_: int, side: str, at: Positions, *, out: Array | None = None) -> Array:
    """Where to rotate the "queries" or "keys" at positions `at` in a pass. LeakyReRope's far pass has fractions: float64.

    >>> pass_positions(SelfExtend(window=4, group=2), 1, "keys", [0, 1, 2, 3]).tolist()
    [0, 0, 1, 1]
    """
    positions = _given(at, "pass_positions: at")
    out = _made(out, tuple(positions.shape), np.float64 if isinstance(map, LeakyReRope) else np.int64)
    _core.fill_pass_positions(out, map, pass_, side, positions)
    return out


def query_temperature(temperature: QueryTemperature, position: int) -> float:
    """The factor on a query at a position, the nearest float64; NaN where the formula has no value.

    >>> query_temperature(QueryTemperature(kind="floored_log", scale=0.1, length=8192, shift=1), 8191)
    1.0693147180559945
    """
    return _core.query_temperature(temperature, position)


def temperature(temperature: QueryTemperature, positions: Positions, *, out: Array | None = None) -> Array:
    """One factor for each position (T) or (B, T), the nearest float32: `query_factors` of `prepare_attention`. Positions on a GPU have
    theirs there, so that a captured step renews them; one without a factor has 1 there, on a CPU it is an error.

    >>> temperature(QueryTemperature(kind="log_n", length=16), [0, 255]).tolist()
    [1.0, 2.0]
    """
    at = _given(positions, "temperature: positions")
    out = _beside(at, tuple(at.shape), np.float32) if out is None else out
    _core.fill_temperature(out, temperature, at)
    return out
