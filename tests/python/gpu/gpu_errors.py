# SPDX-License-Identifier: Apache-2.0
"""What is refused on a GPU, in which words, and that nothing is written then."""

from __future__ import annotations

import torch

import phasor
from cases import DEVICE, SPECS, moved, needs_gpu, numbers, raises, same_bits

ROPE = SPECS["half"]


def test_tensors_of_two_devices() -> None:
    needs_gpu()
    q, k = numbers(2, 5, 3, 64), numbers(2, 5, 1, 64)
    there = moved(q)[0]
    for call in (ROPE, ROPE.apply_):
        with raises(ValueError, "wanted one device"):
            call(there, k)
        with raises(ValueError, "wanted one device"):
            call(there, None, torch.arange(5))
    with raises(ValueError, "wanted one device"):
        phasor.apply_rotary(there, None, *ROPE.cos_sin(torch.arange(5)))
    with raises(ValueError, "wanted one device"):
        ROPE.rerotate_(there, torch.arange(5), 3)
    with raises(Exception, "wanted one device"):  # dynamo wraps it
        torch.compile(lambda x, at: ROPE(x, positions=at), backend="eager", fullgraph=True)(there, torch.arange(5))
    assert same_bits(there, q)


def test_shapes_are_refused_before_anything_is_written() -> None:
    q = numbers(2, 5, 3, 64)
    there = moved(q)[0]
    with raises(ValueError, "tokens|positions"):
        ROPE.apply_(there, positions=torch.arange(4, device=DEVICE))
    with raises(ValueError, "positions"):
        ROPE.apply_(there, positions=range(4))
    with raises(ValueError, "head_dim"):
        ROPE.apply_(moved(numbers(2, 5, 3, 32))[0])
    with raises(TypeError, "wanted int32, int64 or float64"):
        ROPE.apply_(there, positions=torch.arange(5, device=DEVICE, dtype=torch.int16))
    assert same_bits(there, q)
