# SPDX-License-Identifier: Apache-2.0
"""Tiny configs, one for each rotary layer of vLLM that a text model reaches: weights are vLLM's dummy ones."""

from __future__ import annotations

import json
from pathlib import Path

_COMMON = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def _llama(**rope):
    return {**_COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_parameters": {"rope_theta": 10000.0, **rope}}


def _three_axes():
    """Qwen2-VL's encoding in a model that needs no images: generate.py has its positions."""
    return {**_llama(rope_type="default", mrope_section=[6, 5, 5]), "architectures": ["LlamaOfThreeAxes"]}


def _phi3():
    factors = {"short_factor": [1.0 + 0.01 * i for i in range(16)], "long_factor": [1.0 + 0.5 * i for i in range(16)]}
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 128, **factors}
    more = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "original_max_position_embeddings": 128, "sliding_window": None}
    return {**_COMMON, **more, "rope_parameters": rope}


def _deepseek():
    # 512 and 64: the one width that vLLM's attention for the CPU takes from a compressed cache.
    yarn = {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1,
        "mscale": 0.707, "mscale_all_dim": 0.707,
    }  # fmt: skip
    more = {
        "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_key_value_heads": 2, "q_lora_rank": None,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32, "v_head_dim": 32, "n_routed_experts": 4, "n_shared_experts": 1,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 2, "moe_layer_freq": 1, "attention_bias": False,  # no layer with experts
    }  # fmt: skip
    return {**{k: v for k, v in _COMMON.items() if k != "head_dim"}, **more, "rope_parameters": yarn}


def _cohere():
    """Interleaved pairs."""
    more = {"architectures": ["CohereForCausalLM"], "model_type": "cohere", "layer_norm_eps": 1e-5, "logit_scale": 0.0625, "use_qk_norm": False}
    return {**_COMMON, **more, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


def _qwen2_vl(sections):
    """The real Qwen2-VL with a tower of one layer: positions of an image's tokens are those of its grid."""
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14, "in_channels": 3, "in_chans": 3}
    more = {
        "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "use_sliding_window": False,
        "vision_config": {**vision, "spatial_merge_size": 2, "temporal_patch_size": 2}, "vision_start_token_id": 120, "vision_end_token_id": 121,
        "vision_token_id": 122, "image_token_id": 123, "video_token_id": 124,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections},
    }  # fmt: skip
    return {**{k: v for k, v in _COMMON.items() if k != "head_dim"}, **more}


# Models that see images, by images_by_vllm.py. The second differs by which axis turns which pair, and by nothing else.
IMAGES = {"qwen2_vl": _qwen2_vl([6, 5, 5]), "qwen2_vl of other sections": _qwen2_vl([4, 6, 6])}
MODELS = {
    "plain": _llama(rope_type="default"),
    "linear": _llama(rope_type="linear", factor=4.0),
    "dynamic": _llama(rope_type="dynamic", factor=2.0, max_trained_positions=128),
    "yarn": _llama(rope_type="yarn", factor=4.0, original_max_position_embeddings=128),
    "llama3": _llama(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=128),
    "longrope": _phi3(),
    "deepseek": _deepseek(),
    "cohere": _cohere(),
    "mrope": _three_axes(),
    "nearly": _llama(rope_type="linear", factor=1.001),
}
# The class of vLLM that rotates.
LAYERS = {
    "plain": "RotaryEmbedding",
    "linear": "LinearScalingRotaryEmbedding",
    "dynamic": "DynamicNTKScalingRotaryEmbedding",
    "yarn": "YaRNScalingRotaryEmbedding",
    "llama3": "Llama3RotaryEmbedding",
    "longrope": "Phi3LongRoPEScaledRotaryEmbedding",
    "deepseek": "DeepseekScalingRotaryEmbedding",
    "cohere": "RotaryEmbedding",
    "mrope": "MRotaryEmbedding",
    "nearly": "LinearScalingRotaryEmbedding",
}


def write(folder: Path, name: str) -> str:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps((MODELS | IMAGES)[name]))
    return str(folder / name)
