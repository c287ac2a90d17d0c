# SPDX-License-Identifier: Apache-2.0
"""LongRoPE's evolution (arXiv 2402.13753, algorithm 1) on lists of steps that never fall: mutation and crossover keep that order by themselves."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Individual = tuple[int, ...]  # the factor of each pair in steps above 1, then the number of the choice of kept tokens
_TRIES = 100  # to find an individual that is not known yet, before one fewer will do


@dataclass(frozen=True)
class Space:
    """What individuals may be: steps 0 to `most` for each of the pairs, and one of `choices`."""

    most: int
    choices: int
    probability: float  # of a mutation, for each number


def _below(rng: random.Random, count: int) -> int:
    """One of count numbers. By random() alone, whose numbers Python promises to stay the same."""
    return int(rng.random() * count)


def mutated(parent: Individual, space: Space, rng: random.Random) -> Individual:
    """Some factors drawn again, each between its neighbours, so that none is greater than the next."""
    steps = list(parent[:-1])
    order = list(range(len(steps)))
    for i in order if rng.random() < 0.5 else reversed(order):  # from the last one on, lists of equal factors can rise, from the first fall
        if rng.random() < space.probability:
            low = steps[i - 1] if i else 0
            high = steps[i + 1] if i + 1 < len(steps) else space.most
            steps[i] = low + _below(rng, high - low + 1)
    choice = _below(rng, space.choices) if rng.random() < space.probability else parent[-1]
    return (*steps, choice)


def crossed(one: Individual, other: Individual, rng: random.Random) -> Individual:
    """Each factor of one parent or the other; where that would fall, the factor before it."""
    steps: list[int] = []
    for a, b in zip(one[:-1], other[:-1]):
        steps.append(max(a if rng.random() < 0.5 else b, steps[-1] if steps else 0))
    return (*steps, one[-1] if rng.random() < 0.5 else other[-1])


def fresh(make: Callable[[], Individual], known: set[Individual]) -> Individual | None:
    """An individual that was not there before, by `make`; None where none is found soon."""
    for _ in range(_TRIES):
        made = make()
        if made not in known:
            known.add(made)
            return made
    return None
