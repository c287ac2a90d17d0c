# SPDX-License-Identifier: Apache-2.0
"""Layers with the attributes of an engine's, and tables by each method's formula written out in double: they share no code with phasor.

Names and attributes are facts of vLLM 0.32 and SGLang 0.5.23; tests with the real engines are in the other files of this folder."""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch


def ladder(width, base):
    return [base ** (-2 * i / width) for i in range(width // 2)]


def ramp(width, base, length, fast=32, slow=1, truncate=True):
    """Where YaRN's pairs are between slowed (1) and kept (0)."""

    def pair(turns):
        return width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    return [min(max((i - low) / ((high - low) or 0.001), 0), 1) for i in range(width // 2)]


def yarn(width, base, factor, length, **bounds):
    return [w / factor * r + w * (1 - r) for w, r in zip(ladder(width, base), ramp(width, base, length, **bounds))]


def llama3(width, base, factor, low, high, length):
    found = []
    for w in ladder(width, base):
        wave = 2 * math.pi / w
        smooth = (length / wave - low) / (high - low)
        found.append(w if wave < length / high else w / factor if wave > length / low else (1 - smooth) * w / factor + smooth * w)
    return found


def table(frequencies, rows, amplitude=1.0, divided=1.0, dtype=torch.float32):
    """Cosines, then sines, a row a position."""
    angles = [[m / divided * w for w in frequencies] for m in range(rows)]
    values = [[amplitude * f(a) for f in (math.cos, math.sin) for a in row] for row in angles]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def layer(name, frequencies, rows=300, amplitude=1.0, divided=1.0, table_name="cos_sin_cache", dtype=torch.float32, **attributes):
    """An object of a class of that name."""
    fields = {"head_size": 24, "rotary_dim": 16, "base": 10000.0, "is_neox_style": True, "max_position_embeddings": rows, **attributes}
    made = type(name, (SimpleNamespace,), {})(**fields)
    setattr(made, table_name, table(frequencies, rows, amplitude, divided, dtype))
    return made


def yarn_layer(name="YaRNScalingRotaryEmbedding", **changed):
    amplitude = 0.1 * math.log(4) + 1
    fields = {"scaling_factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": amplitude, "max_position_embeddings": 75, **changed}
    return layer(name, yarn(16, 10000.0, 4.0, 75), amplitude=amplitude, **fields)


def plain(name="RotaryEmbedding", **changed):
    return layer(name, ladder(16, 10000.0), **changed)


def several_factors():
    """LinearScalingRotaryEmbedding of three factors: their tables one after the other."""
    made = plain("LinearScalingRotaryEmbedding", rows=40, scaling_factors=[1.0, 2.5, 3.0], max_position_embeddings=40)
    parts = [table(ladder(16, 10000.0), int(40 * f), divided=f) for f in made.scaling_factors]
    made.cos_sin_cache = torch.cat(parts)
    made.scaling_factor_to_offset = {1.0: 0, 2.5: 40, 3.0: 140}
    return made


def known():
    """Every method with a stand-in, by name: (layer, frequencies a position of the table)."""
    short, long = [1.0 + 0.05 * i for i in range(8)], [1.5 + i for i in range(8)]
    ntk = 16 / 14
    dynamic = ladder(16, 10000.0 * (2.0 * 300 / 100 - 1) ** ntk)
    mixed = [w / math.exp(math.log(4) / 8**0.75 * (i + 1) ** 0.75) for i, w in enumerate(ladder(16, 10000.0))]
    fixed = [w / 4 ** (2 / 16) for w in ladder(16, 40000.0)]
    gemma = [10000.0 ** (-2 * i / 24) if i < 5 else 0.0 for i in range(12)]
    waves = llama3(16, 10000.0, 8.0, 1.0, 4.0, 64)
    longrope = [w / f for w, f in zip(ladder(16, 10000.0), long)]
    return {
        "plain": plain(),
        "interleaved": plain(is_neox_style=False),
        "linear": layer("LinearScalingRotaryEmbedding", ladder(16, 10000.0), divided=4.0, scaling_factors=[4.0]),
        "linear of several factors": several_factors(),
        "dynamic": layer("DynamicNTKScalingRotaryEmbedding", dynamic, scaling_factor=2.0, max_trained_positions=100),
        "alpha": layer("DynamicNTKAlphaRotaryEmbedding", ladder(16, 10000.0 * 6.0**ntk), scaling_alpha=6.0),
        "ntk": layer("NTKScalingRotaryEmbedding", fixed, scaling_factor=4.0, mixed_b=None),
        "ntk mixed": layer("NTKScalingRotaryEmbedding", mixed, scaling_factor=4.0, mixed_b=0.75),
        "yarn": yarn_layer(),
        "deepseek": yarn_layer("DeepseekScalingRotaryEmbedding", is_neox_style=False),
        "deepseek v4": yarn_layer("DeepseekV4ScalingRotaryEmbedding", is_neox_style=False),
        "llama 3": layer("Llama3RotaryEmbedding", waves, scaling_factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, orig_max_position=64),
        "gemma 4": layer("Gemma4RotaryEmbedding", gemma, rotary_dim=24, rope_angles=5, nope_angles=7),
        "m-rope": plain("MRotaryEmbedding", mrope_section=[2, 3, 3], mrope_interleaved=False, scaling_factor=None),
        "m-rope interleaved": plain("MRotaryEmbedding", mrope_section=[4, 2, 2], mrope_interleaved=True, scaling_factor=None),
        "m-rope with yarn": yarn_layer("YaRNScalingMRotaryEmbedding", mrope_section=[2, 3, 3], mrope_interleaved=False),
        "m-rope of pangu": plain("MRotaryEmbeddingInterleaved", mrope_dim=[0, 1, 2, 0, 1, 2, 0, 0] * 2, scaling_factor=None),
        "ernie": plain("Ernie4_5_VLRotaryEmbedding", mrope_section=[3, 3, 2], scaling_factor=None),
        "bailing": plain("BailingMRotaryEmbedding", mrope_section=[2, 3, 3], scaling_factor=None),
        "xd": layer("XDRotaryEmbedding", ladder(16, 10000.0 * 6.0**ntk), scaling_alpha=6.0, xdrope_section=[2, 2, 2, 2]),
        "longrope": longrope_layer(longrope, short, long),
    }


def longrope_layer(frequencies, short, long):
    made = layer(
        "Phi3LongRoPEScaledRotaryEmbedding", frequencies, 260, 1.25, table_name="long_short_cos_sin_cache", original_max_position_embeddings=40,
        short_factor=short, long_factor=long, short_mscale=1.1, long_mscale=1.25, use_long_rope=True,
    )  # fmt: skip
    del made.is_neox_style  # this class does not keep it
    first = table([w / f for w, f in zip(ladder(16, 10000.0), short)], 40, 1.1)
    made.long_short_cos_sin_cache = torch.cat((first, made.long_short_cos_sin_cache))
    return made


AXES = {
    "m-rope": (0, 0, 1, 1, 1, 2, 2, 2),
    "m-rope with yarn": (0, 0, 1, 1, 1, 2, 2, 2),
    "m-rope interleaved": (0, 1, 2, 0, 1, 2, 0, 0),
    "m-rope of pangu": (0, 1, 2, 0, 1, 2, 0, 0),
    "ernie": (1, 2, 1, 2, 1, 2, 0, 0),
    "bailing": (1, 2, 1, 2, 1, 2, 0, 0),
    "xd": (0, 0, 1, 1, 2, 2, 3, 3),
}
