# SPDX-License-Identifier: Apache-2.0
"""What an encoding costs: tokens per second of decoding against caches of some lengths, memory, and the kernels that attention takes."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

import phasor
from lab import device as places
from lab.encodings import Encoding
from lab.model import Model
from lab.presets import Preset

STEPS, CPU_STEPS = 12, 2  # that are timed, after one that is not
CPU_KEYS, CPU_ROWS = 512, 1


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
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype == torch.bfloat16):
                x = encoding.add(model.tokens(self.tokens) * model.tokens.embedding_dim**0.5)
                for number, layer in enumerate(model.layers):
                    x = layer.after(x, self.attended(*layer.projected(x), encoding, number))
                return model.logits(model.norm(x))
        finally:
            encoding.first, encoding.anchor = before

    def seconds(self, steps: int) -> float:
        """Of a step, after one that loads kernels."""
        self.step()
        places.waited(self.device)
        begin = time.monotonic()
        for _ in range(steps):
            self.step()
        places.waited(self.device)
        return (time.monotonic() - begin) / steps


def decoding(model: Model, preset: Preset, device: torch.device) -> list[dict[str, Any]]:
    """A row for each length of the caches; what the library refuses has its words."""
    rows: list[dict[str, Any]] = []
    for keys in preset.decode_lengths:
        places.forget_peak(device)
        row: dict[str, Any] = {"device": device.type, "keys": keys, "rows": preset.decode_rows}
        try:
            seconds = Decoder(model, preset, device, keys, preset.decode_rows).seconds(STEPS if device.type == "cuda" else CPU_STEPS)
            row |= {"tokens_per_second": preset.decode_rows / seconds, "bytes": places.peak_bytes(device)}
        except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
            row["refused"] = str(error)
        rows.append(row)
    return rows


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


def cost_of(model: Model, preset: Preset, device: torch.device) -> dict[str, Any]:
    """The part `cost` of a result. On a GPU the same model decodes on the CPU too, one row and a short cache."""
    rows = decoding(model, preset, device)
    if device.type == "cuda":
        rows.append(_on_cpu(model, preset))
    timed = [row for row in rows if "tokens_per_second" in row]
    first = timed[0] if timed else {"tokens_per_second": None, "bytes": None}
    return {
        "decode_tokens_per_second": first["tokens_per_second"],
        "decode_bytes": first["bytes"],
        "decode": rows,
        "attention_path": attention_path(model, preset, device),
    }


def _on_cpu(model: Model, preset: Preset) -> dict[str, Any]:
    cpu, row = torch.device("cpu"), {"device": "cpu", "keys": CPU_KEYS, "rows": CPU_ROWS}
    device = next(model.parameters()).device
    try:
        seconds = Decoder(model.to(cpu), preset, cpu, CPU_KEYS, CPU_ROWS).seconds(CPU_STEPS)
        return {**row, "tokens_per_second": CPU_ROWS / seconds, "bytes": None}
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        return {**row, "refused": str(error)}
    finally:
        model.to(device)
