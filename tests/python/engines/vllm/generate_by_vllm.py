# SPDX-License-Identifier: Apache-2.0
"""Tiny models generate by vLLM without the plugin, with it, and with exact angles: tokens and log-probabilities are compared by their bits, and
our calls are counted. vLLM finds the plugin itself, by its entry point. Run by tools/python/engines_test.sh."""

from __future__ import annotations

import models
import pytest
from engine_runs import FORWARDS, LAYERS_OF_A_MODEL, apart, run


@pytest.fixture(scope="module")
def eager(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    names = list(models.MODELS)
    return run(folder, "", "eager", "native", names) | run(folder, "phasor", "eager", "vllm,exact", names)


@pytest.mark.parametrize("name", models.MODELS)
def test_same_bits_with_and_without(eager, name):
    """Ours by all that an unchanged vLLM calls, beside vLLM's own forward_native, whose roundings in float32 are those of ours. Not beside
    vLLM's kernel, which fuses a product (layers_of_vllm.py compares that): no tolerance is needed here."""
    own, ours = eager[f"{name} native"], eager[f"{name} vllm"]
    assert own["calls"] == {} and ours["calls"] == {models.LAYERS[name]: FORWARDS * LAYERS_OF_A_MODEL}
    assert ours["tokens"] == own["tokens"]
    assert ours["logprobs"] == own["logprobs"]  # hexadecimal: every bit


@pytest.mark.parametrize("name", models.MODELS)
def test_exact_is_near_at_small_positions(eager, name):
    """A float32 angle is off by some three roundings of 6e-8: the frequency's, the product's, the cosine's. The yardstick is what angles that
    are smaller by a thousandth do to a model of this size, 5000 times as much. A thousandth of that is asked: models differ by some times."""
    own, exact = eager[f"{name} native"], eager[f"{name} exact"]
    assert exact["calls"] == {models.LAYERS[name]: FORWARDS * LAYERS_OF_A_MODEL}
    assert 0 < apart(own, exact) < apart(eager["plain native"], eager["nearly native"]) / 1000


def test_positions_reach_the_log_probabilities(eager):
    """Else nothing above could fail: the same weights, with positions divided by 1.001, and with axes of their own."""
    assert apart(eager["plain native"], eager["nearly native"]) > 0
    assert eager["plain native"]["logprobs"] != eager["mrope native"]["logprobs"]
