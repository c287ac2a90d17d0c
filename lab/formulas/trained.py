# SPDX-License-Identifier: Apache-2.0
"""What each label says, written from its paper in float64 with all scores in memory. Nothing here is shared with lab/encodings or the library."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lab.formulas.case import Array, Case, attended, biased, plain, products, weighted
from lab.formulas.rotary import rotary, three_of_four, xpos


def sinusoids(position: Array, width: int) -> tuple[Array, Array]:
    """Sines and cosines (T, W / 2) of position / 10000^(2i / W)."""
    angle = position[:, None] / 10000.0 ** (2 * np.arange(width // 2) / width)
    return np.sin(angle), np.cos(angle)


def sinusoidal(case: Case) -> Array:
    sines, cosines = sinusoids(np.arange(len(case.x)), case.x.shape[1])
    added = np.stack([sines, cosines], axis=-1).reshape(case.x.shape)
    return plain(case, case.x + added)


def learned(case: Case) -> Array:
    return plain(case, case.x + case.learned["module.weight"][: len(case.x)])


def hierarchical(case: Case) -> Array:
    """Su: with u_i = (p_i - a p_0) / (1 - a), row i n + j of the longer table is a u_i + (1 - a) u_j; a = 0.4."""
    table, alpha = case.learned["module.weight"], 0.4
    u = (table - alpha * table[0]) / (1 - alpha)
    rows = [alpha * u[p // len(table)] + (1 - alpha) * u[p % len(table)] for p in range(len(case.x))]
    return plain(case, case.x + np.stack(rows))


def alibi(case: Case) -> Array:
    """Slopes 2^(-8/H), 2^(-16/H), ..., of a power of two of heads."""
    slopes = 2.0 ** (-8 * (np.arange(case.heads) + 1) / case.heads)
    return biased(case, -slopes[:, None, None] * np.abs(case.away))


def t5_bucket(distance: int, buckets: int, most: int) -> int:
    """Of a key at or behind its query: half of the buckets for a distance each, the others in equal ratios."""
    exact = buckets // 2
    if distance < exact:
        return max(distance, 0)
    return min(exact + int(math.log(distance / exact) / math.log(most / exact) * (buckets - exact)), buckets - 1)


def t5(case: Case) -> Array:
    table = case.learned["table"]
    rows = np.vectorize(lambda distance: t5_bucket(distance, table.shape[1], case.length))(case.away)
    return biased(case, table[:, rows])


def kerple(case: Case) -> Array:
    r1, r2 = (case.of(name)[:, None, None] for name in ("r1", "r2"))
    return biased(case, -r1 * np.log(1 + r2 * np.abs(case.away)))


def fire(case: Case) -> Array:
    """f(psi(i - j) / psi(max(L, i))), psi(x) = ln(c x + 1)."""
    c = case.of("c")
    query = np.arange(len(case.x))[:, None]
    at = np.log(c * np.maximum(case.away, 0) + 1) / (np.log(c * np.maximum(case.length, query) + 1) + 1e-6)
    hidden = np.maximum(at[..., None] * case.of("hidden.weight")[:, 0] + case.of("hidden.bias"), 0)
    return biased(case, np.moveaxis(hidden @ case.of("out.weight").T + case.of("out.bias"), -1, 0))


def sandwich(case: Case) -> Array:
    """H / (8 (h + 1)) times the sum over 64 pairs of cos((i - j) / 10000^(2 p / 128))."""
    pairs = np.cos(case.away[..., None] / 10000.0 ** (2 * np.arange(64) / 128)).sum(-1)
    return biased(case, (case.heads / (8 * (np.arange(case.heads) + 1)))[:, None, None] * pairs)


def shaw(case: Case, clip: int = 16) -> Array:
    """q . (k + a[clip(j - i)]), and values likewise where there are some."""
    rows = np.clip(-case.away, -clip, 0) + clip
    q = case.projected(case.wq)
    by_row = np.einsum("ihd,rd->hir", q, case.learned["keys"][case.layer])
    there = np.broadcast_to(rows, (case.heads, *rows.shape))
    scores = (products(case) + np.take_along_axis(by_row, there, axis=2)) / math.sqrt(case.width)
    out = attended(case, scores)
    if "values" in case.learned:
        out = out + np.einsum("hij,ijd->ihd", weighted(case, scores), case.learned["values"][case.layer][rows])
    return out


def keys_only(case: Case) -> Array:
    if "values" in case.learned:
        raise KeyError("values of Shaw, where keys alone are said")
    return shaw(case)


def keys_and_values(case: Case) -> Array:
    case.learned["values"]  # must be there
    return shaw(case)


def transformer_xl(case: Case) -> Array:
    """(q + u) . k + (q + v) . W_r [sin | cos](i - j)."""
    width = case.heads * case.width
    sines, cosines = sinusoids(np.arange(len(case.x)), width)
    rows = (np.concatenate([sines, cosines], axis=1) @ case.of("projection.weight").T).reshape(len(case.x), case.heads, -1)
    q, k = case.projected(case.wq), case.projected(case.wk)
    by_content = np.einsum("ihd,jhd->hij", q + case.of("u"), k)
    by_place = np.einsum("ihd,rhd->hir", q + case.of("v"), rows)
    there = np.broadcast_to(np.maximum(case.away, 0), by_content.shape)
    return attended(case, (by_content + np.take_along_axis(by_place, there, axis=2)) / math.sqrt(case.width))


def deberta_bucket(distance: int, buckets: int, most: int) -> int:
    middle = buckets // 2
    if abs(distance) <= middle:
        return distance
    ratio = math.log(abs(distance) / middle) / math.log((most - 1) / middle)
    return int(math.copysign(math.ceil(ratio * (middle - 1)) + middle, distance))


def deberta(case: Case) -> Array:
    """(q_i . k_j + q_i . K[row] + k_j . Q[row]) / sqrt(3 D), row by the bucket of i - j."""
    buckets = case.of("rows").shape[0] // 2
    row = np.vectorize(lambda distance: deberta_bucket(distance, buckets, case.length))(np.maximum(case.away, 0)) + buckets
    row = np.clip(row, 0, 2 * buckets - 1)
    tables = [
        (case.of("rows") @ case.of(f"{name}.weight").T + case.of(f"{name}.bias")).reshape(2 * buckets, case.heads, -1) for name in ("keys", "queries")
    ]
    q, k = case.projected(case.wq), case.projected(case.wk)
    by_key = np.einsum("ihd,ijhd->hij", q, tables[0][row])
    by_query = np.einsum("jhd,ijhd->hij", k, tables[1][row])
    return attended(case, (products(case) + by_key + by_query) / math.sqrt(3 * case.width))


def cope(case: Case) -> Array:
    """Positions are sums of gates from the key to the query; between two rows it interpolates."""
    table = case.learned["table"][case.layer]
    scaled = products(case) / math.sqrt(case.width)
    gates = np.where(case.away >= 0, 1 / (1 + np.exp(-scaled)), 0.0)
    position = np.minimum(np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1], len(table) - 1)
    by_row = np.einsum("ihd,rd->hir", case.projected(case.wq), table)
    low, high = np.floor(position).astype(int), np.ceil(position).astype(int)
    share = position - low
    return attended(case, scaled + np.take_along_axis(by_row, low, 2) * (1 - share) + np.take_along_axis(by_row, high, 2) * share)


FORMULAS: dict[str, Callable[[Case], Array]] = {
    "none": plain,
    "sinusoidal": sinusoidal,
    "learned": learned,
    "hierarchical": hierarchical,
    "alibi": alibi,
    "t5": t5,
    "kerple": kerple,
    "fire": fire,
    "sandwich": sandwich,
    "shaw": keys_only,
    "shaw values": keys_and_values,
    "transformer-xl": transformer_xl,
    "deberta": deberta,
    "cope": cope,
    "xpos": xpos,
    "rotary": rotary,
    "rotary bf16 tables": rotary,  # how they round is another matter: lab/identity.py
    "rotary 500000": lambda case: rotary(case, base=500000.0),
    "rotary quarter": lambda case: rotary(case, share=4),
    "rotary adjacent": lambda case: rotary(case, adjacent=True),
    "rotary 3 of 4": three_of_four,
}
