# SPDX-License-Identifier: Apache-2.0
"""Encodings that are added to the tokens before the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

import phasor
from lab.encodings.base import Encoding
from lab.presets import Shape


class Added(Encoding):
    """A module that adds to the tokens."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def add(self, x: Tensor) -> Tensor:
        return self.module(x, self.positions)


def sinusoidal(shape: Shape) -> Encoding:
    return Added(phasor.nn.Sinusoidal(shape.width))


def learned(shape: Shape) -> Encoding:
    """Its rows begin as large as those of the tokens, which the model multiplies by sqrt(width)."""
    table = phasor.nn.Learned(shape.length, shape.width)
    with torch.no_grad():
        table.weight.mul_(shape.width**0.5)
    return Added(table)


def hierarchical(trained: Encoding, length: int) -> Encoding:
    """A learned table, longer by Su's hierarchical decomposition. Its own rows stay, bit for bit: training it is training the table."""
    weight = trained.module.weight.detach()
    if length <= weight.shape[0]:
        return trained
    table = phasor.hierarchical_table(weight.cpu(), length)  # once a length: made on the CPU, which has it for every device
    return Added(phasor.nn.Learned.from_table(table)).to(weight.device)
