# SPDX-License-Identifier: Apache-2.0
"""Fields of configs and classes of models that the shrinker cannot guess, by model type."""

from typing import Any

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
AXES = {**ROPE, "mrope_section": [4, 2, 2]}
CONFORMER = {"vocab_size": 32, "position_embeddings_type": "rotary", "conv_dim": [32, 32], "conv_stride": [5, 2], "conv_kernel": [10, 3]}
OVERRIDES: dict[str, dict[str, Any]] = {
    "axk1": {"n_group": 2, "topk_group": 1},
    "bailing_hybrid": {"n_group": 2, "topk_group": 1},
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "chameleon": {"vocabulary_map": {"<image>": 101, "IMGIMGA": 102}},
    "clvp_encoder": {"hidden_size": 128, "projection_dim": 128},
    "clvp_decoder": {"hidden_size": 128},
    "codegen": {"rotary_dim": 8},
    "cohere_compass_text": {"rope_parameters": {"full_attention": AXES, "sliding_attention": AXES}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}, "ffn_config": {"ffn_hidden_size": 64}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "deepseek_ocr2_vision": {"pad_token_id": 0},
    "deepseek_v2": {"qk_rope_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    "dots1": {"n_shared_experts": 1},
    "edgetam_video": {"memory_attention_rope_feat_sizes": [4, 4], "memory_attention_rope_k_sizes": [2, 2]},
    "efficientloftr": {"hidden_size": 256, "num_attention_heads": 8},
    "emu3": {"pad_token_id": 0, "vocabulary_map": {"<image>": 101, "<|extra_200|>": 102}},
    "ernie4_5_vl_moe_text": {"rope_parameters": {**ROPE, "mrope_section": [3, 3, 2]}},
    "esm": {"vocab_size": 128, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "esmc": {"vocab_size": 128},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "glm5_next_text": {"index_topk": 16},
    "gptj": {"rotary_dim": 8},
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "downsample_rate": "1/2"},
    "granitemoehybrid": {**MAMBA, "layer_types": ["mamba", "attention"], "position_embedding_type": "rope"},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "llama4": {"pad_token_id": 0},
    "llama4_text": {"head_dim": 32, "pad_token_id": 0},
    "llama4_vision_model": {"hidden_size": 128, "vision_output_dim": 64, "projector_input_dim": 64, "intermediate_size": 512},
    "longcat_flash": {"qk_head_dim": None},
    "mimi": {"upsample_groups": 64, "codebook_dim": 256},
    "mimi_decoder": {"upsample_groups": 64, "codebook_dim": 256},
    "mimi_encoder": {"upsample_groups": 64, "codebook_dim": 256},
    "molmo2_adapter": {"vision_feature_layer": [1, 0]},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemotron_h": {"n_groups": 1},
    "paddleocr_vl_text": {"rope_parameters": AXES},
    "pocket_tts_audio_tokenizer": {"upsample_groups": 64},
    "pocket_tts_audio_tokenizer_decoder": {"upsample_groups": 64},
    "pocket_tts_audio_tokenizer_encoder": {"upsample_groups": 64},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "seamless_m4t": {"position_embeddings_type": "rotary"},
    "sam2_video": {"memory_attention_rope_feat_sizes": [4, 4]},
    "sam3_tracker_video": {"image_size": 56},
    "step3p5": {"sliding_window": 8},
    "step3p7": {"sliding_window": 8},
    "superpoint": {"keypoint_decoder_dim": 65},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_encoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "wav2vec2-bert": {"vocab_size": 32, "position_embeddings_type": "rotary"},
    "wav2vec2-conformer": CONFORMER,
    "zamba2": {"use_mem_rope": True},
}

# Classes other than the one that the auto mappings name first.
CLASSES = {"seamless_m4t": "SeamlessM4TForSpeechToText", "clvp": "ClvpModelForConditionalGeneration"}

# Models that want a whole session as input: the part that rotates is run instead.
PARTS = {"edgetam_video": "memory_attention", "sam2_video": "memory_attention", "sam3_tracker_video": "memory_attention"}
