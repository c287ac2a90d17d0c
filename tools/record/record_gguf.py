#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small GGUF files with the gguf package into tests/golden/gguf, and beside them truth.json: what each layer does, its frequencies
from the formulas of transformers. Needs gguf, numpy, torch and transformers; run by hand, its output is committed."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = Path(__file__).parents[2] / "tests" / "golden" / "gguf"


def rounded(values):
    """Nine digits: enough for a float32."""
    return [float(f"{float(v):.9g}") for v in values]


def hf(kind, head_dim, base, length, **parameters):
    """inv_freq and amplitude as transformers computes them; parameters are those of rope_parameters."""
    config = SimpleNamespace(
        head_dim=head_dim, hidden_size=head_dim * 2, num_attention_heads=2, max_position_embeddings=length,
        rope_parameters={"rope_type": kind, "rope_theta": base, **parameters}, standardize_rope_params=lambda: None,
    )
    inv_freq, amplitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=parameters.get("seq_len"))
    return {"frequencies": rounded(inv_freq), "amplitude": float(amplitude)}


def default(width, base):
    return {"frequencies": rounded(base ** (-2 * i / width) for i in range(width // 2)), "amplitude": 1}


class Model:
    """One file: a writer and the truth of its layers."""

    def __init__(self, name, architecture, layers, **options):
        self.name = name
        self.writer = gguf.GGUFWriter(None, architecture, **options)
        self.writer.add_block_count(layers)
        self.truth = [{} for _ in range(layers)]

    def shape(self, heads, embedding, context, key_length=None, kv_heads=None):
        self.writer.add_head_count(heads)
        self.writer.add_head_count_kv(kv_heads or heads)
        self.writer.add_embedding_length(embedding)
        self.writer.add_context_length(context)
        if key_length:
            self.writer.add_key_length(key_length)

    def every(self, **truth):
        for layer in self.truth:
            layer.update(truth)

    def save(self, all_truth):
        path = OUT / f"{self.name}.gguf"
        # Something besides the metadata: a vocabulary to skip, a weight that is never read.
        self.writer.add_token_list(["<s>", "a", "bc"])
        self.writer.add_tensor("token_embd.weight", np.zeros((3, 32), dtype=np.float32))
        self.writer.write_header_to_file(path)
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        all_truth[self.name] = self.truth


def llama3(truth):
    scaling = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    rotary = hf("llama3", 128, 500000.0, 131072, **scaling)
    for name, endian in (("llama-3.1", gguf.GGUFEndian.LITTLE), ("llama-3.1-big-endian", gguf.GGUFEndian.BIG)):
        m = Model(name, "llama", 3, endianess=endian)
        m.shape(32, 4096, 131072, kv_heads=8)
        m.writer.add_rope_dimension_count(128)
        m.writer.add_rope_freq_base(500000.0)
        plain = np.array(default(128, 500000.0)["frequencies"])
        factors = (plain / np.array(rotary["frequencies"])).astype(np.float32)
        m.writer.add_tensor("rope_freqs.weight", factors.copy())  # the writer swaps
        m.every(pairing="interleaved", head_dim=128, width=128, offset=0, **rotary)
        m.save(truth)


def gptneox(truth):
    m = Model("gpt-neox", "gptneox", 2)
    m.shape(8, 512, 2048)
    m.writer.add_rope_dimension_count(16)
    m.every(pairing="half", head_dim=64, width=16, offset=0, **default(16, 10000.0))
    m.save(truth)


def gemma3(truth):
    m = Model("gemma3", "gemma3", 12)
    m.shape(8, 2560, 131072, key_length=256, kv_heads=4)
    m.writer.add_sliding_window(1024)
    m.writer.add_rope_freq_base(1000000.0)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    m.writer.add_rope_scaling_factor(8.0)
    for i, layer in enumerate(m.truth):
        full = i % 6 == 5
        rotary = hf("linear", 256, 1000000.0, 131072, factor=8.0) if full else default(256, 10000.0)
        layer.update(pairing="half", head_dim=256, width=256, offset=0, window=0 if full else 1024, **rotary)
    m.save(truth)


def gemma4(truth):
    m = Model("gemma4", "gemma4", 6)
    m.shape(8, 2560, 131072, key_length=512)
    m.writer.add_key_length_swa(256)
    m.writer.add_sliding_window(512)
    m.writer.add_sliding_window_pattern([True, True, True, True, True, False])
    m.writer.add_rope_freq_base(1000000.0)
    m.writer.add_rope_freq_base_swa(10000.0)
    m.writer.add_rope_dimension_count(512)
    m.writer.add_rope_dimension_count_swa(256)
    m.writer.add_tensor("rope_freqs.weight", np.array([1.0] * 64 + [1e30] * 192, dtype=np.float32))
    for i, layer in enumerate(m.truth):
        full = i == 5
        width = 512 if full else 256
        rotary = hf("proportional", 512, 1000000.0, 131072, partial_rotary_factor=0.25) if full else default(256, 10000.0)
        layer.update(pairing="half", head_dim=width, width=width, offset=0, window=0 if full else 512, attention_scale=1, **rotary)
    m.save(truth)


def phi3(truth):
    short = [1.0 + 0.01 * i for i in range(48)]
    long = [1.5 + 0.5 * i for i in range(48)]
    scaling = dict(short_factor=short, long_factor=long, original_max_position_embeddings=4096, factor=32.0)
    m = Model("phi3", "phi3", 2)
    m.shape(32, 3072, 131072)
    m.writer.add_rope_dimension_count(96)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
    m.writer.add_rope_scaling_orig_ctx_len(4096)
    rotary = hf("longrope", 96, 10000.0, 131072, **scaling, seq_len=4096)
    m.writer.add_rope_scaling_attn_factors(rotary["amplitude"])
    m.writer.add_tensor("rope_factors_short.weight", np.array(short, dtype=np.float32))
    m.writer.add_tensor("rope_factors_long.weight", np.array(long, dtype=np.float16))
    long_rotary = hf("longrope", 96, 10000.0, 131072, **scaling, seq_len=8192)
    m.every(pairing="half", head_dim=96, width=96, offset=0, long_frequencies=long_rotary["frequencies"], **rotary)
    m.save(truth)


def deepseek2(truth):
    """DeepSeek-V2-Lite: mscale = mscale_all_dim = 0.707, so the amplitude is 1 and the softmax factor g^2."""
    m = Model("deepseek2", "deepseek2", 2)
    m.shape(16, 2048, 163840, key_length=576, kv_heads=1)
    m.writer.add_kv_lora_rank(512)
    m.writer.add_key_length_mla(192)
    m.writer.add_value_length_mla(128)
    m.writer.add_rope_dimension_count(64)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    m.writer.add_rope_scaling_factor(40.0)
    m.writer.add_rope_scaling_orig_ctx_len(4096)
    m.writer.add_rope_scaling_yarn_log_mul(0.1 * 0.707)
    scaling = dict(factor=40.0, original_max_position_embeddings=4096, mscale=0.707, mscale_all_dim=0.707, beta_fast=32, beta_slow=1)
    rotary = hf("yarn", 64, 10000.0, 163840, **scaling)
    gain = 0.1 * 0.707 * np.log(40.0) + 1
    m.every(pairing="interleaved", head_dim=192, width=64, offset=128, softmax_scale=gain * gain, **rotary)
    m.save(truth)


def mistral3(truth):
    """Ministral 3: mscale and mscale_all_dim 1, amplitude 1, the softmax factor untouched, a temperature on queries."""
    m = Model("mistral3", "mistral3", 2)
    m.shape(32, 4096, 262144, key_length=128, kv_heads=8)
    m.writer.add_rope_freq_base(1000000.0)
    m.writer.add_rope_dimension_count(128)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    m.writer.add_rope_scaling_factor(16.0)
    m.writer.add_rope_scaling_orig_ctx_len(16384)
    m.writer.add_rope_scaling_yarn_beta_fast(32.0)
    m.writer.add_rope_scaling_yarn_beta_slow(1.0)
    m.writer.add_rope_scaling_yarn_log_mul(1.0)
    m.writer.add_attn_temperature_scale(0.1)
    scaling = dict(factor=16.0, original_max_position_embeddings=16384, mscale=1.0, mscale_all_dim=1.0)
    m.every(pairing="interleaved", head_dim=128, width=128, offset=0, softmax_scale=1, temperature=0.1,
            **hf("yarn", 128, 1000000.0, 262144, **scaling))
    m.save(truth)


def vision_language(truth):
    m = Model("qwen2vl", "qwen2vl", 2)
    m.shape(28, 3584, 32768, kv_heads=4)
    m.writer.add_rope_freq_base(1000000.0)
    m.writer.add_rope_dimension_sections([16, 24, 24, 0])
    m.every(pairing="half", head_dim=128, width=128, offset=0, sections=[16, 24, 24], order="chunked", **default(128, 1000000.0))
    m.save(truth)
    m = Model("qwen3vl", "qwen3vl", 2)
    m.shape(32, 2560, 262144, key_length=128, kv_heads=8)
    m.writer.add_rope_freq_base(5000000.0)
    m.writer.add_rope_dimension_sections([24, 20, 20, 0])
    m.every(pairing="half", head_dim=128, width=128, offset=0, sections=[24, 20, 20], order="interleaved", **default(128, 5000000.0))
    m.save(truth)


def gpt_oss(truth):
    """What a GGUF can say: the ramp's ends are rounded, which the model's config does not do."""
    m = Model("gpt-oss", "gpt-oss", 4)
    m.shape(64, 2880, 131072, key_length=64, kv_heads=8)
    m.writer.add_sliding_window(128)
    m.writer.add_rope_freq_base(150000.0)
    m.writer.add_rope_dimension_count(64)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    m.writer.add_rope_scaling_factor(32.0)
    m.writer.add_rope_scaling_orig_ctx_len(4096)
    rotary = hf("yarn", 64, 150000.0, 131072, factor=32.0, original_max_position_embeddings=4096, truncate=True)
    for i, layer in enumerate(m.truth):
        layer.update(pairing="half", head_dim=64, width=64, offset=0, window=0 if i % 2 else 128, **rotary)
    m.save(truth)


def smollm3(truth):
    m = Model("smollm3", "smollm3", 5)
    m.shape(16, 2048, 65536, kv_heads=4)
    m.writer.add_rope_freq_base(5000000.0)
    m.writer.add_rope_dimension_count(128)
    for i, layer in enumerate(m.truth):
        layer.update({} if i == 3 else dict(pairing="interleaved", head_dim=128, width=128, offset=0, **default(128, 5000000.0)))
    m.save(truth)


def without_rotary(truth):
    m = Model("bloom", "bloom", 2)
    m.shape(12, 768, 2048)
    m.every(alibi=8, heads=12)
    m.save(truth)
    m = Model("mpt", "mpt", 1)
    m.shape(7, 448, 2048)
    m.writer.add_max_alibi_bias(16.0)
    m.every(alibi=16, heads=7)
    m.save(truth)
    m = Model("t5", "t5", 2)
    m.shape(6, 512, 512, key_length=64)
    m.writer.add_relative_attn_buckets_count(32)
    m.writer.add_decoder_block_count(3)
    m.truth = [dict(buckets=32, heads=6, attention_scale=1) for _ in range(3)]
    m.save(truth)
    m = Model("bert", "bert", 2)
    m.shape(12, 48, 64)
    m.writer.add_tensor("position_embd.weight", np.zeros((64, 48), dtype=np.float16))
    m.every(learned=[64, 48])
    m.save(truth)
    m = Model("mamba", "mamba", 2)
    m.writer.add_context_length(1 << 20)
    m.save(truth)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    truth = {}
    for record in (llama3, gptneox, gemma3, gemma4, phi3, deepseek2, mistral3, vision_language, gpt_oss, smollm3, without_rotary):
        record(truth)
    made = f"tools/record/record_gguf.py with gguf and transformers {__import__('transformers').__version__}"
    (OUT / "truth.json").write_text(json.dumps({"made_by": made, "models": truth}, separators=(",", ":")).replace("],", "],\n") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
