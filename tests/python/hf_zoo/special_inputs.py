# SPDX-License-Identifier: Apache-2.0
"""Inputs that cannot be guessed from the parameters of a model's forward, by model type."""

from collections.abc import Callable
from typing import Any

import torch

from .samples import attribute, image, normal, patches, token_ids

Inputs = dict[str, Any]


def sound(model: Any, samples: int = 3840) -> Inputs:
    """A wave with its channel."""
    return {"input_values": normal(1, 1, samples)}


def mel_first(model: Any) -> Inputs:
    """A spectrogram (B, mels, frames)."""
    return {"input_features": normal(1, attribute(model.config, "num_mel_bins", default=128), 64)}


def speech_to_text(model: Any) -> Inputs:
    """A wave and the first tokens of its text."""
    return {"input_values": normal(2, 3200), "decoder_input_ids": token_ids(tokens=5)}


def square_patches(model: Any, batched: bool) -> Inputs:
    """Patches as little images: (patches, C, size, size)."""
    size = attribute(model.config, "patch_size", default=14)
    made = normal(48, 3, size, size)
    grid = torch.tensor([[1, 4, 4], [1, 4, 8]])
    return {"pixel_values": made[None] if batched else made, "grid_thw": grid}


def temporal(model: Any) -> Inputs:
    """Patches of two frames each."""
    size = model.config.patch_size
    return {"pixel_values": normal(48, 3 * 2 * size * size), "grid_thw": torch.tensor([[1, 4, 4], [1, 4, 8]])}


def gemma4_vision(model: Any) -> Inputs:
    """Patches with their coordinates."""
    size, pool = model.config.patch_size, model.config.pooling_kernel_size
    side = 2 * pool
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return {"pixel_values": normal(1, side * side, 3 * size * size), "pixel_position_ids": torch.stack([x, y], -1).reshape(1, -1, 2)}


def video_llama(model: Any) -> Inputs:
    made = patches(model)
    return {"pixel_values": made["patches"], "grid_thw": made["grid"], "merge_sizes": torch.tensor([1, 2])}


def audio_chunks(model: Any) -> Inputs:
    """Qwen Omni: (mels, frames) and the lengths of the samples in it."""
    lengths = torch.tensor([40, 24])
    return {"input_features": normal(model.config.num_mel_bins, 64), "feature_lens": lengths, "aftercnn_lens": (lengths - 1) // 2 + 1}


def assistant(model: Any) -> Inputs:
    """A draft's embeddings after the context's."""
    size = model.config.hidden_size
    return {"noise_embeds": normal(1, 4, size), "context_hidden_states": normal(1, 6, 5 * size)}


def memory(model: Any, rows: int) -> Inputs:
    """Features of a frame of 4 x 4 patches and of what is remembered, tokens first."""
    made = {"current_vision_features": normal(16, 1, 64), "memory": normal(rows, 1, 64), "memory_posision_embeddings": normal(rows, 1, 64)}
    return made if rows != 4 else {**made, "num_spatial_memory_tokens": 1}


def dia(model: Any) -> Inputs:
    """Text, and the codes of every channel."""
    codes = token_ids(tokens=7)[..., None].expand(-1, -1, model.config.decoder_config.num_channels)
    return {"input_ids": token_ids(), "decoder_input_ids": codes}


def idefics(model: Any) -> Inputs:
    """Text that sees one image."""
    pixels = image(model.config)[None].expand(2, -1, -1, -1, -1)
    return {"input_ids": token_ids(), "pixel_values": pixels, "image_attention_mask": torch.ones(2, 9, 1)}


SPECIAL: dict[str, Callable[[Any], Inputs]] = {
    "blt": lambda m: {"input_ids": token_ids(), "use_cache": False},
    "clvp": lambda m: {"input_ids": token_ids(1), "input_features": normal(1, 80, 40)},
    "clvp_encoder": lambda m: {"input_ids": token_ids()},
    "dia": dia,
    "edgetam_video": lambda m: memory(m, 4),
    "efficientloftr": lambda m: {"pixel_values": normal(1, 2, 1, 64, 64)},
    "gemma4_vision": gemma4_vision,
    "glmasr_encoder": mel_first,
    "idefics": idefics,
    "kimi_k25_vision": lambda m: square_patches(m, False),
    "kyutai_speech_to_text": lambda m: {"input_ids": token_ids()[..., None].expand(-1, -1, m.config.num_codebooks + 1)},
    "lightglue": lambda m: {"pixel_values": normal(1, 2, 3, 64, 64)},
    "mimi": sound,
    "mimi_decoder": lambda m: {"latents": normal(1, m.config.hidden_size, 6)},
    "mimi_encoder": sound,
    "moonshine": speech_to_text,
    "moonshine_streaming": speech_to_text,
    "moshi_depth": lambda m: {"input_ids": token_ids(tokens=4), "last_hidden_state": normal(2, 1, m.config.input_size)},
    "muse_glimmer_assistant": assistant,
    "muse_glimmer_vision": temporal,
    "muse_spark_vision": temporal,
    "neucodec": lambda m: {**sound(m), "input_features": normal(1, 12, 64)},
    "paddleocr_vl_vision": lambda m: square_patches(m, True),
    "pe_audio": lambda m: {"input_ids": token_ids(1), **sound(m)},
    "pe_audio_encoder": sound,
    "pocket_tts_audio_tokenizer": sound,
    "pocket_tts_audio_tokenizer_decoder": lambda m: {"latents": normal(1, m.config.hidden_size, 6)},
    "pocket_tts_audio_tokenizer_encoder": sound,
    "qwen2_5_omni_audio_encoder": audio_chunks,
    "qwen3_omni_moe_audio_encoder": audio_chunks,
    "qwen3_omni_moe_talker_code_predictor": lambda m: {"inputs_embeds": normal(2, 2, m.config.hidden_size)},
    "sam2_video": lambda m: memory(m, 32),
    "sam3_tracker_video": lambda m: memory(m, 32),
    "sam3": lambda m: {"input_ids": token_ids(1), "pixel_values": image(m.config)},
    "seamless_m4t": lambda m: {"input_features": normal(1, 20, m.config.feature_projection_input_dim), "decoder_input_ids": token_ids(1)},
    "t5gemma2_decoder": lambda m: {"input_ids": token_ids(), "encoder_hidden_states": normal(2, 5, m.config.hidden_size)},
    "timesfm2_5": lambda m: {"past_values": normal(2, 96)},
    "video_llama_3_vision": video_llama,
    "vjepa2": lambda m: {"pixel_values_videos": normal(1, m.config.frames_per_clip, 3, m.config.crop_size, m.config.crop_size)},
    "voxtral_realtime_encoder": mel_first,
    "wav2vec2-bert": lambda m: {"input_features": normal(1, 20, m.config.feature_projection_input_dim)},
    "xcodec2": lambda m: {**sound(m), "input_features": normal(1, 12, 64)},
}
