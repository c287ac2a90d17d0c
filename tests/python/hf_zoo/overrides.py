# SPDX-License-Identifier: Apache-2.0
"""Fields of configs and inputs of models that cannot be guessed, by model type."""

from typing import Any

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
OVERRIDES: dict[str, dict[str, Any]] = {
    "axk1": {"n_group": 2, "topk_group": 1},
    "bailing_hybrid": {"n_group": 2, "topk_group": 1},
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "granitemoehybrid": {**MAMBA, "layer_types": ["mamba", "attention"]},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1},
    "chameleon": {"rope_parameters": ROPE},
    "clvp_encoder": {"projection_dim": 16},
    "codegen": {"rotary_dim": 8},
    "gptj": {"rotary_dim": 8},
    "deepseek_v2": {"qk_rope_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2},
    "esmc": {"vocab_size": 128},
    "glm5_next": {},
    "glm5_next_text": {"index_topk": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 8},
    "llama4_text": {"head_dim": 32, "pad_token_id": 0},
    "llama4_vision_model": {"hidden_size": 128},
    "longcat_flash": {"head_dim": 16},
    "nemotron_h": {"n_groups": 1},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "zamba2": {"use_mem_rope": True},
}

# Inputs that cannot be guessed from the parameters of forward.
INPUTS: dict[str, Any] = {}
