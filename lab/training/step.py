# SPDX-License-Identifier: Apache-2.0
"""One step of training, and the plan that says at which rate. Nothing here moves in memory from step to step, so that a step can be captured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab import device as places
from lab.model import Model
from lab.presets import BETAS, LEAST_RATE, MOST_NORM, Preset


@dataclass(frozen=True)
class Plan:
    """How a model is trained: of a preset, or of a fine-tune."""

    steps: int
    rate: float
    warmup: int
    decay: float
    dtype: str
    cap: float  # seconds

    @classmethod
    def of(cls, preset: Preset) -> Plan:
        return cls(preset.steps, preset.rate, preset.warmup, preset.decay, preset.dtype, preset.caps.training)

    def rate_at(self, step: int) -> float:
        falling = LEAST_RATE + (1 - LEAST_RATE) * (1 + math.cos(math.pi * step / self.steps)) / 2
        return self.rate * min(1.0, (step + 1) / self.warmup) * falling


class Step:
    """Forward, backward, clipping and update of a model. Batch, rates and loss are tensors of the device that are written over, never made anew: what a
    CUDA graph of `work` reads and writes is where it was when the graph was captured."""

    def __init__(self, model: Model, plan: Plan, device: torch.device) -> None:
        self.model, self.dtype, self.device = model, plan.dtype, device
        self.tokens: Tensor | None = None
        self.loss = torch.zeros((), device=device)
        own = list(model.encoding.parameters())
        others = [one for one in model.parameters() if id(one) not in set(map(id, own))]
        groups = [
            {"params": [one for one in others if one.ndim >= 2], "weight_decay": plan.decay, "factor": 1.0},
            {"params": [one for one in others if one.ndim < 2], "weight_decay": 0.0, "factor": 1.0},
            {"params": own, "weight_decay": 0.0, "factor": model.encoding.rate},
        ]
        for group in groups:
            group["lr"] = torch.zeros((), device=device)  # float32, as the fused kernel reads it
        cuda = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=BETAS, fused=cuda, capturable=cuda)

    def give(self, tokens: Tensor, rate: float) -> None:
        """The windows (rows, length + 1) and the rate of the next step."""
        if self.tokens is None:
            self.tokens = torch.empty(tokens.shape, dtype=torch.int64, device=self.device)
        self.tokens.copy_(tokens)
        for group in self.optimizer.param_groups:
            group["lr"].fill_(rate * group["factor"])

    def work(self) -> None:
        """The step. Gradients are None before it, so the first to arrive is written, not added: a replay writes over those of the replay before."""
        self.optimizer.zero_grad(set_to_none=True)
        with places.arithmetic(self.device, self.dtype, cached=False):
            loss = self.model.loss(self.tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MOST_NORM)
        self.optimizer.step()
        self.loss.copy_(loss.detach())
