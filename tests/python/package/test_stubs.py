# SPDX-License-Identifier: Apache-2.0
"""Types: the stub of the compiled core is what nanobind says of it today, and mypy agrees with the package and with who uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_stub_of_the_core_is_not_old(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, str(ROOT / "tools/python/python_stub.py"), str(fresh)], check=True)
    golden = ROOT / "python/phasor/_core.pyi"
    assert golden.read_text() == fresh.read_text(), "old: tools/python/python_dev.sh writes it again"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy found out once is not found out again."""
    return tmp_path_factory.mktemp("mypy")


def mypy(tmp_path: Path, cache: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--config-file", str(ROOT / "pyproject.toml"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    return done.stdout + done.stderr


CONSUMER = """
import numpy as np
import phasor

rope = phasor.Rotary(head_dim=64, base=5e5, scaling=phasor.Llama3Scaling(factor=8.0), pairing="half")
q, k = rope(np.ones((3, 2, 64)), np.ones((3, 1, 64)), positions=7)
width: int = rope.spec.rotary_width
amplitude: float = rope.amplitude
cos, sin = rope.cos_sin(np.arange(3))
phasor.set_num_threads(2)
out = phasor.attention(q, q, q, scheme=phasor.Alibi(), causal=True, window=(3, None))
"""
WRONG = """
import phasor

phasor.Rotary(head_dim="64")
phasor.set_num_threads("two")
phasor.Llama3Scaling(factor="8")
phasor.Rotary.from_nowhere()
phasor.attention(1, 2, 3, windoww=3)
"""


def test_who_uses_the_package_is_checked_by_its_types(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "consumer.py").write_text(CONSUMER)
    (tmp_path / "wrong.py").write_text(WRONG)
    assert "Success" in mypy(tmp_path, cache, "consumer.py")
    found = mypy(tmp_path, cache, "wrong.py")
    for line in (4, 5, 6, 7, 8):
        assert f"wrong.py:{line}: error" in found, found


def test_the_package_itself_passes_mypy(tmp_path: Path, cache: Path) -> None:
    found = mypy(tmp_path, cache, str(ROOT / "python/phasor"))
    assert "Success" in found, found
