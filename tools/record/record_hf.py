#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the installed transformers compute: rotations by given tables, and frequencies and tables of every rope_type.

Writes tests/golden/hf_rotation.txt and tests/golden/hf_tables.txt. Numbers are the bits, in hexadecimal. Run it with a Python that has
torch and transformers; the files name the versions. Never run to make a test pass.
"""
import importlib
import sys
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
HEADER = f"# Made by tools/record/record_hf.py: transformers {transformers.__version__}, torch {torch.__version__} on CPU. Bits in hexadecimal.\n"


def bits(tensor):
    """The numbers of a tensor as hexadecimal words."""
    flat = tensor.contiguous().reshape(-1)
    kind, mask, digits = (torch.int32, 0xFFFFFFFF, 8) if flat.element_size() == 4 else (torch.int16, 0xFFFF, 4)
    return " ".join(f"{v & mask:0{digits}x}" for v in flat.view(kind).tolist())


def model(name):
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


# ---- Rotations by given tables ----

TOKENS, HEADS = 4, 2


def inputs(dtype, head_dim):
    """(B, T, H, D): random numbers of many sizes, signed zeros, subnormals and numbers near the end of the range."""
    generator = torch.Generator().manual_seed(20 + head_dim)
    shape = (1, TOKENS, HEADS, head_dim)
    x = torch.randn(shape, generator=generator) * torch.exp(torch.randn(shape, generator=generator) * 3)
    x = x.to(dtype)
    large = torch.finfo(dtype).max
    tiny = torch.finfo(dtype).tiny
    x[0, 1, 1, :8] = torch.tensor([0.0, -0.0, large, -large, tiny / 4, -tiny / 8, 1.0, -1.0], dtype=dtype)
    return x


def tables(width, dtype):
    """cos and sin as Llama's module gives them, (1, T, width): position 0, small, large."""
    config = LlamaConfig(head_dim=width, hidden_size=width, num_attention_heads=1)
    positions = torch.tensor([[0, 1, 4095, 131071]])
    return LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=dtype), positions)


def heads_first(function):
    """A function on (B, H, T, D) tensors, for (B, T, H, D) ones."""

    def turned(x, cos, sin):
        q = x.transpose(1, 2)
        return function(q, q, cos, sin)[0].transpose(1, 2)

    return turned


def complex_tables(function, transposed):
    def turned(x, cos, sin):
        half = cos.shape[-1] // 2
        table = torch.complex(cos[..., :half], sin[..., :half])
        if transposed:
            return function(x.transpose(1, 2), x.transpose(1, 2), table)[0].transpose(1, 2)
        return function(x, x, table)[0]

    return turned


def gpt_oss(x, cos, sin):
    half = cos.shape[-1] // 2
    return heads_first(lambda q, k, c, s: model("gpt_oss").apply_rotary_pos_emb(q, k, c, s))(x, cos[..., :half], sin[..., :half])


def gptj(x, cos, sin):
    half = cos.shape[-1] // 2
    return model("gptj").apply_rotary_pos_emb(x, sin[..., :half], cos[..., :half])


def cohere(x, cos, sin):
    half = cos.shape[-1] // 2  # its own module repeats each value, as its pairs lie
    spread = [t[..., :half].repeat_interleave(2, dim=-1) for t in (cos, sin)]
    return heads_first(model("cohere").apply_rotary_pos_emb)(x, *spread)


# name: function, pairing read, pairing written, sense, numerics, table dtype (None: the tensor's)
ROTATIONS = {
    "llama": (heads_first(model("llama").apply_rotary_pos_emb), "half", "half", "ccw", "hf", None),
    "llama_float32_tables": (heads_first(model("llama").apply_rotary_pos_emb), "half", "half", "ccw", "hf", "f32"),
    "glm": (heads_first(model("glm").apply_rotary_pos_emb), "interleaved", "interleaved", "ccw", "hf", None),
    "gptj": (gptj, "interleaved", "interleaved", "ccw", "hf", None),
    "gpt_oss": (gpt_oss, "half", "half", "ccw", "hf", None),
    "deepseek_v3": (heads_first(model("deepseek_v3").apply_rotary_pos_emb_interleave), "interleaved", "half", "ccw", "hf", None),
    "nanochat": (heads_first(model("nanochat").apply_rotary_pos_emb), "half", "half", "cw", "hf", None),
    "cohere": (cohere, "interleaved", "interleaved", "ccw", "vllm", None),
    "ernie4_5": (heads_first(model("ernie4_5").apply_rotary_pos_emb), "interleaved", "interleaved", "ccw", "vllm", None),
    "llama4": (complex_tables(model("llama4").apply_rotary_emb, False), "interleaved", "interleaved", "ccw", "hf_float32", "f32"),
    "deepseek_v2": (complex_tables(model("deepseek_v2").apply_rotary_emb, True), "interleaved", "interleaved", "ccw", "hf_float32", "f32"),
}


def head_dims(name):
    # PyTorch's complex product fuses a multiply and an add in what is left over of a register, and only there: 16 pairs leave nothing.
    return (24, 80) if name == "llama" else (32,) if name in ("llama4", "deepseek_v2") else (24,)


def record_rotations():
    title = "case name dtype table_dtype head_dim rotary_width pairing output_pairing sense numerics"
    lines = [HEADER, f"# {title}; cos, sin (T, R/2); in, out (T, H, D)\n"]
    for name, (function, pairing, written, sense, numerics, table) in ROTATIONS.items():
        for dtype_name, dtype in DTYPES.items():
            for head_dim in head_dims(name):
                width = head_dim // 2 if name == "glm" else head_dim
                table_name = table or dtype_name
                cos, sin = tables(width, DTYPES[table_name])
                x = inputs(dtype, head_dim)
                if name in ("llama4", "deepseek_v2"):
                    x[0, 1, 1, 2:4] = 3.0  # complex products may pass through infinity elsewhere than ours
                out = function(x, cos, sin).to(dtype)
                lines.append(f"case {name} {dtype_name} {table_name} {head_dim} {width} {pairing} {written} {sense} {numerics}\n")
                lines += [f"cos {bits(cos[..., : width // 2])}\n", f"sin {bits(sin[..., : width // 2])}\n"]
                lines += [f"in {bits(x)}\n", f"out {bits(out)}\n"]
    (GOLDEN / "hf_rotation.txt").write_text("".join(lines), encoding="ascii")


# ---- Frequencies and tables of every rope_type ----

FACTORS = [1.0 + 0.37 * i for i in range(32)]
LONG = [1.0 + 1.93 * i for i in range(32)]
# name: rope_parameters, max_position_embeddings, head_dim, length (None: any position)
SPECS = {
    "default": ({"rope_type": "default", "rope_theta": 10000.0}, 4096, 64, None),
    "default_96": ({"rope_type": "default", "rope_theta": 500000.0}, 4096, 96, None),
    "linear": ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.7}, 4096, 64, None),
    "dynamic": ({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}, 2048, 64, 10000),
    "yarn": ({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}, 131072, 64, None),
    "yarn_exact_ramp": (
        {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False},
        131072, 64, None),
    "yarn_mscale": (
        {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.707,
         "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1},
        163840, 64, None),
    "longrope_short": (
        {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": FACTORS, "long_factor": LONG, "factor": 32.0,
         "original_max_position_embeddings": 4096}, 131072, 64, 4096),
    "longrope_long": (
        {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": FACTORS, "long_factor": LONG, "factor": 32.0,
         "original_max_position_embeddings": 4096}, 131072, 64, 100000),
    "llama3": (
        {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192}, 131072, 64, None),
    "proportional": ({"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}, 4096, 64, None),
}
POSITIONS = [0, 1, 2, 63, 1000, 4095, 65537, 131071, 1000003, 9999999]


def record_tables():
    lines = [HEADER, "# spec name pairs attention_factor_bits; frequencies (P); positions (T); cos, sin (T, P)\n"]
    for name, (parameters, longest, head_dim, length) in SPECS.items():
        sizes = {"head_dim": head_dim, "hidden_size": head_dim, "num_attention_heads": 1, "max_position_embeddings": longest}
        config = LlamaConfig(**sizes, rope_parameters=dict(parameters))
        module = LlamaRotaryEmbedding(config)
        positions = [p for p in POSITIONS if length is None or p < length - 1] + ([] if length is None else [length - 1])
        cos, sin = module(torch.zeros(1), torch.tensor([positions]))
        pairs = head_dim // 2
        factor = torch.tensor([module.attention_scaling], dtype=torch.float32)
        lines += [f"spec {name} {pairs} {bits(factor)}\n", f"frequencies {bits(module.inv_freq.float())}\n"]
        lines += ["positions " + " ".join(str(p) for p in positions) + "\n"]
        lines += [f"cos {bits(cos[..., :pairs])}\n", f"sin {bits(sin[..., :pairs])}\n"]
        if parameters["rope_type"] != "default":
            assert parameters["rope_type"] in ROPE_INIT_FUNCTIONS
    (GOLDEN / "hf_tables.txt").write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    with torch.no_grad():
        record_rotations()
        record_tables()
    sys.exit(0)
