# SPDX-License-Identifier: Apache-2.0
"""What a model's files say about its positions, as values: the dataclasses of include/phasor/model.hpp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phasor._spec import *  # noqa: F403 - the core finds every dataclass of a model here
from phasor._spec import RotarySpec

__all__ = [
    "QueryTemperature",
    "ModelBias",
    "ModelAdditive",
    "ModelDualChunk",
    "LayerPositions",
    "ModelTower",
    "ModelPositions",
    "Difference",
    "PermuteOptions",
    "PermuteReport",
]

Numerics = Literal["exact", "hf", "hf_float32", "vllm", "ggml"]


@dataclass(frozen=True)
class QueryTemperature:
    """A factor on a query by its position p.

    log_n: max(1, ln(p + 1) / ln(length)); floored_log: 1 + scale ln(1 + floor((p + shift) / length)).

    >>> QueryTemperature(kind="floored_log", scale=0.1, length=8192, shift=1).length
    8192
    """

    kind: Literal["log_n", "floored_log"] = "log_n"
    scale: float = 0.0
    length: int = 0
    shift: int = 0


@dataclass(frozen=True)
class ModelBias:
    """What a model adds to its scores."""

    kind: Literal["alibi", "t5_buckets", "deberta", "xlnet", "transformer_xl", "swin"] = "alibi"
    heads: int = 0
    buckets: int = 0  # t5_buckets; deberta: 0 for no log buckets
    max_distance: int = 0  # t5_buckets, deberta
    max_alibi: float = 8.0  # alibi: slopes from 2^(-max_alibi / heads) on
    bidirectional: bool = False


@dataclass(frozen=True)
class ModelAdditive:
    """What a model adds to its tokens."""

    kind: Literal["learned", "sinusoidal"] = "learned"
    length: int = 0  # rows of the table; 0: no table
    width: int = 0
    first_position: int = 0  # row of the first token: RoBERTa padding_idx + 1, OPT 2


@dataclass(frozen=True)
class ModelDualChunk:
    """Dual chunk attention (Qwen2.5-1M): positions are mapped so that no distance exceeds chunk_size."""

    chunk_size: int = 0
    local_size: int = 0


@dataclass(frozen=True)
class LayerPositions:
    """What one layer does with positions; without rotary, bias and additive it knows none."""

    type: str = ""  # "full_attention", ..., as the file names it; empty when it names none
    rotary: RotarySpec | None = None
    bias: ModelBias | None = None
    additive: ModelAdditive | None = None  # added once, before the first layer; every layer says so
    attention_scale: float | None = None  # factor on q k; None: 1/sqrt(head_dim). Rotary.softmax_scale comes on top
    query_temperature: QueryTemperature | None = None
    window: int = 0  # sliding window, both sides together where attention looks both ways; 0: none
    chunk: int = 0  # attention stays inside chunks of so many positions (Llama 4); 0: no chunks
    dual_chunk: ModelDualChunk | None = None
    numerics: Numerics = "hf"  # the profile that repeats the model's own rounding (rotary.numerics stays "exact")
    output_turned_back: bool = False  # values are rotated too and the output by minus the query's position (DeepSeek-V4)
    skipped_tokens: int = 0  # prefix tokens that are not rotated (CLS, registers)
    first_position: int = 0  # of a rotary: where rows and columns of patches begin (Llama 4 vision: 1)


@dataclass(frozen=True)
class ModelTower:
    """A part of a model beside its text layers."""

    name: str = ""  # "vision", "audio", "encoder"
    model_type: str = ""
    layers: tuple[LayerPositions, ...] = ()


@dataclass(frozen=True)
class ModelPositions:
    """A model's positions, layer by layer, whatever dialect its files speak."""

    dialect: str = ""  # "huggingface", "gguf"
    model_type: str = ""
    text_type: str = ""  # of the text part, where the file names one of its own ("gemma3_text" in "gemma3")
    layers: tuple[LayerPositions, ...] = ()
    towers: tuple[ModelTower, ...] = ()
    trained_length: int = 0  # positions before any extension; 0: the file does not say
    length: int = 0  # positions the file allows
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """One difference of two models: where, what either says, whether it matters and why."""

    where: str = ""
    left: str = ""
    right: str = ""
    matters: bool = True
    why: str = ""


@dataclass(frozen=True)
class PermuteOptions:
    """Between which pairings weights go, and the shape of the model.

    >>> PermuteOptions(heads=32, kv_heads=8).target
    'interleaved'
    """

    source: Literal["half", "interleaved"] = "half"
    target: Literal["half", "interleaved"] = "interleaved"
    heads: int = 0  # of q
    kv_heads: int = 0  # of k; 0: heads
    head_dim: int = 0  # 0: rows / heads
    rotary_width: int = 0  # 0: head_dim
    rotary_offset: int = 0
    prefix: str = ""  # only tensors whose names begin so; empty: all


@dataclass(frozen=True)
class PermuteReport:
    """Which tensors were permuted, and how many were copied as they are."""

    permuted: tuple[str, ...] = ()
    copied: int = 0
