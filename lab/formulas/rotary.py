# SPDX-License-Identifier: Apache-2.0
"""What rotary labels say: pairs of channels as complex numbers that are turned by their distance."""

from __future__ import annotations

import math

import numpy as np

from lab.formulas.case import Array, Case, attended, plain


def ladder(width: int, base: float = 10000.0) -> Array:
    return base ** (-2 * np.arange(width // 2) / width)


def turned(case: Case, speeds: Array, away: Array | None = None, adjacent: bool = False, gain: Array | float = 1.0) -> Array:
    """Scores of rotary encoding, unscaled: pairs as complex numbers, turned by speed times distance; `gain` (T, T, P) multiplies them.
    Channels beyond the pairs meet as they are."""
    q, k = case.projected(case.wq), case.projected(case.wk)
    pairs = len(speeds)

    def complex_of(x: Array) -> Array:
        first, second = (x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]) if adjacent else (x[..., :pairs], x[..., pairs : 2 * pairs])
        return first + 1j * second

    away = case.away if away is None else away
    turn = np.exp(1j * away[..., None] * speeds) * gain
    scores = np.einsum("ihp,jhp,ijp->hij", complex_of(q), complex_of(k).conj(), turn).real
    return scores + np.einsum("ihd,jhd->hij", q[..., 2 * pairs :], k[..., 2 * pairs :])


def rotary(case: Case, base: float = 10000.0, share: int = 1, adjacent: bool = False) -> Array:
    return attended(case, turned(case, ladder(case.width // share, base), adjacent=adjacent) / math.sqrt(case.width))


def three_of_four(case: Case) -> Array:
    return plain(case) if case.layer % 4 == 3 else rotary(case)


def xpos(case: Case) -> Array:
    """Pair p decays by ((2p / D + 0.4) / 1.4)^((i - j) / L)."""
    zeta = (2 * np.arange(case.width // 2) / case.width + 0.4) / 1.4
    gain = zeta ** (np.maximum(case.away, 0)[..., None] / case.length)
    return attended(case, turned(case, ladder(case.width), gain=gain) / math.sqrt(case.width))
