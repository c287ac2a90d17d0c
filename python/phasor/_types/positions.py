# SPDX-License-Identifier: Apache-2.0
"""What the builders of phasor.positions take, as values: the structs of position_builders.hpp and position_maps.hpp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from phasor._types.model import QueryTemperature

__all__ = [
    "DualChunk",
    "GridLayout",
    "ImageGrid",
    "LeakyReRope",
    "MaskRule",
    "MropeInput",
    "MropeTokens",
    "PositionMap",
    "QueryTemperature",
    "ReRope",
    "SelfExtend",
    "Shard",
    "grids_of",
]


@dataclass(frozen=True)
class MaskRule:
    """The n-th token that is not masked is at first + n, a masked one at `masked`. 0, 0: transformers' generate, Bloom; 0, -1: OPT."""

    first: int = 0
    masked: int = 0

    @staticmethod
    def roberta(padding_idx: int) -> MaskRule:
        """RoBERTa and its kin: rows of the learned table, from padding_idx + 1 on.

        >>> MaskRule.roberta(1)
        MaskRule(first=2, masked=1)
        """
        return MaskRule(padding_idx + 1, padding_idx)


@dataclass(frozen=True)
class ImageGrid:
    """Patches of an image or a video; also a row of image_grid_thw."""

    frames: int = 1
    rows: int = 0
    columns: int = 0


def grids_of(grids: Any, where: str) -> tuple[ImageGrid, ...]:
    """ImageGrids from themselves, from (frames, rows, columns) triples, or from an array (n, 3)."""
    if hasattr(grids, "tolist"):
        grids = grids.tolist()
    found = []
    for grid in grids:
        if not isinstance(grid, ImageGrid):
            if not isinstance(grid, Sequence) or len(grid) != 3:
                raise TypeError(f"{where}: has {grid!r}, wanted ImageGrid or (frames, rows, columns)")
            grid = ImageGrid(*grid)
        found.append(grid)
    return tuple(found)


@dataclass(frozen=True)
class GridLayout:
    """How positions go through a grid. Axes empty: row, column (Qwen vision, Pixtral); ("frame", "row", "column"): V-JEPA 2."""

    axes: tuple[Literal["frame", "row", "column"], ...] = ()
    merge: int = 1  # tokens go through the grid by squares of merge x merge (Qwen vision, GLM-4V)
    unit: Literal["index", "centre"] = "index"  # centre: (2 i + 1 - n) / n, in [-1, 1] (DINOv3)
    first: int = 0  # index of the first row, column and frame (Llama 4: 1)
    prefix: int = 0  # tokens before each grid (CLS, registers)
    suffix: int = 0  # and behind it
    outside: int = 0  # position of those


@dataclass(frozen=True)
class MropeTokens:
    """Special token ids, as the model's config names them; -1: none."""

    image: int = -1
    video: int = -1
    audio: int = -1
    vision_start: int = -1
    audio_start: int = -1
    video_start: int = -1
    video_end: int = -1


@dataclass(frozen=True, eq=False)
class MropeInput:
    """What get_rope_index of a multimodal model goes by. Arrays are (B, T); grids are in patches, before merging."""

    model: Literal["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl", "qwen2_5_omni", "qwen3_omni"] = "qwen2_vl"
    input_ids: Any = None
    token_types: Any = None  # 0 text, 1 image, 2 video; instead of input_ids, not for Omni
    attention_mask: Any = None  # None: nothing is masked
    images: Any = ()
    videos: Any = ()
    seconds_per_grid: Sequence[float] = ()  # one a video (Qwen2.5-VL, Omni); empty: 1
    audio_lengths: Any = None  # audio_seqlens (Omni)
    use_audio_in_video: bool = False
    tokens: MropeTokens = field(default_factory=MropeTokens)
    merge: int = 2  # spatial_merge_size
    temporal_merge: int = 2  # of Ernie's videos
    tokens_per_second: float = 2.0  # Qwen2.5-VL
    position_id_per_seconds: float = 25.0  # Omni
    seconds_per_chunk: float = 2.0  # Qwen2.5-Omni
    audio_window: int = 50  # Qwen3-Omni's n_window


@dataclass(frozen=True, eq=False)
class Shard:
    """The part of a sequence, or of several in cu_seqlens, that one rank of `ranks` holds. permuted: parts of `permutation`."""

    rank: int = 0
    ranks: int = 1
    order: Literal["contiguous", "zigzag", "striped", "permuted"] = "zigzag"
    tokens: int = 0  # of one whole sequence from position 0 on; or
    cu_seqlens: Any = None  # sequences, each dealt out by itself
    offsets: Any = None  # position of the first token of each; None: 0
    permutation: Any = None


@dataclass(frozen=True)
class ReRope:
    """Distances from `window` on are seen as window."""

    window: int = 0


@dataclass(frozen=True)
class LeakyReRope:
    """Distances r from `window` on are seen as window + (r - window) / factor."""

    window: int = 0
    factor: float = 1.0


@dataclass(frozen=True)
class SelfExtend:
    """Distances from `window` on are those of groups: floor(query / group) - floor(key / group) + window - floor(window / group)."""

    window: int = 0
    group: int = 1


@dataclass(frozen=True)
class DualChunk:
    """Dual chunk attention, with chunks of chunk - local; critical: as vLLM scores the tokens that sparse attention keeps."""

    chunk: int = 0
    local: int = 0
    critical: bool = False


PositionMap = ReRope | LeakyReRope | SelfExtend | DualChunk
