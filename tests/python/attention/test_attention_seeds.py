# SPDX-License-Identifier: Apache-2.0
"""The seeds end to end: from tokens x through projections, positions and softmax to o, against loops in float64 that follow their formulas.

Without an encoding, permuting the tokens permutes the outputs; with each encoding it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import phasor

N, H, D = 11, 2, 6
WIDTH = H * D
LEAST, MOST = -2, 3  # p_min and p_max of clip(i - j, p_min, p_max)
Array = np.ndarray

RNG = np.random.default_rng(7)
X = RNG.standard_normal((N, WIDTH))
W_Q, W_K, W_V = (RNG.standard_normal((WIDTH, WIDTH)) / math.sqrt(WIDTH) for _ in range(3))
LEARNED = RNG.standard_normal((N, WIDTH))
P_K, P_V = (RNG.standard_normal((MOST - LEAST + 1, D)) for _ in range(2))  # row d - p_min: distance d
T5_TABLE = RNG.standard_normal((H, 8))
ROTARY = phasor.Rotary(head_dim=D, pairing="interleaved")


# ---- The formulas, spelled out ----


@dataclass
class Formula:
    """What an encoding does at each step; the loops below do the rest."""

    position: Callable[[int], Array] = lambda i: np.zeros(WIDTH)  # p_i, added to x_i
    turn: Callable[[Array, int], Array] = lambda y, i: y  # q_i and k_i of a head
    key_row: Callable[[int, int], Array] = lambda i, j: np.zeros(D)  # R^K_ij
    value_row: Callable[[int, int], Array] = lambda i, j: np.zeros(D)  # R^V_ij
    bias: Callable[[int, int, int], float] = lambda h, i, j: 0.0
    scale: float = 1 / math.sqrt(D)


def loops(f: Formula, x: Array) -> Array:
    """o (N, H, D) by the seeds' sums."""
    tokens = [x[i] + f.position(i) for i in range(N)]
    out = np.zeros((N, H, D))
    for h in range(H):
        part = slice(h * D, (h + 1) * D)
        q = [f.turn((t @ W_Q)[part], i) for i, t in enumerate(tokens)]
        k = [f.turn((t @ W_K)[part], i) for i, t in enumerate(tokens)]
        v = [(t @ W_V)[part] for t in tokens]
        for i in range(N):
            weights = []
            for j in range(N):
                score = sum(q[i][c] * (k[j][c] + f.key_row(i, j)[c]) for c in range(D)) * f.scale + f.bias(h, i, j)
                weights.append(math.exp(score))
            for j in range(N):
                out[i, h] += weights[j] / sum(weights) * (v[j] + f.value_row(i, j))
    return out


def sinusoid(i: int) -> Array:
    """p_i: sin and cos in turn, frequencies 10000^(-2t / d)."""
    row = np.zeros(WIDTH)
    for t in range(WIDTH // 2):
        angle = i / 10000 ** (2 * t / WIDTH)
        row[2 * t], row[2 * t + 1] = math.sin(angle), math.cos(angle)
    return row


def turned(y: Array, i: int) -> Array:
    """Each pair of channels as a complex number, times e^(i m theta)."""
    pairs = y[0::2] + 1j * y[1::2]
    pairs = pairs * np.exp(1j * i * 10000.0 ** (-np.arange(D // 2) * 2 / D))
    return np.stack([pairs.real, pairs.imag], -1).reshape(-1)


def clipped(table: Array) -> Callable[[int, int], Array]:
    return lambda i, j: table[min(max(i - j, LEAST), MOST) - LEAST]


def t5_bucket(i: int, j: int, half: int = 4, farthest: int = 6) -> int:
    """T5's: keys ahead in the second half, distances below half / 2 exact, further ones by logarithms."""
    exact, distance = half // 2, abs(i - j)
    far = min(half - 1, exact + int(math.log(max(distance, 1) / exact) / math.log(farthest / exact) * (half - exact)))
    return (half if j > i else 0) + (distance if distance < exact else far)


FORMULAS = {
    "none": Formula(),
    "sinusoidal": Formula(position=sinusoid),
    "learned": Formula(position=lambda i: LEARNED[i]),
    "rotary": Formula(turn=turned),
    "Shaw's keys": Formula(key_row=clipped(P_K)),
    "Shaw's keys and values": Formula(key_row=clipped(P_K), value_row=clipped(P_V)),
    "the general form, scale 1": Formula(key_row=clipped(P_K), value_row=clipped(P_V), scale=1.0),
    "T5, scale 1": Formula(bias=lambda h, i, j: T5_TABLE[h, t5_bucket(i, j)], scale=1.0),
    "ALiBi": Formula(bias=lambda h, i, j: -(2.0 ** (-8 * (h + 1) / H)) * abs(i - j)),
}


# ---- The same with phasor ----


def shaw(values: bool) -> phasor.Shaw:
    """Tables by distance, as the seeds have them, turned into rows by key - query, as Shaw has them."""
    return phasor.Shaw(P_K[::-1].copy(), P_V[::-1].copy() if values else None, left=MOST, right=-LEAST)


def project(x: Array) -> list[Array]:
    return [(x @ w).reshape(N, H, D) for w in (W_Q, W_K, W_V)]


def rotated(x: Array) -> Array:
    q, k, v = project(x)
    q, k = ROTARY(q, k)
    return phasor.attention(q, k, v)


ATTENTION: dict[str, list[Callable[[Array], Array]]] = {
    "none": [lambda x: phasor.attention(*project(x))],
    "sinusoidal": [lambda x: phasor.attention(*project(x + phasor.sinusoidal(np.arange(N), WIDTH, dtype=np.float64)))],
    "learned": [lambda x: phasor.attention(*project(phasor.lookup_add(x, LEARNED)))],
    "rotary": [rotated, lambda x: phasor.attention(*project(x), phasor.Rope(ROTARY))],  # before attention, or inside
    "Shaw's keys": [lambda x: phasor.attention(*project(x), shaw(False))],
    "Shaw's keys and values": [lambda x: phasor.attention(*project(x), shaw(True))],
    "the general form, scale 1": [lambda x: phasor.attention(*project(x), shaw(True), scale=1.0)],
    "T5, scale 1": [lambda x: phasor.attention(*project(x), phasor.T5(T5_TABLE, max_distance=6), scale=1.0)],
    "ALiBi": [lambda x: phasor.attention(*project(x), phasor.Alibi())],
}


@pytest.mark.parametrize("name", FORMULAS)
def test_from_tokens_to_outputs_it_is_the_sum_of_the_seeds(name):
    want = loops(FORMULAS[name], X)
    for attend in ATTENTION[name]:
        np.testing.assert_allclose(attend(X), want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", FORMULAS)
def test_permuting_tokens_permutes_outputs_where_no_position_enters_and_nowhere_else(name):
    order = np.random.default_rng(3).permutation(N)
    for attend in ATTENTION[name]:
        apart = np.abs(attend(X[order]) - attend(X)[order]).max()
        if name == "none":
            assert apart < 1e-13
        else:
            assert apart > 1e-2


def test_values_are_not_rotated():
    """With one key the weight is 1, so that the output is the value itself, bit for bit, wherever it is."""
    q, k, v = (part[:1] for part in project(X))
    out = phasor.attention(q, k, v, phasor.Rope(ROTARY), query_positions=5, key_positions=3)
    np.testing.assert_array_equal(out, v)


def test_rotary_scores_know_distances_alone():
    q, k, v = project(X)
    near = phasor.attention(q, k, v, phasor.Rope(ROTARY), query_positions=0, key_positions=0)
    for first in (1, 1000, 10**6, 10**12):
        far = phasor.attention(q, k, v, phasor.Rope(ROTARY), query_positions=first, key_positions=first)
        np.testing.assert_allclose(far, near, atol=1e-13, rtol=0)
