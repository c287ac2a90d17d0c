# SPDX-License-Identifier: Apache-2.0
"""Rotary layers of vLLM and SGLang, by the names of their classes: which scaling their attributes say, and which axis turns which pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from phasor._spec import (
    DynamicNtkScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NtkMixedScaling,
    NtkScaling,
    ProportionalScaling,
    Scaling,
    Unscaled,
    YarnScaling,
)

Arguments = Mapping[str, Any]  # what the layer was made with, by name


@dataclass(frozen=True)
class Kind:
    """What is known of a class of layers."""

    scaling: Callable[[Any], Scaling] | None  # as the layer has it; None: its tables are no formula of positions (learned)
    axis_of_pair: Callable[[Any], tuple[int, ...]] | None = None  # None: positions have one axis
    corrected: Callable[[Any, Arguments], Scaling | None] | None = None  # what it should be, where the engine is wrong; None: it is right
    kernel: bool = False  # its own forward on the CPU is a kernel in float32; else PyTorch's operations, each rounded to the tensor's dtype
    plain_cuda: bool = False  # so is its own forward on CUDA; else a kernel
    apart: bool = False  # queries come as (T, H, D); else heads side by side in a row
    trailing: bool = False  # turns the last channels of a head
    table: str = "cos_sin_cache"
    matched: bool = True  # the table is brought to the dtype of the queries; else tables and queries meet as they are


def _unscaled(layer: Any) -> Scaling:
    return Unscaled()


def _linear(layer: Any) -> Scaling:
    factors = _factors(layer)
    return LinearScaling(float(factors[0])) if len(factors) == 1 else Unscaled()  # several: positions are divided, by _turn.py


def _factors(layer: Any) -> list[float]:
    factors = layer.scaling_factors
    return [float(f) for f in factors] if isinstance(factors, (list, tuple)) else [float(factors)]


def _ntk(layer: Any) -> Scaling:
    return NtkMixedScaling(float(layer.scaling_factor), None if layer.mixed_b is None else float(layer.mixed_b))


def _dynamic(layer: Any) -> Scaling:
    trained = getattr(layer, "max_trained_positions", layer.max_position_embeddings)
    length = layer.max_position_embeddings
    if not hasattr(layer, "max_trained_positions"):  # SGLang: a table of factor times as many rows, and the base for all of them
        length = int(length * layer.scaling_factor)
    return DynamicNtkScaling(float(layer.scaling_factor), int(trained), int(length))


def _yarn_over(layer: Any, length: int) -> Scaling:
    return YarnScaling(
        float(layer.scaling_factor),
        int(length),
        float(layer.beta_fast),
        float(layer.beta_slow),
        "truncated" if getattr(layer, "truncate", True) else "exact",
        attention_factor=float(layer.mscale),
        softmax="unchanged",
    )


def _yarn(layer: Any) -> Scaling:
    return _yarn_over(layer, layer.max_position_embeddings)


def _mrope(layer: Any) -> Scaling:
    return Unscaled() if getattr(layer, "scaling_factor", None) is None else _yarn(layer)


def _mrope_corrected(layer: Any, arguments: Arguments) -> Scaling | None:
    """YaRN's ramp is laid over the length of the table, which is some times the length that the model was trained with."""
    original = arguments.get("max_position_embeddings")
    if getattr(layer, "scaling_factor", None) is None or original is None or original == layer.max_position_embeddings:
        return None
    return _yarn_over(layer, original)


def _llama3(layer: Any) -> Scaling:
    return Llama3Scaling(float(layer.scaling_factor), float(layer.low_freq_factor), float(layer.high_freq_factor), int(layer.orig_max_position))


def _alpha(layer: Any) -> Scaling:
    return NtkScaling(float(layer.scaling_alpha))


def _proportional(layer: Any) -> Scaling:
    pairs = layer.head_size // 2
    return ProportionalScaling(share=1.0 if layer.rope_angles >= pairs else (layer.rope_angles + 0.5) / pairs)  # half a pair: no rounding down


def _longrope(layer: Any) -> Scaling:
    long = bool(getattr(layer, "use_long_rope", False))
    return LongRopeScaling(
        tuple(map(float, layer.short_factor)),
        tuple(map(float, layer.long_factor)),
        int(layer.original_max_position_embeddings),
        attention_factor=float(layer.long_mscale if long else layer.short_mscale),
        choice="long_factors" if long else "short_factors",
    )


def _sections(layer: Any) -> tuple[int, ...]:
    sections = layer.xdrope_section if hasattr(layer, "xdrope_section") else layer.mrope_section
    return tuple(int(s) for s in sections or ())


def _chunked(sections: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, count in enumerate(sections) for _ in range(count))


def _by_sections(layer: Any) -> tuple[int, ...]:
    """Chunked, or interleaved as in Qwen 3-VL: pairs 1, 4, 7, ... are of the second axis, 2, 5, 8, ... of the third, as many as they have."""
    sections = _sections(layer)
    if not getattr(layer, "mrope_interleaved", False) or not sections:
        return _chunked(sections)
    return tuple(pair % 3 if pair % 3 and pair < 3 * sections[pair % 3] else 0 for pair in range(layer.rotary_dim // 2))


def _by_list(layer: Any) -> tuple[int, ...]:
    return tuple(int(axis) for axis in layer.mrope_dim[: layer.rotary_dim // 2])


def _height_and_width_first(temporal: int) -> Callable[[Any], tuple[int, ...]]:
    """Height and width in turn, then time, whose pairs are the section number `temporal`."""

    def axis_of_pair(layer: Any) -> tuple[int, ...]:
        sections = _sections(layer)
        pairs = layer.rotary_dim // 2
        space = pairs - sections[temporal] if sections else pairs
        return tuple(1 + pair % 2 if pair < space else 0 for pair in range(pairs))

    return axis_of_pair


KINDS: dict[str, Kind] = {
    "RotaryEmbedding": Kind(_unscaled, kernel=True),
    "LinearScalingRotaryEmbedding": Kind(_linear, kernel=True),
    "NTKScalingRotaryEmbedding": Kind(_ntk, kernel=True),
    "DynamicNTKScalingRotaryEmbedding": Kind(_dynamic, kernel=True),
    "DynamicNTKAlphaRotaryEmbedding": Kind(_alpha, kernel=True),
    "YaRNScalingRotaryEmbedding": Kind(_yarn, kernel=True),
    "TeleChat3RoPEScaledRotaryEmbedding": Kind(_yarn, kernel=True),
    "Llama3RotaryEmbedding": Kind(_llama3, kernel=True),
    "Gemma4RotaryEmbedding": Kind(_proportional, kernel=True),
    "DeepseekScalingRotaryEmbedding": Kind(_yarn, plain_cuda=True, apart=True, matched=False),
    "DeepseekV4ScalingRotaryEmbedding": Kind(_yarn, apart=True, trailing=True, matched=False),
    "Phi3LongRoPEScaledRotaryEmbedding": Kind(_longrope, plain_cuda=True, table="long_short_cos_sin_cache", matched=False),
    "MRotaryEmbedding": Kind(_mrope, _by_sections, _mrope_corrected),
    "YaRNScalingMRotaryEmbedding": Kind(_yarn, _by_sections),  # SGLang's
    "MRotaryEmbeddingInterleaved": Kind(_mrope, _by_list, _mrope_corrected, plain_cuda=True, matched=False),
    "Ernie4_5_VLRotaryEmbedding": Kind(_mrope, _height_and_width_first(2), _mrope_corrected, plain_cuda=True, matched=False),
    "BailingMRotaryEmbedding": Kind(_mrope, _height_and_width_first(0), _mrope_corrected, plain_cuda=True),
    "XDRotaryEmbedding": Kind(_alpha, _by_sections, matched=False),
    "FourierRotaryEmbedding": Kind(None, plain_cuda=True, matched=False),
    "Llama4VisionRotaryEmbedding": Kind(_unscaled, plain_cuda=True, matched=False),
    "DualChunkRotaryEmbedding": Kind(_unscaled, plain_cuda=True, table="cos_sin_k_cache", matched=False),
}


def kind_of(layer: Any) -> Kind | None:
    """The kind of a layer by its class, or None. Not by its bases: a class that is not known may do anything."""
    return KINDS.get(type(layer).__name__)
