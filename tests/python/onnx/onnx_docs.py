# SPDX-License-Identifier: Apache-2.0
"""The snippets of docs/onnx.md and the examples of phasor.onnx: they run where onnxruntime is, here."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

import phasor.onnx._export

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_s_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/onnx.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/onnx.md", "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} >= {"block.onnx", "by_hand.onnx"}


def test_docstrings() -> None:
    result = doctest.testmod(phasor.onnx._export)
    assert result.attempted > 0 and result.failed == 0
