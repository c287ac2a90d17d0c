# SPDX-License-Identifier: Apache-2.0
"""Tiny models generate by SGLang's engine (its scheduler in a process of its own) without the plugin, with it, and with exact angles: tokens and
log-probabilities are compared by their bits, and our calls are counted. SGLang finds the plugin itself, by its entry point. Run by
tools/python/sglang_test.sh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "vllm"))
import models  # noqa: E402

NAMES = ["yarn"]  # an engine takes half a minute of a core to start; layers_of_sglang.py has the other classes
STEPS, LAYERS_OF_A_MODEL = 4, 2  # a prompt of all requests in one step, then three more tokens each


def run(folder: Path, plugins: str, profile: str, names: list[str]) -> dict:
    out = folder / f"{plugins}-{profile}.json"
    changed = {"SGLANG_PLUGINS": plugins, "PHASOR_SGLANG_PROFILE": profile, "PHASOR_SEEN": str(folder / "seen.json"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "generate.py"), str(out), *(models.write(folder, name) for name in names)]
    ended = subprocess.run(command, env={**os.environ, **changed}, capture_output=True, text=True, timeout=1800, cwd=folder)
    assert out.exists(), (ended.stdout[-2000:], ended.stderr[-4000:])
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sglang")
    return {
        "own": run(folder, "none", "sglang", [*NAMES, "plain", "nearly"]),  # a name that no plugin has
        "sglang": run(folder, "phasor", "sglang", NAMES),
        "exact": run(folder, "phasor", "exact", NAMES),
    }


def values(one: dict) -> list[float]:
    """Of the tokens of each prompt, and the four greatest of each step, by rank."""
    prompts = [v for prompt, _ in one["logprobs"] for v in prompt if v is not None]
    return prompts + [v[0] for _, steps in one["logprobs"] for step in steps for v in step]


def apart(one: dict, other: dict) -> float:
    return max(abs(x - y) for x, y in zip(values(one), values(other), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_same_bits_with_and_without(found, name):
    own, ours = found["own"][name], found["sglang"][name]
    assert own["steps"] == ours["steps"] == STEPS
    assert own["calls"] == {} and ours["calls"] == {models.LAYERS[name]: STEPS * LAYERS_OF_A_MODEL}
    assert ours["tokens"] == own["tokens"] and ours["logprobs"] == own["logprobs"]


@pytest.mark.parametrize("name", NAMES)
def test_exact_is_near_at_small_positions(found, name):
    """As in generate_by_vllm.py: a thousandth of what angles smaller by a thousandth do, which is 5000 times what float32 angles are off by."""
    own, exact = found["own"][name], found["exact"][name]
    assert exact["calls"] == {models.LAYERS[name]: STEPS * LAYERS_OF_A_MODEL}
    assert 0 < apart(own, exact) < apart(found["own"]["plain"], found["own"]["nearly"]) / 1000
