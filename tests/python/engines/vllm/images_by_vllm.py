# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL sees an image in vLLM, without the plugin, with it, and with exact angles: M-RoPE with positions that vLLM itself made of the image's
grid, and the rotation of the vision tower. Run by tools/python/engines_test.sh."""

from __future__ import annotations

import pytest
from engine_runs import FORWARDS, LAYERS_OF_A_MODEL, apart, run

CALLS = {"MRotaryEmbedding": FORWARDS * LAYERS_OF_A_MODEL, "ApplyRotaryEmb": 1}  # the tower's one layer turns q and k in one call


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    names = ["qwen2_vl", "qwen2_vl of other sections"]
    return run(folder, "", "eager", "native", names) | run(folder, "phasor", "eager", "vllm,exact", names[:1])


def test_same_bits_with_and_without(found):
    own, ours = found["qwen2_vl native"], found["qwen2_vl vllm"]
    assert own["calls"] == {} and ours["calls"] == CALLS
    assert ours["tokens"] == own["tokens"]
    assert ours["logprobs"] == own["logprobs"]  # hexadecimal: every bit


def test_axes_of_the_image_reach_the_log_probabilities(found):
    """Which axis turns which pair is all that differs: with equal positions on all axes, as text has them, nothing would."""
    own, other = (found[f"{name} native"] for name in ("qwen2_vl", "qwen2_vl of other sections"))
    assert own["logprobs"][0] != other["logprobs"][0]
    assert own["logprobs"][1] == other["logprobs"][1]  # the prompt without an image


def test_exact_is_near_at_small_positions(found):
    """Some roundings of float32 angles: far less than what the wrong axis for a third of the pairs does."""
    own, exact = found["qwen2_vl native"], found["qwen2_vl exact"]
    assert exact["calls"] == CALLS
    assert 0 < apart(own, exact) < apart(own, found["qwen2_vl of other sections native"]) / 1000
