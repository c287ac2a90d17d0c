# SPDX-License-Identifier: Apache-2.0
"""Phasor: position encodings for Transformers, exact at every position and at the speed of memory."""

import importlib
from typing import Any

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
from phasor._model_types import (
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
from phasor._rotary import Rotary, apply_rotary, apply_rotary_
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
)
from phasor._targets import active_target, force_target, targets, version

__all__ = [
    "Alibi",
    "Axes",
    "BandLadder",
    "Bias",
    "DebertaBuckets",
    "Difference",
    "DynamicMlp",
    "DynamicNtkScaling",
    "Fire",
    "GeometricLadder",
    "GivenDirections",
    "GivenFactors",
    "GivenFrequencies",
    "GivenLadder",
    "Kerple",
    "LayerPositions",
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
    "Rotary",
    "RotarySpec",
    "Sandwich",
    "ShawClip",
    "ShiftOperator",
    "Sinusoidal",
    "SinusoidalSpec",
    "SwinTable",
    "SwinV2",
    "T5Buckets",
    "TableLayout",
    "Unscaled",
    "Window",
    "XlSinusoids",
    "YarnScaling",
    "active_target",
    "add_sinusoidal_",
    "alibi_slopes",
    "analysis",
    "apply_rotary",
    "apply_rotary_",
    "detect_pairing",
    "diff",
    "explain",
    "explain_json",
    "force_target",
    "get_num_threads",
    "hierarchical_table",
    "lookup_add",
    "lookup_add_",
    "permute_safetensors",
    "plot",
    "positions",
    "read_learned_table",
    "read_model",
    "resample_table",
    "scatter_gradient_",
    "set_num_threads",
    "sinusoidal",
    "t5_buckets",
    "targets",
    "to_gguf_keys",
    "to_hf_config",
    "version",
    "xl_sinusoids",
]

__version__ = version()


def __getattr__(name: str) -> Any:
    # What needs PyTorch is imported when it is asked for: the rest works without.
    if name in ("hf", "nn"):
        return importlib.import_module(f"phasor.{name}")
    raise AttributeError(f"module 'phasor' has no attribute {name!r}")
