# SPDX-License-Identifier: Apache-2.0
"""Uses a wheel as somebody without a compiler does: rotates, explains a model, draws: wheel_use.py [module]. Run by tools/python/wheel_use.sh with the
Python that it is installed for, where the PATH holds that Python alone. With `module` it leaves the tool out: in qemu no program can start another."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import phasor
from phasor.__main__ import tool


def run(*arguments: str) -> str:
    """The tool, as the environment finds it."""
    assert shutil.which("phasor") == str(tool())
    return subprocess.run(["phasor", *arguments], capture_output=True, text=True, check=True).stdout


def rotate() -> float:
    """The largest difference from the definition in float64."""
    rope = phasor.Rotary(head_dim=16, base=1e4)
    q = np.random.default_rng(0).standard_normal((5, 3, 16)).astype(np.float32)
    angles = np.arange(100_000, 100_005)[:, None] * 1e4 ** (-np.arange(8) / 8)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = q[..., :8].astype(np.float64), q[..., 8:].astype(np.float64)
    rotated, _ = rope(q, q, 100_000)
    return float(np.abs(rotated - np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)).max())


def draw() -> int:
    """The size of a picture by matplotlib."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "decay.svg"
        run("plot", "decay", "--model", "llama3.1", "--out", str(picture))
        text = picture.read_text(encoding="utf-8")
    assert "<svg" in text and "distance (positions)" in text
    return len(text)


def main() -> None:
    for program in ("cc", "c++", "gcc", "g++", "clang", "gnuplot"):
        assert shutil.which(program) is None, f"{program} is on the PATH"
    error = rotate()
    assert error < 1e-6, error
    facts = f"Python {platform.python_version()} on {platform.machine()}, NumPy {np.__version__}, {phasor.active_target()}, rotation within {error:.1e}"
    if sys.argv[1:] != ["module"]:
        assert "500,000" in run("explain", "llama3.1")  # its base
        facts += f", a picture of {draw()} bytes"
    print(f"wheel used: {facts}")


if __name__ == "__main__":
    main()
