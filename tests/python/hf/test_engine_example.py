# SPDX-License-Identifier: Apache-2.0
"""examples/engine makes the tokens that transformers makes: with its pages alone, and with a context that is shifted."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

PROGRAMS = Path(__file__).resolve().parents[3] / "build" / "dev" / "tests" / "surface"
PAGE = 4
PROMPT = [3, 17, 60, 5, 5, 41, 22]
SCALINGS: dict[str, dict[str, Any]] = {
    "plain": {"rope_type": "default", "rope_theta": 1e4},
    "llama3": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    "yarn": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16},
}


def program(name: str) -> str:
    path = PROGRAMS / name
    assert path.exists(), f"{path} is not there: `make test` builds it"
    return str(path)


@pytest.fixture(params=sorted(SCALINGS))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[transformers.LlamaForCausalLM, Path]:
    config = transformers.LlamaConfig(
        vocab_size=67, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        max_position_embeddings=64, rope_parameters=SCALINGS[request.param], tie_word_embeddings=False, initializer_range=0.3,
    )  # fmt: skip
    made = transformers.LlamaForCausalLM(config).eval()
    made.save_pretrained(tmp_path, safe_serialization=True)
    return made, tmp_path


def engine(name: str, folder: Path, new: int, context: int, keep: int) -> list[int]:
    command = [program(name), str(folder), str(new), str(context), str(keep), *map(str, PROMPT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [int(token) for token in done.stdout.split()]


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
def wanted(model: transformers.LlamaForCausalLM, new: int, context: int, keep: int) -> list[int]:
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


@pytest.mark.parametrize("name", ["phasor_example_engine", "phasor_example_engine_c"])
def test_the_engine_makes_the_tokens_of_transformers(model: tuple[transformers.LlamaForCausalLM, Path], name: str) -> None:
    assert engine(name, model[1], 40, 64, 0) == wanted(model[0], 40, 64, 0)


@pytest.mark.parametrize("name", ["phasor_example_engine", "phasor_example_engine_c"])
def test_so_it_does_when_its_context_is_shifted(model: tuple[transformers.LlamaForCausalLM, Path], name: str) -> None:
    made = engine(name, model[1], 60, 24, 4)
    assert made == wanted(model[0], 60, 24, 4)
    assert made != wanted(model[0], 60, 80, 4)  # so long a context is never shifted: the shift is seen
