# SPDX-License-Identifier: Apache-2.0
"""The state that PyTorch is tested in: one that no test changes, so that comparisons do not depend on the order of tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from settled import seconds_of_a_product, settle


def test_16_bit_products_change_nothing_any_more() -> None:
    before = torch.backends.mkldnn.enabled
    x = torch.randn(2, 64, 64)
    wanted = torch.nn.functional.linear(x, x[0])
    for dtype in (torch.bfloat16, torch.float16):
        torch.nn.functional.linear(x.to(dtype), x[0].to(dtype))
    assert not settle() and torch.backends.mkldnn.enabled == before
    assert torch.equal(torch.nn.functional.linear(x, x[0]), wanted)


def test_a_fresh_process_settles_in_the_state_of_this_one() -> None:
    program = "import settled, torch; settled.settle(); print(torch.backends.mkldnn.enabled)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    assert done.stdout.strip() == str(torch.backends.mkldnn.enabled) and done.stderr == ""


def test_what_is_slow_is_measured() -> None:
    assert 0 < seconds_of_a_product(torch.float32) < 1e-6
