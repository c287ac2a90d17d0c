# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings, in README.md and on the pages of docs do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import phasor

ROOT = Path(__file__).resolve().parents[3]
# phasor.onnx needs onnxscript, which has an environment of its own: tests/python/onnx/onnx_docs.py.
MODULES = sorted(m.name for m in pkgutil.walk_packages(phasor.__path__, "phasor.") if not m.name.startswith("phasor.onnx"))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(test: doctest.DocTest) -> int:
    """How many examples there were; fails with doctest's own report."""
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)
    return result.attempted


@pytest.mark.parametrize("name", ["phasor", *MODULES])
def test_docstrings_of(name: str) -> None:
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        run(test)


def test_public_classes_and_functions_that_compute_have_examples() -> None:
    finder = doctest.DocTestFinder()
    for thing in (phasor.Rotary, phasor.apply_rotary):
        assert sum(len(test.examples) for test in finder.find(thing)) > 0


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/spec-format.md", "docs/flex-attention.md"])
def test_examples_on(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = re.sub(r"^```.*$", "", (ROOT / page).read_text(), flags=re.MULTILINE)  # a fence would count as output
    assert run(doctest.DocTestParser().get_doctest(text, {}, page, page, 0)) > 0
