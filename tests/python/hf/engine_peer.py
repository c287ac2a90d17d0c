#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What examples/engine is held against: small Llamas of transformers, and the tokens that it makes, in float32 on the CPU.

`engine_peer.py FOLDER` records models and tokens there, for engine_check.py, which then needs neither PyTorch nor transformers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

PAGE = 4
PROMPT = [3, 17, 60, 5, 5, 41, 22]
SMALL = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
WIDE = {"hidden_size": 128, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
MODELS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "plain": (SMALL, PLAIN),
    "llama3": (SMALL, {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}),
    "yarn": (SMALL, {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}),
    "wide": (WIDE, PLAIN),
}  # fmt: skip
RUNS = {"long": (40, 64, 0), "shifted": (60, 24, 4)}  # new tokens, context, tokens that stay: the second context is full again and again


def make(name: str, folder: Path) -> transformers.LlamaForCausalLM:
    shape, rope = MODELS[name]
    config = transformers.LlamaConfig(
        vocab_size=67, max_position_embeddings=64, rope_parameters=rope, tie_word_embeddings=False, initializer_range=0.3, **shape
    )
    made = transformers.LlamaForCausalLM(config).eval()
    made.save_pretrained(folder, safe_serialization=True)
    return made


def likeliest(logits: torch.Tensor) -> int:
    """The last row's token; a second one as near as rounding would make the comparison a matter of luck."""
    best = logits[0, -1].topk(2)
    assert best.values[0] - best.values[1] > 1e-4
    return int(best.indices[0])


def turned(keys: torch.Tensor, frequencies: torch.Tensor, by: int) -> torch.Tensor:
    """Keys (B, H, T, D) turned by so many positions, in float64."""
    angles = (by * frequencies.double())[None, None, None]
    x, y = keys.double().chunk(2, dim=-1)
    return torch.cat((x * angles.cos() - y * angles.sin(), x * angles.sin() + y * angles.cos()), dim=-1).to(keys.dtype)


def drop(cache: Any, keep: int, count: int, frequencies: torch.Tensor) -> None:
    """What a context shift does, to a cache of transformers."""
    for layer in cache.layers:
        moved = turned(layer.keys[:, :, keep + count :], frequencies, -count)
        layer.keys = torch.cat((layer.keys[:, :, :keep], moved), dim=2)
        layer.values = torch.cat((layer.values[:, :, :keep], layer.values[:, :, keep + count :]), dim=2)


@torch.no_grad()
def tokens_of(model: transformers.LlamaForCausalLM, new: int, context: int, keep: int) -> list[int]:
    cache = transformers.DynamicCache(config=model.config)
    tokens, made, length = PROMPT, [], 0
    for _ in range(new):
        if length + len(tokens) > context:
            count = (context - keep) // 2 // PAGE * PAGE
            drop(cache, keep, count, model.model.rotary_emb.inv_freq)
            length -= count
        at = torch.arange(length, length + len(tokens))
        out = model(input_ids=torch.tensor([tokens]), position_ids=at[None], past_key_values=cache, use_cache=True)
        length += len(tokens)
        tokens = [likeliest(out.logits)]
        made += tokens
    return made


def record(folder: Path) -> None:
    torch.manual_seed(11)
    cases = []
    for name in MODELS:
        model = make(name, folder / name)
        for run, (new, context, keep) in RUNS.items():
            case = {"name": f"{name} {run}", "model": name, "new": new, "context": context, "keep": keep, "prompt": PROMPT}
            cases.append(case | {"tokens": tokens_of(model, new, context, keep)})
    (folder / "cases.json").write_text(json.dumps(cases, indent=1))
    print(f"{len(cases)} cases of {len(MODELS)} models, by transformers {transformers.__version__} and PyTorch {torch.__version__}")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
