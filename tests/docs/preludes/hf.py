# SPDX-License-Identifier: Apache-2.0
"""What the blocks of docs/hf.md speak of: a model."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import phasor

torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, vocab_size=100)
)
