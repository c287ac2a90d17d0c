# SPDX-License-Identifier: Apache-2.0
"""CUDA where it is not: memory on a GPU is refused in words that help, and the second distribution is taken only if it fits."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phasor
from fake_gpu import FakeGpuArray
from phasor import _core, _cuda

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = pytest.mark.skipif(_core.has_cuda(), reason="this core has CUDA kernels")


@WITHOUT
def test_memory_on_a_gpu_is_refused_by_name() -> None:
    rope, q = phasor.Rotary(8), np.ones((3, 2, 8), np.float32)
    wanted = r"q: is on cuda:1, and this phasor has no CUDA kernels; wanted the package phasor-cuda13"
    with pytest.raises(NotImplementedError, match=wanted):
        rope.apply_(FakeGpuArray(q, 1))
    with pytest.raises(NotImplementedError, match="positions: is on cuda:0"):
        rope.apply_(q, positions=FakeGpuArray(np.arange(3)))
    assert (q == 1).all()


@WITHOUT
@pytest.mark.parametrize("moved", ["k", "k_cache", "slots", "weight", "scales"])
def test_every_array_of_the_step_before_attention_is_refused_by_name(moved: str) -> None:
    arrays: dict[str, Any] = {
        "k": np.ones((3, 2, 8), np.float32),
        "k_cache": np.zeros((3, 1, 2, 8), np.uint8),
        "slots": np.arange(3),
        "weight": np.ones(8, np.float32),
        "scales": np.ones(2, np.float32),
    }
    cache = arrays["k_cache"]
    arrays[moved] = FakeGpuArray(arrays[moved], 1)
    k_cache = phasor.Cache(arrays["k_cache"], storage="float8_e4m3fn", scales=phasor.CacheScales(array=arrays["scales"]))
    with pytest.raises(NotImplementedError, match=f"{moved}: is on cuda:1, and this phasor has no CUDA kernels"):
        phasor.prepare_attention(k=arrays["k"], k_cache=k_cache, slots=arrays["slots"], k_norm=phasor.HeadNorm(weight=arrays["weight"]))
    assert not cache.any()


def test_the_versions_are_the_same_everywhere() -> None:
    text = (ROOT / "python/cuda13/phasor_cuda13/__init__.py").read_text()
    project = (ROOT / "python/cuda13/pyproject.toml").read_text()
    assert _cuda.VERSION == phasor.__version__
    assert f'VERSION = "{_cuda.VERSION}"' in text
    assert re.findall(r'^version = "(.*)"', project, re.MULTILINE) == [_cuda.VERSION] and f'"phasor=={_cuda.VERSION}"' in project


BESIDE = {  # what lies in a folder phasor_cuda13: what a call with memory on a GPU then says
    "another version": ({"__init__.py": 'VERSION = "9.9"'}, "phasor-cuda13 is of version 9.9 and phasor of "),
    "no module": ({"__init__.py": f'VERSION = "{_cuda.VERSION}"'}, "phasor-cuda13 has no module for this Python"),
    "a broken module": ({"__init__.py": f'VERSION = "{_cuda.VERSION}"', "_core.abi3.so": "no module"}, "phasor-cuda13 cannot be loaded: "),
}


@WITHOUT
@pytest.mark.parametrize("name", BESIDE)
def test_a_second_distribution_that_does_not_fit_is_not_taken(name: str, tmp_path: Path) -> None:
    files, words = BESIDE[name]
    (tmp_path / _cuda.BESIDE).mkdir()
    for file, text in files.items():
        (tmp_path / _cuda.BESIDE / file).write_text(text)
    program = f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}, {str(Path(__file__).parent)!r}]
import numpy as np, phasor
from fake_gpu import FakeGpuArray
q = np.ones((3, 8), np.float32)
assert phasor.Rotary(8)(q).shape == q.shape
try:
    phasor.Rotary(8).apply_(FakeGpuArray(q))
except NotImplementedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert words in done.stdout


def test_nothing_is_taken_where_nothing_is() -> None:
    if importlib.util.find_spec(_cuda.BESIDE) is None:
        assert _cuda.take() == ""
