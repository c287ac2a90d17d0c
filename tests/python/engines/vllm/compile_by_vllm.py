# SPDX-License-Identifier: Apache-2.0
"""vLLM's compiled mode, its default: graphs by Inductor hold our operators, and give what vLLM's own give. Run by tools/python/engines_test.sh."""

from __future__ import annotations

import pytest
from engine_runs import FORWARDS, LAYERS_OF_A_MODEL, apart, run

NAMES = ["plain", "deepseek"]  # one that vLLM turns by a kernel, one that it turns by PyTorch's operations
OPERATORS = {"vllm": "phasor::rotary_tables", "exact": "phasor::rotary"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    return run(folder, "", "compiled", "native", [*NAMES, "nearly"]) | run(folder, "phasor", "compiled", "vllm,exact", NAMES)


@pytest.mark.parametrize("profile", OPERATORS)
@pytest.mark.parametrize("name", NAMES)
def test_graphs_hold_our_operators(compiled, name, profile):
    """Once for each layer and step, by a profiler: Python is not asked any more. Inductor may fuse a product of vLLM's own rotation, so bits may
    differ by compiler; the bound is that of generate_by_vllm.py."""
    own, ours = compiled[f"{name} native"], compiled[f"{name} {profile}"]
    assert own["operators"] == own["calls"] == ours["calls"] == {}
    assert ours["operators"] == {OPERATORS[profile]: FORWARDS * LAYERS_OF_A_MODEL}
    assert ours["tokens"] == own["tokens"]
    assert apart(own, ours) < apart(compiled["plain native"], compiled["nearly native"]) / 1000
