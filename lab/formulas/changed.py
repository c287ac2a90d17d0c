# SPDX-License-Identifier: Apache-2.0
"""What each change of a trained rotary model says, from its paper in float64: speeds of pairs, and distances as maps show them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lab.formulas.case import Array, Case, attended
from lab.formulas.rotary import ladder, turned


def scaled(case: Case, speeds: Array, amplitude: float = 1.0) -> Array:
    return attended(case, turned(case, speeds) * amplitude**2 / math.sqrt(case.width))


def linear(case: Case) -> Array:
    return scaled(case, ladder(case.width) / case.factor)


def of_base(case: Case, alpha: float) -> Array:
    """NTK: the base grows so that the slowest pair is slowed by alpha."""
    return scaled(case, ladder(case.width, 10000.0 * alpha ** (case.width / (case.width - 2))))


def ntk_fixed(case: Case) -> Array:
    """Su: the base times the factor, then every speed times factor^(-2/D)."""
    return scaled(case, ladder(case.width, 10000.0 * case.factor) * case.factor ** (-2 / case.width))


def ntk_mixed(case: Case, b: float = 0.625) -> Array:
    """Su: speed i times exp(-a i^b), i from 1 on, so that the last is slowed by the factor."""
    pairs = case.width // 2
    a = math.log(case.factor) / pairs**b
    return scaled(case, ladder(case.width) * np.exp(-a * (np.arange(pairs) + 1) ** b))


def yarn(case: Case) -> Array:
    """A ramp by pairs between those that turn 32 times in the trained length (kept) and once (slowed); q and k times 0.1 ln s + 1."""

    def pair_of(turns: float) -> float:
        return case.width * math.log(case.length / (turns * 2 * math.pi)) / (2 * math.log(10000.0))

    low, high = max(math.floor(pair_of(32)), 0), min(math.ceil(pair_of(1)), case.width - 1)
    slowed = np.clip((np.arange(case.width // 2) - low) / max(high - low, 0.001), 0, 1)
    speeds = ladder(case.width)
    return scaled(case, speeds / case.factor * slowed + speeds * (1 - slowed), 0.1 * math.log(case.factor) + 1)


def llama3(case: Case) -> Array:
    """By wavelength: below L / 4 kept, above L slowed, in between by a share that is linear in L / wavelength."""
    speeds = ladder(case.width)
    turns = case.length * speeds / (2 * math.pi)
    kept = np.clip((turns - 1) / (4 - 1), 0, 1)
    return scaled(case, speeds * kept + speeds / case.factor * (1 - kept))


def longrope(case: Case) -> Array:
    """A factor for each pair; q and k times sqrt(1 + ln s / ln L)."""
    if len(case.factors) != case.width // 2:
        raise KeyError("factors of LongRoPE")
    return scaled(case, ladder(case.width) / np.array(case.factors), math.sqrt(1 + math.log(case.factor) / math.log(case.length)))


def mapped(case: Case, away: Array) -> Array:
    return attended(case, turned(case, ladder(case.width), away=away) / math.sqrt(case.width))


def rerope(case: Case) -> Array:
    return mapped(case, np.minimum(case.away, case.length // 2))


def leaky(case: Case) -> Array:
    window, squeeze = case.length // 2, 2 * case.factor - 1
    return mapped(case, np.where(case.away < window, case.away, window + (case.away - window) / squeeze))


def self_extend(case: Case) -> Array:
    window, group = case.length // 2, math.ceil(2 * case.factor - 1)
    at = np.arange(len(case.x)) // group
    return mapped(case, np.where(case.away < window, case.away, at[:, None] - at[None, :] + window - window // group))


def dual_chunk(case: Case) -> Array:
    """Chunks of 3/4 of the trained length c. Keys are at their place in the chunk; queries at theirs for their own chunk, one chunk later but not
    beyond c - 1 for the chunk before, at c - 1 for all others."""
    size, longest = case.length - case.length // 4, case.length - 1
    at = np.arange(len(case.x))
    place, chunk = at % size, at // size
    apart = chunk[:, None] - chunk[None, :]
    query = np.where(apart == 0, place[:, None], np.where(apart == 1, np.minimum(place[:, None] + size, longest), longest))
    return mapped(case, query - place[None, :])


CHANGED: dict[str, Callable[[Case], Array]] = {
    "linear": linear,
    "ntk": lambda case: of_base(case, case.factor),
    "ntk dynamic": lambda case: of_base(case, 2 * case.factor - 1),
    "ntk fixed": ntk_fixed,
    "ntk mixed": ntk_mixed,
    "yarn": yarn,
    "llama3": llama3,
    "longrope": longrope,
    "rerope": rerope,
    "leaky rerope": leaky,
    "self-extend": self_extend,
    "dual chunk": dual_chunk,
}
