# SPDX-License-Identifier: Apache-2.0
"""What vLLM gives to a compiler, run as it is and by Inductor, holds our operators. By tools/python/engines_test.sh --compiled, and not with the
other tests: it has not been seen to the end, on a machine where it had some seconds of a core in each minute."""

from __future__ import annotations

import pytest
from engine_runs import FORWARDS, LAYERS_OF_A_MODEL, run


@pytest.mark.parametrize("how", ["traced", "compiled"])
def test_graphs_hold_our_operators(tmp_path, how):
    """Once for each layer and step."""
    own = run(tmp_path, "", how, "native", ["plain"])["plain native"]
    found = run(tmp_path, "phasor", how, "vllm,exact", ["plain"])
    assert own["operators"] == {}
    for profile, operator in (("vllm", "phasor::rotary_tables"), ("exact", "phasor::rotary")):
        ours = found[f"plain {profile}"]
        assert ours["operators"] == {operator: FORWARDS * LAYERS_OF_A_MODEL}
        assert ours["tokens"] == own["tokens"]
