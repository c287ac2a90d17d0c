# SPDX-License-Identifier: Apache-2.0
"""The one model of the lab: a causal Transformer that leaves positions to its encoding."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.encodings import TRAINED, Encoding
from lab.encodings.rotary import adjacent_rows
from lab.presets import Shape

LOGITS_AT_ONCE = 16384  # tokens whose logits are in memory


class Layer(nn.Module):
    """Attention, then two linear maps, each after a norm and beside the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def projected(self, x: Tensor) -> tuple[Tensor, ...]:
        """q, k, v, (B, T, H, D) each."""
        return self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)

    def after(self, x: Tensor, attended: Tensor) -> Tensor:
        """What follows attention."""
        x = x + self.out(attended.flatten(-2))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x)), approximate="tanh"))

    def forward(self, x: Tensor, encoding: Encoding, layer: int) -> Tensor:
        return self.after(x, encoding.attend(*self.projected(x), layer))


class Model(nn.Module):
    """A next token's logits from hidden states (B, T, width) by the embedding's own rows; embeddings are multiplied by sqrt(width), as
    Vaswani's, so that sinusoids do not drown them."""

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.encoding = Encoding()
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        for layer in self.layers:  # so that the stream has the same size whatever the depth
            for last in (layer.out, layer.down):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * shape.layers))

    def forward(self, tokens: Tensor, encoding: Encoding | None = None) -> Tensor:
        """Hidden states of tokens (B, T); with another encoding than it was trained with, if one is given."""
        encoding = self.encoding if encoding is None else encoding
        x = encoding.add(self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim))
        for number, layer in enumerate(self.layers):
            x = layer(x, encoding, number)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.tokens.weight)

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Nats of each target, (N) for hidden states (N, width)."""
        return functional.cross_entropy(self.logits(hidden).float(), targets, reduction="none")

    def loss(self, tokens: Tensor) -> Tensor:
        """The mean over all tokens but the first of each row."""
        hidden = self(tokens[:, :-1])
        return functional.cross_entropy(self.logits(hidden).flatten(0, 1).float(), tokens[:, 1:].flatten())


def begun(name: str, seed: int, shape: Shape, vocabulary: int) -> Model:
    """A model before training. All of a seed begin alike but for the encoding, whose numbers are drawn after the rest."""
    generator_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = Model(shape, vocabulary)
    model.encoding = TRAINED[name](shape)
    torch.random.set_rng_state(generator_state)
    if name == "rotary adjacent":  # the same function as rotary's, so that training must agree
        with torch.no_grad():
            for layer in model.layers:
                q, k, v = layer.qkv.weight.chunk(3)
                layer.qkv.weight.copy_(torch.cat([adjacent_rows(q, shape.head_dim), adjacent_rows(k, shape.head_dim), v]))
    return model
