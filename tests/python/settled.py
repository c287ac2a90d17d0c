# SPDX-License-Identifier: Apache-2.0
"""What this machine's PyTorch is, asked by trying: the state that it ends in, and what 16-bit products cost."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings

import torch

SLOW = 8.0  # times as long as float32: a processor without instructions for bfloat16 takes a hundred


def settle() -> bool:
    """Brings PyTorch into the state that it stays in, and says whether that is another one than it began in.

    Where the processor lacks bfloat16, the first such product above a certain size fails inside of oneDNN, and PyTorch does without oneDNN
    from then on, in float32 too: what is computed before and after has other bits. Two runs that are compared must not lie on both sides.
    """
    before = torch.backends.mkldnn.enabled
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for dtype in (torch.bfloat16, torch.float16):
            x = torch.ones(2, 40, 40, dtype=dtype)
            for product in (
                lambda: x @ x,
                lambda: x @ x.transpose(1, 2),  # this one, and linear: their second matrix lies transposed
                lambda: torch.nn.functional.linear(x, x[0]),
                lambda: torch.nn.functional.conv1d(x, x[:, :, :3]),
                lambda: torch.nn.functional.scaled_dot_product_attention(x, x, x),
            ):
                with contextlib.suppress(RuntimeError):  # a PyTorch that has no such product stays as it is
                    product()
    return torch.backends.mkldnn.enabled != before


@functools.cache
def seconds_of_a_product(dtype: torch.dtype) -> float:
    """What one multiplication and addition costs in a product of matrices, the best of a few."""
    x = torch.ones(40, 40, dtype=dtype)
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        x @ x
        took.append(time.perf_counter() - begin)
    return min(took) / 40**3


@functools.cache
def bfloat16_is_slow() -> bool:
    """Whether PyTorch has nothing but scalar code for bfloat16 here."""
    return seconds_of_a_product(torch.bfloat16) > SLOW * seconds_of_a_product(torch.float32)
