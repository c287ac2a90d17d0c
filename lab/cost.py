# SPDX-License-Identifier: Apache-2.0
"""What an encoding costs: a step of decoding against caches of some length, and the kernels that attention takes. Prices of all of them are `lab.prices`."""

from __future__ import annotations

import time

import torch
from torch import Tensor

import phasor
from lab import device as places
from lab.encodings import Encoding
from lab.model import Model
from lab.presets import Preset
from lab.training.captured import Graphs, Work


class Decoder:
    """One token a step for `rows` sequences whose caches hold `keys` keys a layer, by phasor.cached_attention."""

    def __init__(self, model: Model, preset: Preset, device: torch.device, keys: int, rows: int) -> None:
        self.model, self.keys, self.preset, self.device = model, keys, preset, device
        self.dtype = torch.bfloat16 if preset.dtype == "bfloat16" and device.type == "cuda" else torch.float32
        shape = preset.shape
        generator = torch.Generator(device=device).manual_seed(0)
        made = (rows, keys, shape.heads, shape.head_dim)
        self.caches = [
            [torch.randn(made, generator=generator, device=device, dtype=torch.float32).to(self.dtype) for _ in "kv"] for _ in range(shape.layers)
        ]
        self.lengths = torch.full((rows,), keys, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(rows, 1, dtype=torch.int64, device=device)

    def attended(self, q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, layer: int) -> Tensor:
        """The new key and value take the last place of the cache."""
        q, k = encoding.rotate(q, k, layer)
        keys, values = self.caches[layer]
        keys[:, -1], values[:, -1] = k[:, 0], v[:, 0]
        scheme, scale = encoding.scheme(layer, q, self.keys), encoding.scale(layer, q.shape[-1])
        return phasor.cached_attention(q.to(self.dtype), phasor.Cache(keys), phasor.Cache(values), self.lengths, scheme=scheme, scale=scale)

    @torch.no_grad()
    def step(self) -> Tensor:
        """Logits of the next token. Its position is the cache's last."""
        model, encoding = self.model, self.model.encoding
        before = encoding.first, encoding.anchor
        encoding.first, encoding.anchor = self.keys - 1, self.keys / 2
        try:
            with places.arithmetic(self.device, "bfloat16" if self.dtype == torch.bfloat16 else "float32", cached=False):
                x = encoding.add(model.tokens(self.tokens) * model.tokens.embedding_dim**0.5)
                for number, layer in enumerate(model.layers):
                    x = layer.after(x, self.attended(*layer.projected(x), encoding, number))
                return model.logits(model.norm(x))
        finally:
            encoding.first, encoding.anchor = before

    def captured(self, graphs: Graphs) -> tuple[Work, str | None]:
        """A step as a CUDA graph, or launched piece by piece and why."""
        waits = graphs.warm(self.step)
        return (graphs.record(self.step), None) if waits is None else (self.step, waits)

    def seconds(self, steps: int, work: Work | None = None) -> float:
        """Of a step, after one that loads kernels."""
        work = work or self.step
        work()
        places.waited(self.device)
        begin = time.monotonic()
        for _ in range(steps):
            work()
        places.waited(self.device)
        return (time.monotonic() - begin) / steps


@torch.no_grad()
def attention_path(model: Model, preset: Preset, device: torch.device) -> str:
    """What the library says about the calls of training, in its words."""
    shape = preset.shape
    dtype = torch.bfloat16 if preset.dtype == "bfloat16" else torch.float32
    q = torch.zeros(preset.rows, shape.length, shape.heads, shape.head_dim, device=device, dtype=dtype)
    with places.arithmetic(device, preset.dtype):
        scheme = model.encoding.scheme(0, q, shape.length)
    told = phasor.explain_attention(q, q, q, scheme, True, scale=model.encoding.scale(0, shape.head_dim))
    return "; ".join(str(told["words"]).split("\n")).rstrip("; ")
