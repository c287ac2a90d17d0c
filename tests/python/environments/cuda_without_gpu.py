# SPDX-License-Identifier: Apache-2.0
"""With phasor-cuda13 installed on a machine without a GPU (tools/python/cuda_wheel_test.sh): the CPU as ever, a GPU's memory refused in words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import phasor
from fake_gpu import FakeGpuArray
from phasor import _core

ROPE = phasor.Rotary(8)
DRIVER = r"CUDA says cudaError\w+: .*; wanted a GPU and the NVIDIA driver of CUDA 13 \(580 or newer\), "


def test_the_core_with_cuda_is_the_one_in_use() -> None:
    assert _core.has_cuda() and "phasor_cuda13" in _core.__file__ and _core.__name__ == "phasor._core"
    assert _core.version() == phasor.__version__


def test_it_needs_no_library_of_cuda() -> None:
    needed = subprocess.run(["readelf", "-d", _core.__file__], capture_output=True, text=True, check=True).stdout
    libraries = {re.sub(r"\.so.*", "", name) for name in re.findall(r"NEEDED.*\[(.*?)\]", needed)}
    assert not {name for name in libraries if "cuda" in name}, libraries
    assert "RPATH" not in needed and "RUNPATH" not in needed


def test_the_cpu_works_as_before() -> None:
    q = np.random.default_rng(0).standard_normal((3, 5, 2, 8)).astype(np.float32)
    cos, sin = ROPE.cos_sin(np.arange(5))
    assert (phasor.apply_rotary(q, None, cos, sin) == ROPE(q)).all()
    assert (ROPE(torch.from_numpy(q)).numpy() == ROPE(q)).all()
    assert (torch.compile(ROPE, backend="eager")(torch.from_numpy(q)).numpy() == ROPE(q)).all()


def test_memory_on_a_gpu_without_a_driver_says_which_one_is_wanted() -> None:
    q = FakeGpuArray(np.ones((3, 2, 8), np.float32))
    with pytest.raises(NotImplementedError, match=DRIVER):
        ROPE.apply_(q)
    cos = np.ones((1, 3, 1, 4), np.float32)
    with pytest.raises(NotImplementedError, match=DRIVER):
        _core.apply_tables(q, None, FakeGpuArray(cos), FakeGpuArray(cos), _core.TableLayout(phasor.TableLayout()), 0, None, None)
    assert q.streams[0] == 1  # CUDA's default stream, as DLPack calls it


def test_two_devices_are_refused_before_anything_is_asked_of_cuda() -> None:
    q = FakeGpuArray(np.ones((3, 2, 8), np.float32), 1)
    with pytest.raises(ValueError, match="positions are on cpu.*cuda:1"):
        ROPE.apply_(q, positions=np.arange(3))
    with pytest.raises(ValueError, match="cuda:0.*cuda:1|cuda:1.*cuda:0"):
        ROPE.apply_(q, FakeGpuArray(np.ones((3, 2, 8), np.float32), 0))


def test_attention_asks_for_a_driver_before_it_asks_for_memory() -> None:
    q, k, v, out = (FakeGpuArray(np.ones((1, 3, 2, 8), np.float32)) for _ in range(4))
    plan, asked = _core.Attention(phasor.scheme_of(None)), []
    with pytest.raises(NotImplementedError, match=DRIVER):
        _core.attention((q, k, v), plan, {"terms": []}, out, None, asked.append)
    with pytest.raises(ValueError, match="attention: k is on cpu.*cuda:0"):
        _core.attention((q, np.ones((1, 3, 2, 8), np.float32), v), plan, {"terms": []}, out, None, asked.append)
    assert asked == []
