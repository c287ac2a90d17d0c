# SPDX-License-Identifier: Apache-2.0
"""What Qwen2-VL needs beside its config to see an image in vLLM: the class, a tokenizer and a processor of its own, prompts. For generate.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast
from vllm import ModelRegistry
from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration

# By the class: a name would be looked up in a process that does not know of the operators.
ModelRegistry.register_model("Qwen2VLForConditionalGeneration", Qwen2VLForConditionalGeneration)

_SPECIAL = {"<|vision_start|>": 120, "<|vision_end|>": 121, "<|vision_pad|>": 122, "<|image_pad|>": 123, "<|video_pad|>": 124}
_PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (84, 112, 3), dtype=np.uint8))
# 84 by 112 pixels are 3 by 4 tokens; the text after them goes on at the greatest position.
PROMPTS = [
    {"prompt_token_ids": [3, 14, 120, 123, 121, 15, 92], "multi_modal_data": {"image": _PICTURE}},
    {"prompt_token_ids": [27, 18, 28]},
]


def prepared(folder: str) -> dict:
    """Writes a tokenizer of words t0, t1, ... and a processor into the folder; what vLLM is to be told."""
    vocabulary = {**{f"t{i}": i for i in range(120)}, **_SPECIAL, "<unk>": 125, "<|endoftext|>": 126, "<|im_end|>": 127}
    words = Tokenizer(tokenizer_models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"unk_token": "<unk>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": list(_SPECIAL)}
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(folder)
    processor = {
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor", "min_pixels": 56 * 56, "max_pixels": 112 * 112,
        "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    }  # fmt: skip
    (Path(folder) / "preprocessor_config.json").write_text(json.dumps(processor))
    return {"limit_mm_per_prompt": {"image": 1, "video": 0}}
