# SPDX-License-Identifier: Apache-2.0
"""A transformers model that phasor.hf has patched, and a model of phasor.nn's own, as files: as near to float64 as PyTorch's float32 is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import transformers
from onnx_run import File

import phasor
import phasor.onnx

DYNAMIC, VOCABULARY = torch.export.Dim.DYNAMIC, 61
SHAPES = [(2, 9), (1, 2), (3, 33)]


class Logits(torch.nn.Module):
    """Tokens in, logits out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens, use_cache=False).logits


def llama(dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, vocab_size=VOCABULARY,
        max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


def as_near_as_pytorch(file: File, ours: Any, exact: Any) -> None:
    """Rounding takes a model of some layers here or there: the file may be four times as far from float64 as PyTorch's float32 is."""
    for shape in SHAPES:
        torch.manual_seed(shape[1])
        tokens = torch.randint(0, VOCABULARY, shape)
        with torch.no_grad():
            wanted, near = exact(tokens).numpy(), ours(tokens).double().numpy()
        (found,) = file.run({"tokens": tokens})
        assert found.shape == wanted.shape
        assert 0 < np.abs(near - wanted).max() < 1e-4
        assert np.abs(found - wanted).max() <= 4 * np.abs(near - wanted).max(), shape


def test_a_patched_llama_runs_in_onnxruntime(tmp_path: Path) -> None:
    model = llama()
    phasor.hf.patch(model, strict=True)  # an error where a rotation is not replaced
    path = tmp_path / "llama.onnx"
    given = (torch.randint(0, VOCABULARY, SHAPES[0]),)
    made = phasor.onnx.export(Logits(model), given, path, dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},))
    onnx.checker.check_model(str(path), full_check=True)
    kinds = [node.op_type for node in made.model.graph]
    assert kinds.count("RotaryEmbedding") == 4  # q and k of two layers: the rotation is ours
    as_near_as_pytorch(File(made), Logits(model), Logits(llama(torch.float64)))


class Layer(torch.nn.Module):
    """Rotary attention with two kinds of specs, as models with local and global layers have them."""

    def __init__(self, rope: phasor.Rotary) -> None:
        super().__init__()
        self.rope = phasor.nn.Rotary.from_rotary(rope)
        self.qkv, self.out = torch.nn.Linear(32, 64), torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (8, 8)).split((4, 2, 2), dim=2)
        q, k = self.rope(q, k)
        return x + self.out(phasor.attention(q, k, v, causal=True).flatten(-2))


class Model(torch.nn.Module):
    """Two layers of different specs."""

    def __init__(self) -> None:
        super().__init__()
        ropes = phasor.Rotary(8, base=500.0), phasor.Rotary(8, rotary_width=4, scaling=phasor.YarnScaling(4.0, 16), pairing="interleaved")
        self.tokens, self.logits = torch.nn.Embedding(VOCABULARY, 32), torch.nn.Linear(32, VOCABULARY)
        self.layers = torch.nn.ModuleList(map(Layer, ropes))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.logits(x)


def test_a_model_with_a_spec_for_each_layer_runs_in_onnxruntime() -> None:
    torch.manual_seed(1)
    model = Model()
    given = (torch.randint(0, VOCABULARY, SHAPES[0]),)
    made = phasor.onnx.export(model, given, max_position=64, dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},))
    kinds = [node.op_type for node in made.model.graph]
    assert (kinds.count("RotaryEmbedding"), kinds.count("Attention")) == (4, 2)
    double = Model().double()
    double.load_state_dict(model.state_dict())
    as_near_as_pytorch(File(made), model, double)
