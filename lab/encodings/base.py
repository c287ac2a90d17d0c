# SPDX-License-Identifier: Apache-2.0
"""What every encoding is: what it does to the tokens, to queries and keys, and to the scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import phasor


class Encoding(torch.nn.Module):
    """No encoding at all; the others change what they need to."""

    first: int = 0  # the position of the first token
    rate: float = 1.0  # of learning for its own parameters, beside the model's
    anchor: float | None = None  # the position that decays are counted from, where there are some; None: the middle of a call

    def add(self, x: Tensor) -> Tensor:
        """Tokens (B, T, width) before the first layer."""
        return x

    def rotate(self, q: Tensor, k: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, T, H, D) of a layer."""
        return q, k

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        """What phasor.attention gets for q and so many keys."""
        return None

    def scale(self, layer: int, head_dim: int) -> float:
        """Of the scores."""
        return head_dim**-0.5

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        """Causal attention of a layer, (B, T, H, D)."""
        q, k = self.rotate(q, k, layer)
        return phasor.attention(q, k, v, scheme=self.scheme(layer, q, k.shape[1]), causal=True, scale=self.scale(layer, q.shape[-1]))

    @property
    def positions(self) -> int | None:
        """As phasor's modules take them: the first of consecutive ones."""
        return self.first or None


class PerLayer(Encoding):
    """One module for each layer, made by a function; calling it gives the scheme."""

    def __init__(self, layers: int, make: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(make() for _ in range(layers))

    def scheme(self, layer: int, q: Tensor, keys: int) -> Any:
        return self.layers[layer](keys)
