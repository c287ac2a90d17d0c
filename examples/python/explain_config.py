# SPDX-License-Identifier: Apache-2.0
"""What a model does with positions, from its config.json alone; a path (GGUF too) may be given instead."""

import sys

import phasor

GEMMA_LIKE = {
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "num_hidden_layers": 6,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
}
config = sys.argv[1] if len(sys.argv) > 1 else GEMMA_LIKE

print(phasor.explain(config))
for i, layer in enumerate(phasor.read_model(config).layers):
    if layer.rotary is None:
        print(f"layer {i}: no rotary encoding")
        continue
    rope = phasor.Rotary.from_spec(layer.rotary)
    print(f"layer {i}: base {rope.base:g}, slowest pair {rope.frequencies[-1]:.3e} radians per position")
