# SPDX-License-Identifier: Apache-2.0
"""phasor.hf with the oldest transformers that is supported: not collected with the other tests, run with requirements-transformers.txt beside the
packages of these (tools/python/python_test.sh). Attention by name has tests/python/hf/test_hf_attention.py, whose whole models run there, too.

Configurations are written out: the zoo of the other tests makes them small by way of fields that older versions do not have.
"""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import phasor.hf
from hf_zoo.compare import Count, state
from hf_zoo.samples import token_ids

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "pad_token_id": 0}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_group": 1,
          "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1}  # fmt: skip
# Each way of rotating that is common: halves, neighbouring channels, a part of the head, neighbours gathered to halves, and rotated by buffers.
CONFIGS: dict[str, Any] = {
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "llama, yarn": lambda: transformers.LlamaConfig(**SMALL, rope_scaling=YARN),
    "qwen3": lambda: transformers.Qwen3Config(**SMALL, head_dim=8),
    "gemma2": lambda: transformers.Gemma2Config(**SMALL, head_dim=8),
    "cohere": lambda: transformers.CohereConfig(**SMALL),
    "glm": lambda: transformers.GlmConfig(**SMALL, head_dim=8),
    "deepseek_v3": lambda: transformers.DeepseekV3Config(**{**SMALL, "num_key_value_heads": 4}, **LATENT),
    "gptj": lambda: transformers.GPTJConfig(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=128, n_positions=64),
}


def build(name: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(3)
    return transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).to(dtype).eval()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(token_ids()).logits


def test_the_transformers_here_is_the_oldest_one() -> None:
    pinned = (Path(__file__).parents[1] / "requirements-transformers.txt").read_text(encoding="utf-8")
    assert f"transformers=={transformers.__version__}\n" in pinned


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_stay_bit_for_bit_and_unpatch_restores(name: str, dtype: torch.dtype) -> None:
    model = build(name, dtype)
    wanted, before = logits(model), state(model)
    phasor.hf.patch(model)
    with Count() as count:
        assert torch.equal(logits(model), wanted)
    assert count.ours >= 2 and count.own == 0
    phasor.hf.unpatch(model)
    assert state(model) == before


@pytest.mark.parametrize("numerics", ["model", "exact"])
@pytest.mark.parametrize("name", ["llama", "llama, yarn", "qwen3"])
def test_generation_with_a_cache_gives_the_same_tokens(name: str, numerics: str) -> None:
    model = build(name)
    ask = functools.partial(model.generate, token_ids(), max_new_tokens=8, do_sample=False, pad_token_id=0)
    wanted = ask()
    report = phasor.hf.patch(model, numerics=numerics)
    assert bool(report.tables) == (numerics == "exact")
    with Count() as count:
        assert torch.equal(ask(), wanted)
    assert count.ours == 2 * 8


@pytest.mark.parametrize("name", ["llama", "glm", "deepseek_v3"])
def test_a_training_step_gives_the_same_gradients(name: str) -> None:
    model = build(name)
    patched = copy.deepcopy(model)
    phasor.hf.patch(patched)
    for one in (model, patched):
        one(token_ids(), labels=token_ids()).loss.backward()
    pairs = [(a.grad, b.grad) for a, b in zip(model.parameters(), patched.parameters(), strict=True) if a.grad is not None]
    assert pairs and all(torch.equal(a, b) for a, b in pairs)


def test_attention_by_name_keeps_packed_sequences_apart() -> None:
    """Their mask is no rule of positions: it is transformers' own tensor of every pair."""
    model = build("llama")
    model.set_attn_implementation(phasor.hf.register_attention())
    ids = token_ids(1, 9)
    packed = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]])
    with torch.no_grad():
        together = model(ids, position_ids=packed, use_cache=False).logits
        model.set_attn_implementation("eager")
        apart = torch.cat([model(part).logits for part in (ids[:, :5], ids[:, 5:])], dim=1)
        assert not torch.allclose(model(ids).logits, apart, atol=1e-5)
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=0)
