# SPDX-License-Identifier: Apache-2.0
"""The one model of the lab: a small causal Transformer that leaves positions to its encoding."""

from __future__ import annotations

import math

from torch import Tensor, nn

import phasor
from lab.encodings import Encoding, Shape


class Layer(nn.Module):
    """Attention, then two linear maps, each after a norm and beside the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(shape.width, 4 * shape.width), nn.ReLU(), nn.Linear(4 * shape.width, shape.width))

    def forward(self, x: Tensor, encoding: Encoding, layer: int) -> Tensor:
        q, k, v = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, T, H, D)
        q, k = encoding.rotate(q, k)
        scale = encoding.softmax_scale / math.sqrt(q.shape[-1])
        x = x + self.out(phasor.attention(q, k, v, scheme=encoding.scheme(layer), causal=True, scale=scale).flatten(-2))
        return x + self.mlp(self.norm_mlp(x))


class Model(nn.Module):
    """Logits (B, T, vocabulary) of tokens (B, T)."""

    def __init__(self, shape: Shape, vocabulary: int, encoding: Encoding) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.logits = nn.Linear(shape.width, vocabulary, bias=False)
        self.encoding = encoding

    def forward(self, tokens: Tensor, encoding: Encoding | None = None) -> Tensor:
        """With another encoding than it was trained with, if one is given."""
        encoding = self.encoding if encoding is None else encoding
        x = encoding.add(self.tokens(tokens))
        for number, layer in enumerate(self.layers):
            x = layer(x, encoding, number)
        return self.logits(self.norm(x))
