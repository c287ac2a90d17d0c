# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: which phasor is tested, seeds, and the number of threads as it was."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phasor

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")  # read when JAX first computes: with_jax/test_jax_sharding.py

try:
    from settled import settle
except ImportError:  # NumPy alone
    pass
else:
    settle()  # before any test: what two runs are compared for must not depend on the tests before


def pytest_configure(config: pytest.Config) -> None:
    """A function that falls back where it is not expected to is an error: its answer is the model's own, which no comparison would find."""
    config.addinivalue_line("filterwarnings", "error:phasor.hf:UserWarning")


def pytest_report_header() -> str:
    names = ("torch", "transformers", "numpy", "jax")
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"] in names}
    return f"phasor from {phasor.__path__[0]}; " + ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests found out besides passing: their property `note`."""
    notes = [text for report in terminalreporter.getreports("passed") for name, text in report.user_properties if name == "note"]
    if notes:
        terminalreporter.section("notes")
        for note in sorted(set(notes)):  # a report of the call and one of the teardown have it
            terminalreporter.write_line("  " + note)


@pytest.fixture(autouse=True)
def same_start() -> Iterator[None]:
    """Every test begins with the same random numbers and leaves the number of threads as it was."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
        before = torch.get_num_threads()
    yield
    phasor.set_num_threads(0)
    if torch is not None and torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
