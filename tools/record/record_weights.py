#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small safetensors files into tests/golden/weights with the safetensors package: weights for half pairing, and beside them the
same permuted for interleaved pairing by the expressions that the converters use. Run by hand, its output is committed."""
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

OUT = Path(__file__).parents[2] / "tests" / "golden" / "weights"
METADATA = {"format": "pt, \u00e9 \"quoted\""}  # one entry: the package writes several in any order


def to_interleaved(weight, heads):
    """Hugging Face to GGUF, as llama.cpp's converter does it."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def to_half(weight, heads):
    """Meta to Hugging Face, as the converter of transformers does it."""
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def partial(weight, heads, width, offset):
    """Only the channels [offset, offset + width) of each head."""
    cut = weight.reshape(heads, -1, *weight.shape[1:]).copy()
    part = cut[:, offset : offset + width]
    cut[:, offset : offset + width] = to_interleaved(part.reshape(-1, *weight.shape[1:]), heads).reshape(part.shape)
    return cut.reshape(weight.shape)


def save(name, half, interleaved):
    save_file({k: np.ascontiguousarray(v) for k, v in half.items()}, OUT / f"{name}-half.safetensors", METADATA)
    save_file({k: np.ascontiguousarray(v) for k, v in interleaved.items()}, OUT / f"{name}-interleaved.safetensors", METADATA)


def grouped(random):
    """4 heads, 2 of k, 8 channels, every kind of tensor; several dtypes."""
    layer = "model.layers.0.self_attn."
    half = {
        layer + "q_proj.weight": random.standard_normal((32, 6)).astype(np.float32),
        layer + "k_proj.weight": random.standard_normal((16, 6)).astype(np.float16),
        layer + "v_proj.weight": random.standard_normal((16, 6)).astype(np.float32),
        layer + "q_proj.bias": random.standard_normal(32).astype(np.float64),
        layer + "k_proj.bias": random.standard_normal(16).astype(np.float32),
        layer + "q_norm.weight": random.standard_normal(8).astype(np.float32),
        layer + "k_norm.weight": random.standard_normal(8).astype(np.float32),
        layer + "q_proj.weight_scale": random.integers(0, 255, (32, 3)).astype(np.uint8),
        layer + "k_proj.input_scale": np.array(0.5, dtype=np.float32),
        "model.layers.1.self_attn.qkv_proj.weight": random.standard_normal((64, 5)).astype(np.float32),
        "model.embed_tokens.weight": random.standard_normal((7, 6)).astype(np.float32),
    }
    heads = {"q_proj": 4, "k_proj": 2, "q_norm": 1, "k_norm": 1}
    interleaved = {}
    for name, value in half.items():
        part = name.split(".")[-2]
        permuted = part in heads and value.ndim > 0
        interleaved[name] = to_interleaved(value, heads[part]) if permuted else value
        if permuted:
            assert np.array_equal(to_half(interleaved[name], heads[part]), value)
    fused = half["model.layers.1.self_attn.qkv_proj.weight"]
    stacked = [to_interleaved(fused[:32], 4), to_interleaved(fused[32:48], 2), fused[48:]]
    interleaved["model.layers.1.self_attn.qkv_proj.weight"] = np.concatenate(stacked)
    save("grouped", half, interleaved)


def narrow(random):
    """3 heads of 10 channels, of which 6 from the second on are rotated."""
    half = {
        "layers.0.attn.q_proj.weight": random.standard_normal((30, 3)).astype(np.float32),
        "layers.0.attn.k_proj.weight": random.standard_normal((10, 3)).astype(np.float32),
    }
    save("partial", half, {k: partial(v, 3 if "q_proj" in k else 1, 6, 2) for k, v in half.items()})


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(4)
    grouped(random)
    narrow(random)
    return 0


if __name__ == "__main__":
    sys.exit(main())
