# SPDX-License-Identifier: Apache-2.0
"""What training text shares with held-out text: runs of 50 tokens that are in both."""

from __future__ import annotations

import numpy as np

SHINGLE = 50


def shingles(tokens: np.ndarray) -> np.ndarray:
    """A 64-bit number for each run of SHINGLE tokens: equal runs have equal numbers, others (but for one pair in 2^63 or so) do not."""
    count = len(tokens) - SHINGLE + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    factors = np.random.default_rng(50).integers(1, 2**64, SHINGLE, np.uint64, endpoint=False) | np.uint64(1)
    spread = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # so that near ids are not near
    spread ^= spread >> np.uint64(29)
    found = np.zeros(count, np.uint64)
    for at, factor in enumerate(factors):
        found += spread[at : at + count] * factor
    return found


def shared(tokens: np.ndarray, known: np.ndarray) -> float:
    """The share of a text's runs that are among `known`, the sorted shingles of another."""
    own = shingles(tokens)
    if not len(own) or not len(known):
        return 0.0
    at = np.searchsorted(known, own).clip(max=len(known) - 1)
    return float((known[at] == own).mean())


def known(documents: list[np.ndarray]) -> np.ndarray:
    """The sorted shingles of several texts."""
    return np.unique(np.concatenate([shingles(one) for one in documents]))
