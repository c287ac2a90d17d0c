# SPDX-License-Identifier: Apache-2.0
"""Biases on attention scores as modules: ALiBi, with slopes given or learned, and T5's buckets with a learned table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from phasor import _bias, _torch
from phasor._bias_specs import Alibi, T5Buckets
from phasor._model import ModelSource, _layers_of, read_model
from phasor._torch.sharding import refuse
from phasor._types.model import ModelBias


def _bias_config(config: ModelSource, layer: int, tower: str | None, kind: str) -> ModelBias:
    layers = _layers_of(read_model(config), tower)
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"from_config: layer is {layer}, the model has {len(layers)}")
    found = layers[layer].bias
    if found is None or found.kind != kind:
        raise ValueError(f"from_config: layer {layer} has {'no bias' if found is None else f'a bias of kind {found.kind}'}, wanted {kind}")
    return found


def _positions(queries: Any, keys: Any, device: torch.device) -> tuple[Tensor, Tensor]:
    """Numbers of tokens, or positions. As numbers: keys are 0, 1, ..., and queries are the last of them."""
    keys = queries if keys is None else keys
    if not isinstance(queries, Tensor):
        if isinstance(keys, Tensor):
            raise TypeError("bias: queries are a number and keys are positions, wanted both alike")
        if any(not isinstance(x, (int, torch.SymInt)) for x in (queries, keys)):
            raise TypeError(
                f"bias: queries are {type(queries).__name__} and keys {type(keys).__name__}, wanted numbers or tensors of positions"
            )
        if not 0 <= queries <= keys:
            raise ValueError(f"bias: {queries} queries and {keys} keys, wanted 0 queries or more, and at least as many keys")
        return torch.arange(keys - queries, keys, device=device), torch.arange(keys, device=device)
    if not isinstance(keys, Tensor):
        raise TypeError("bias: queries are positions and keys are a number, wanted both alike")
    _torch.seen(queries, keys)
    return queries, keys


class AlibiBias(torch.nn.Module):
    """ALiBi: (heads, Tq, Tk), or (B, heads, Tq, Tk), to add to scores. With `learned` the slopes are a parameter; else nothing is saved.

    Forms: "symmetric", -slope |distance|; "causal", 0 for keys ahead; "key_position", slope times the key's position (Bloom, MPT).

    >>> import torch, phasor
    >>> bias = phasor.nn.AlibiBias(heads=2)
    >>> bias(3)[0].tolist()
    [[0.0, -0.0625, -0.125], [-0.0625, 0.0, -0.0625], [-0.125, -0.0625, 0.0]]
    >>> bias(1, 3)[0].tolist()    # the last of three
    [[-0.125, -0.0625, 0.0]]
    """

    def __init__(self, heads: int, *, slopes: Any = (), learned: bool = False, **fields: Any) -> None:
        super().__init__()
        self.spec = Alibi(heads=heads, slopes=slopes, **fields)
        used = torch.tensor(_bias.Bias(self.spec).slopes, dtype=torch.float32)
        self.slopes = torch.nn.Parameter(used) if learned else None
        # Learned slopes multiply the bias of slope 1, which is a whole number.
        self.text = _torch.text_of(replace(self.spec, heads=1, slopes=(1.0,), rounding="float64") if learned else self.spec)

    @classmethod
    def from_config(cls, config: ModelSource, layer: int = 0, *, tower: str | None = None, **options: Any) -> AlibiBias:
        """The module of a layer by a config."""
        found = _bias_config(config, layer, tower, "alibi")
        return cls(found.heads, max_bias=found.max_alibi, **options)

    def forward(self, queries: Any, keys: Any = None, dtype: torch.dtype = torch.float32) -> Tensor:
        """The biases of so many queries and keys, or of queries and keys at positions (T) or (B, T)."""
        device = torch.device("cpu") if self.slopes is None else self.slopes.device
        at, of = _positions(queries, keys, device)
        if self.slopes is None:
            return torch.ops.phasor.bias(at, of, self.text, dtype)
        refuse("AlibiBias with learned slopes", (self.slopes, at, of))
        # Whole distances are exact in float32 up to 2^24, in 16 bits only up to 256 or 2048.
        wide = torch.promote_types(torch.promote_types(dtype, self.slopes.dtype), torch.float32)
        whole = torch.ops.phasor.bias(at, of, self.text, wide)
        return (self.slopes[:, None, None].to(wide) * whole).to(dtype)

    def extra_repr(self) -> str:
        return f"heads={self.spec.heads}, form={self.spec.form!r}" + (", learned=True" if self.slopes is not None else "")


class T5Bias(torch.nn.Module):
    """T5's bias: a learned number for each head and bucket of distances, (heads, Tq, Tk) or (B, heads, Tq, Tk). Buckets are exact.

    The parameter `weight` is (heads, buckets); Hugging Face's `relative_attention_bias.weight` is its transpose.

    >>> import torch, phasor
    >>> bias = phasor.nn.T5Bias(heads=2)
    >>> bias(5).sum().backward()
    >>> bias.weight.grad[0, :3].tolist()    # distances 0, 1 and 2 occur 5, 4 and 3 times
    [5.0, 4.0, 3.0]
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(heads, buckets))
        torch.nn.init.normal_(self.weight, std=0.02)
        sides: Any = "both" if bidirectional else "behind"
        # One head whose values are the numbers of the buckets: filling it finds the bucket of every distance.
        self.spec = T5Buckets(
            heads=1, buckets=buckets, max_distance=max_distance, sides=sides, table=tuple(float(i) for i in range(buckets))
        )
        self.text = _torch.text_of(_bias.Bias(self.spec).spec)

    @classmethod
    def from_config(cls, config: ModelSource, layer: int = 0, *, tower: str | None = None) -> T5Bias:
        """The module of a layer by a config, with fresh values."""
        found = _bias_config(config, layer, tower, "t5_buckets")
        return cls(found.heads, found.buckets, found.max_distance, found.bidirectional)

    def rows(self, queries: Any, keys: Any = None) -> Tensor:
        """The bucket of every query and key: int64 (Tq, Tk) or (B, Tq, Tk)."""
        at, of = _positions(queries, keys, self.weight.device)
        refuse("T5Bias", (self.weight, at, of))
        return torch.ops.phasor.bias(at, of, self.text, torch.float32).squeeze(-3).long()

    def forward(self, queries: Any, keys: Any = None) -> Tensor:
        """The biases of so many queries and keys, or of queries and keys at positions (T) or (B, T)."""
        rows = self.rows(queries, keys)
        biases = self.weight.index_select(1, rows.reshape(-1)).unflatten(1, rows.shape)
        return biases if rows.ndim == 2 else biases.transpose(0, 1)

    def extra_repr(self) -> str:
        spec = self.spec
        return (
            f"heads={self.weight.shape[0]}, buckets={spec.buckets}, max_distance={spec.max_distance}, bidirectional={spec.sides == 'both'}"
        )
