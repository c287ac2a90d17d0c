# SPDX-License-Identifier: Apache-2.0
"""Phasor: position encodings for Transformers, exact at every position and at the speed of memory."""

from importlib import import_module as _import_module
from typing import Any as _Any

from phasor import _cuda

if _why_without_cuda := _cuda.take():  # before anything imports the core
    from phasor._core import set_cuda_advice as _set_cuda_advice

    _set_cuda_advice(_why_without_cuda)

from phasor import analysis, plot, positions
from phasor._additive import (
    BandLadder,
    GeometricLadder,
    GivenLadder,
    LogSpacedLadder,
    ShiftOperator,
    Sinusoidal,
    SinusoidalSpec,
    add_sinusoidal_,
    sinusoidal,
)
from phasor._attention import attention, attention_weights, explain_attention, merge_attention, scheme_of
from phasor._bias import Bias, alibi_slopes, t5_buckets, xl_sinusoids
from phasor._bias_specs import (
    Alibi,
    DebertaBuckets,
    DynamicMlp,
    Fire,
    Kerple,
    Mlp,
    Sandwich,
    ShawClip,
    SwinTable,
    SwinV2,
    T5Buckets,
    Window,
    XlSinusoids,
)
from phasor._core import get_num_threads, set_num_threads
from phasor._learned import hierarchical_table, lookup_add, lookup_add_, read_learned_table, resample_table, scatter_gradient_
from phasor._model import (
    detect_pairing,
    diff,
    explain,
    explain_json,
    permute_safetensors,
    read_model,
    to_gguf_keys,
    to_hf_config,
)
from phasor._attention.cached import cached_attention
from phasor._prepare import Cache, CacheScales, HeadNorm, prepare_attention
from phasor._rotary import Rotary, apply_rotary, apply_rotary_
from phasor._rows import apply_rotaries, apply_rotaries_
from phasor._attention.types import AttentionScheme
from phasor._attention.schemes import (
    BiasTerm,
    Conformer,
    Cope,
    Deberta,
    Decomposed,
    Dense,
    Grid,
    Inkling,
    LearnedBias,
    Rope,
    Shaw,
    T5,
    TableTerm,
    TransformerXL,
    WavLM,
    XLNet,
    Xpos,
)
from phasor._spec import (
    Axes,
    DynamicNtkScaling,
    GivenDirections,
    GivenFactors,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NtkMixedScaling,
    NtkScaling,
    ProportionalScaling,
    RotarySpec,
    TableLayout,
    Unscaled,
    YarnScaling,
    spec_from_json,
    spec_to_json,
)
from phasor._targets import active_target, force_target, targets, version
from phasor._types.model import (
    Difference,
    LayerPositions,
    ModelAdditive,
    ModelBias,
    ModelDualChunk,
    ModelPositions,
    ModelTower,
    PermuteOptions,
    PermuteReport,
    QueryTemperature,
)

__all__ = [
    "Alibi",
    "AttentionScheme",
    "Axes",
    "BandLadder",
    "Bias",
    "BiasTerm",
    "Cache",
    "CacheScales",
    "Conformer",
    "Cope",
    "Deberta",
    "DebertaBuckets",
    "Decomposed",
    "Dense",
    "Difference",
    "DynamicMlp",
    "DynamicNtkScaling",
    "Fire",
    "GeometricLadder",
    "GivenDirections",
    "GivenFactors",
    "GivenFrequencies",
    "GivenLadder",
    "Grid",
    "HeadNorm",
    "Inkling",
    "Kerple",
    "LayerPositions",
    "LearnedBias",
    "LinearScaling",
    "Llama3Scaling",
    "LogSpacedLadder",
    "LongRopeScaling",
    "Mlp",
    "ModelAdditive",
    "ModelBias",
    "ModelDualChunk",
    "ModelPositions",
    "ModelTower",
    "NtkMixedScaling",
    "NtkScaling",
    "PermuteOptions",
    "PermuteReport",
    "ProportionalScaling",
    "QueryTemperature",
    "Rope",
    "Rotary",
    "RotarySpec",
    "Sandwich",
    "Shaw",
    "ShawClip",
    "ShiftOperator",
    "Sinusoidal",
    "SinusoidalSpec",
    "SwinTable",
    "SwinV2",
    "T5",
    "T5Buckets",
    "TableLayout",
    "TableTerm",
    "TransformerXL",
    "Unscaled",
    "WavLM",
    "Window",
    "XLNet",
    "XlSinusoids",
    "Xpos",
    "YarnScaling",
    "active_target",
    "add_sinusoidal_",
    "alibi_slopes",
    "analysis",
    "apply_rotaries",
    "apply_rotaries_",
    "apply_rotary",
    "apply_rotary_",
    "attention",
    "attention_weights",
    "cached_attention",
    "detect_pairing",
    "diff",
    "explain",
    "explain_attention",
    "explain_json",
    "force_target",
    "get_num_threads",
    "hierarchical_table",
    "lookup_add",
    "lookup_add_",
    "merge_attention",
    "permute_safetensors",
    "plot",
    "positions",
    "prepare_attention",
    "read_learned_table",
    "read_model",
    "resample_table",
    "scatter_gradient_",
    "scheme_of",
    "set_num_threads",
    "sinusoidal",
    "spec_from_json",
    "spec_to_json",
    "t5_buckets",
    "targets",
    "to_gguf_keys",
    "to_hf_config",
    "version",
    "xl_sinusoids",
]

__version__ = version()


_ON_DEMAND = ("hf", "nn", "onnx", "search")  # imported when they are asked for: all but search need PyTorch, and the rest works without


def __getattr__(name: str) -> _Any:
    if name in _ON_DEMAND:
        return _import_module(f"phasor.{name}")
    raise AttributeError(f"module 'phasor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ON_DEMAND, "__version__"])
