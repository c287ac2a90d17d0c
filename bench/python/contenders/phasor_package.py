# SPDX-License-Identifier: Apache-2.0
"""This package: in place and functional, phases made in the call or tables given, direct and through the registered operator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from harness import BASE, HEAD_DIM, Case, Contestant

import phasor

Pair = tuple[torch.Tensor, torch.Tensor]


def in_place(label: str, case: Case, step: Callable[[torch.Tensor, torch.Tensor], object]) -> Contestant:
    """Rotates the same tensors again and again (a rotation keeps their size); the check takes fresh ones."""
    q, k = case.inputs()

    def output() -> Pair:
        fresh = case.inputs()
        step(*fresh)
        return fresh

    return Contestant(label, lambda: step(q, k), output)


def functional(label: str, case: Case, step: Callable[[torch.Tensor, torch.Tensor], Pair], grad: bool = False) -> Contestant:
    q, k = (x.requires_grad_(grad) for x in case.inputs())
    return Contestant(label, lambda: step(q, k), lambda: step(q, k))


def trained(rope: phasor.Rotary, case: Case) -> Contestant:
    """Forward and backward of a functional call."""
    q, k = (x.requires_grad_(True) for x in case.inputs())
    grads = [torch.ones_like(x) for x in (q, k)]

    def run() -> None:
        torch.autograd.grad(rope(q, k, case.first), (q, k), grads)

    return Contestant("phasor functional, forward and backward", run, lambda: rope(q, k, case.first))


def contestants(case: Case) -> list[Contestant]:
    rope = phasor.Rotary(head_dim=HEAD_DIM, base=BASE)
    first, ids = case.first, case.position_ids()
    cos, sin = rope.cos_sin(ids, dtype=torch.float32)  # (T, P)
    found = [
        in_place("phasor in place", case, lambda q, k: rope.apply_(q, k, first)),
        in_place("phasor in place, positions a tensor", case, lambda q, k: rope.apply_(q, k, ids)),
        in_place("phasor in place, tables given", case, lambda q, k: phasor.apply_rotary_(q, k, cos, sin)),
        functional("phasor functional", case, lambda q, k: rope(q, k, first)),
    ]
    words = torch.tensor(rope._core.words)
    operator = torch.ops.phasor.rotary_.qk
    found.append(in_place("phasor registered operator, in place", case, lambda q, k: operator(q, k, words, None, first, 0)))
    found.append(functional("phasor functional, gradient recorded", case, lambda q, k: rope(q, k, first), grad=True))
    found.append(trained(rope, case))
    return found
