# SPDX-License-Identifier: Apache-2.0
"""T5's attention by its definition in double precision, with NumPy and loops over pairs: nothing of phasor. And how far float32 may be from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def bucket(distance: int, buckets: int, farthest: int) -> int:
    """T5's bucket of query - key, both directions, by whole numbers: no logarithm decides an edge."""
    half = buckets // 2
    first = half if distance < 0 else 0
    near = half // 2
    n = abs(distance)
    if n < near:
        return first + n
    steps = half - near
    # The greatest s with (n / near)^steps >= (farthest / near)^s.
    reached = [s for s in range(steps) if n**steps * near ** (s) >= farthest**s * near**steps]
    return first + near + max(reached)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray, do: np.ndarray) -> dict[str, Any]:
    """out and every gradient of causal T5 attention, (T, H, D); and of each the sum of magnitudes of what is added up in it."""
    tokens, heads, width = q.shape
    scale = 1 / math.sqrt(width)
    made = {name: np.zeros_like(x) for name, x in (("out", do), ("q", q), ("k", k), ("v", v), ("table", table))}
    sizes = {name: np.zeros_like(x) for name, x in made.items()}
    greatest = 0.0
    for h in range(heads):
        for i in range(tokens):
            row = [bucket(i - j, table.shape[1], 128) for j in range(i + 1)]
            scores = np.array([scale * q[i, h] @ k[j, h] + table[h, row[j]] for j in range(i + 1)])
            sizes_of = [scale * np.abs(q[i, h]) @ np.abs(k[j, h]) + abs(table[h, row[j]]) for j in range(i + 1)]
            greatest = max(greatest, *sizes_of)
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            products = np.array([do[i, h] @ v[j, h] for j in range(i + 1)])
            of_products = np.array([np.abs(do[i, h]) @ np.abs(v[j, h]) for j in range(i + 1)])
            mean, of_mean = weights @ products, weights @ of_products
            for j in range(i + 1):
                by_score, of_score = weights[j] * (products[j] - mean), weights[j] * (of_products[j] + of_mean)
                made["out"][i, h] += weights[j] * v[j, h]
                made["q"][i, h] += scale * by_score * k[j, h]
                made["k"][j, h] += scale * by_score * q[i, h]
                made["v"][j, h] += weights[j] * do[i, h]
                made["table"][h, row[j]] += by_score
                sizes["out"][i, h] += weights[j] * np.abs(v[j, h])
                sizes["q"][i, h] += scale * of_score * np.abs(k[j, h])
                sizes["k"][j, h] += scale * of_score * np.abs(q[i, h])
                sizes["v"][j, h] += weights[j] * np.abs(do[i, h])
                sizes["table"][h, row[j]] += of_score
    return {"made": made, "sizes": sizes, "greatest": greatest}


def roundings(tokens: int, width: int, greatest: float, parts: int) -> float:
    """How many halves of a unit in the last place what is summed may be off, relative to its magnitude.

    A score of magnitude S has width + 3 roundings, twice (as a score, and in lse), which weights have in full: 2 S (width + 3). An exponential and the
    quotient: 8. A product of do and v: width. A sum over tokens: tokens. Then parts.
    """
    return 2 * greatest * (width + 3) + 8 + 2 * width + 2 * tokens + of_parts(parts, greatest, tokens)


def of_parts(parts: int, greatest: float, tokens: int) -> float:
    """The same for parts that are merged one after the other.

    A merge rounds an output, 1, and the difference of two lse, whose magnitudes are at most S + log(tokens): it is the exponent of their weights. In
    gradients a part that is added is 1 more.
    """
    return parts * (2 + 2 * (greatest + math.log(max(tokens, 2))))
