# SPDX-License-Identifier: Apache-2.0
"""The wheel with NumPy and nothing else: not collected with the other tests, run in an environment of its own (tools/python/python_test.sh)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phasor
from phasor.__main__ import tool


def test_pytorch_is_not_here() -> None:
    for name in ("torch", "transformers", "jax", "matplotlib", "ml_dtypes"):
        assert importlib.util.find_spec(name) is None
    assert "torch" not in sys.modules


def test_what_needs_jax_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="phasor.jax: jax is not installed, wanted it: pip install jax"):
        import phasor.jax  # noqa: F401


def test_q_and_k_are_rotated_as_float64_says() -> None:
    rope = phasor.Rotary(head_dim=16, base=1e4)
    q = np.random.default_rng(0).standard_normal((5, 3, 16))
    k = q[:, :1].copy()
    angles = np.arange(7, 12)[:, None] * rope.frequencies  # (T, P)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    wanted = np.concatenate([q[..., :8] * cos - q[..., 8:] * sin, q[..., :8] * sin + q[..., 8:] * cos], axis=-1)
    q_out, k_out = rope(q, k, 7)
    np.testing.assert_allclose(q_out, wanted, rtol=0, atol=1e-13)
    assert np.array_equal(k_out, q_out[:, :1])
    assert rope.apply_(q, positions=7) is q
    assert np.array_equal(q, q_out)


def test_tables_given_give_the_bits_of_positions_given() -> None:
    rope = phasor.Rotary(head_dim=16, pairing="interleaved", scaling=phasor.YarnScaling(factor=4, original_length=1024))
    q = np.ones((4, 2, 16), np.float32)
    assert np.array_equal(phasor.apply_rotary(q, None, *rope.cos_sin(np.arange(4)), pairing="interleaved"), rope(q))


def test_keys_move() -> None:
    rope = phasor.Rotary(head_dim=16)
    k = np.random.default_rng(1).standard_normal((4, 2, 16)).astype(np.float32)
    moved = rope.rerotate_(rope(k, positions=100), 100, 3)
    np.testing.assert_allclose(moved, rope(k, positions=3), atol=1e-6)


def test_positions_and_tables_may_be_lists() -> None:
    x, table = np.zeros((3, 8), np.float32), np.arange(40, dtype=np.float32).reshape(5, 8)
    sinusoid = phasor.Sinusoidal(8)
    assert np.array_equal(sinusoid.add_(x.copy(), [0, 1, 2]), sinusoid(np.arange(3)))
    assert np.array_equal(phasor.lookup_add(x, table, [0, 1, 2]), table[:3])
    assert np.array_equal(phasor.lookup_add_(x.copy(), table, (0, 1, 2)), table[:3])
    assert np.array_equal(phasor.scatter_gradient_(np.zeros((5, 8), np.float32), table[:3], [0, 1, 2])[:3], table[:3])
    halves = [table[:, :4], table[:, 4:]]  # one for each axis of the positions
    assert np.array_equal(phasor.lookup_add(x[None], halves, np.array([[[0, 1, 2]]] * 2))[0], table[:3])


def test_configs_are_read_and_explained() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 2048,
        "rope_theta": 5e5,
    }
    assert phasor.Rotary.from_config(config).base == 5e5
    assert phasor.Rotary.from_config(json.dumps(config)).head_dim == 16
    assert "500000" in phasor.explain(config).replace(",", "")


def test_what_needs_pytorch_says_so() -> None:
    for name in ("nn", "hf"):
        with pytest.raises(ModuleNotFoundError, match=f"phasor.{name}: torch is not installed, wanted it: pip install torch"):
            getattr(phasor, name)


def test_attention_with_a_scheme_is_its_sum() -> None:
    q, k, v = np.random.default_rng(1).standard_normal((3, 1, 6, 2, 4))
    distance = np.arange(6)[:, None] - np.arange(6)
    scores = np.einsum("bihd,bjhd->bhij", q, k) / 2 - phasor.alibi_slopes(2)[:, None, None] * np.abs(distance)
    weights = np.exp(np.where(distance >= 0, scores, -np.inf))
    wanted = np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)
    out, lse = phasor.attention(q, k, v, scheme=phasor.Alibi(), causal=True, return_lse=True)
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)
    np.testing.assert_allclose(lse, np.log(weights.sum(-1)).transpose(0, 2, 1), rtol=0, atol=1e-13)


def test_the_tool_says_that_matplotlib_is_missing(tmp_path: Path) -> None:
    command = [tool(), "plot", "decay", "--out", tmp_path / "a.svg"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": "/nowhere"})
    assert done.returncode == 1 and "(No module named 'matplotlib'), wanted one of the two" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []
