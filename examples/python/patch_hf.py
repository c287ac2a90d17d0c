# SPDX-License-Identifier: Apache-2.0
"""Patch a Hugging Face model in place: the same logits bit for bit by default, exact angles on demand, and back again."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import phasor.hf

torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_hidden_layers=2,
    vocab_size=100,
    max_position_embeddings=4096,
    rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
)
model = LlamaForCausalLM(config).eval()  # random weights: nothing is downloaded
tokens = torch.randint(0, 100, (2, 17))

with torch.no_grad():
    before = model(tokens).logits
    phasor.hf.patch(model)  # the model's own tables, our rotation
    assert torch.equal(model(tokens).logits, before)
    print("patched: logits are the same bits")

    generated = model.generate(tokens[:1], max_new_tokens=5, do_sample=False, pad_token_id=0)
    print(f"generation with a cache: {generated.shape[1] - 17} new tokens")
    phasor.hf.unpatch(model)

    phasor.hf.patch(model, numerics="exact")  # true angles instead of float32 ones
    change = (model(tokens).logits - before).abs().max()
    print(f"exact angles: logits change by at most {change:.1e}")
    phasor.hf.unpatch(model)
    assert torch.equal(model(tokens).logits, before)
