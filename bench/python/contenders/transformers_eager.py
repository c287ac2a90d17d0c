# SPDX-License-Identifier: Apache-2.0
"""transformers as its Llama does it: the module that makes the tables, and apply_rotary_pos_emb on (B, H, T, D) views."""

from __future__ import annotations

from collections.abc import Callable

import torch
from harness import BASE, HEAD_DIM, K_HEADS, Q_HEADS, Case, Contestant
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

Step = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def module() -> LlamaRotaryEmbedding:
    config = LlamaConfig(
        head_dim=HEAD_DIM,
        hidden_size=Q_HEADS * HEAD_DIM,
        num_attention_heads=Q_HEADS,
        num_key_value_heads=K_HEADS,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": BASE},
    )
    return LlamaRotaryEmbedding(config)


def steps(case: Case) -> dict[str, Step]:
    """The two ways: tables made in the call, tables given."""
    rotary, ids = module(), case.position_ids()[None]

    def made(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = rotary(q, ids)
        return apply_rotary_pos_emb(q, k, cos, sin)

    cos, sin = rotary(case.inputs()[0], ids)

    def given(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return apply_rotary_pos_emb(q, k, cos, sin)

    return {"tables made in the call": made, "tables given": given}


def contestant(label: str, step: Step, case: Case) -> Contestant:
    q, k = (x.transpose(1, 2) for x in case.inputs())
    return Contestant(label, lambda: step(q, k), lambda: tuple(x.transpose(1, 2) for x in step(q, k)))


def contestants(case: Case) -> list[Contestant]:
    return [contestant(f"transformers eager, {name}", step, case) for name, step in steps(case).items()]
