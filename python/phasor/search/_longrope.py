# SPDX-License-Identifier: Apache-2.0
"""LongRoPE's search: a factor for each pair, none greater than the next, by evolution from what PI, NTK and YaRN would do."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phasor._rotary import Rotary
from phasor._spec import LinearScaling, LongRopeScaling, NtkScaling, RotarySpec, Unscaled, YarnScaling, spec_to_json
from phasor.search._evaluate import Evaluation, Evaluations, Result, Spent
from phasor.search._evolution import Individual, Space, crossed, fresh, mutated
from phasor.search._progress import Shown, shown_by


@dataclass(frozen=True)
class _Factors:
    """Individuals as specs, and specs as individuals."""

    spec: RotarySpec
    factor: float
    original_length: int
    attention_factor: float | None
    step: float
    most: int  # steps

    @property
    def pairs(self) -> int:
        return Rotary.from_spec(self.spec).rotary_width // 2

    def scaled(self, individual: Individual) -> RotarySpec:
        factors = tuple(round(1 + steps * self.step, 9) for steps in individual[:-1])
        scaling = LongRopeScaling((1.0,) * len(factors), factors, self.original_length, self.factor, self.attention_factor, "long_factors")
        return replace(self.spec, scaling=scaling)

    def seed(self, scaling: Any) -> Individual:
        """What a scaling divides frequencies by, as the nearest steps."""
        plain, scaled = (Rotary.from_spec(replace(self.spec, scaling=one)).frequencies for one in (Unscaled(), scaling))
        steps = np.rint((plain / scaled - 1) / self.step).clip(0, self.most).astype(int)
        return (*np.maximum.accumulate(steps).tolist(), 0)

    def seeds(self) -> list[Individual]:
        """Positional interpolation, NTK and YaRN, as the paper begins with them."""
        found = [self.seed(one) for one in (LinearScaling(self.factor), NtkScaling(self.factor), YarnScaling(self.factor, self.original_length))]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class _Sizes:
    population: int
    parents: int
    mutations: int
    crossovers: int
    iterations: int

    def check(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < (0 if name in ("mutations", "crossovers") else 1):
                raise ValueError(f"search: {name} is {value!r}, wanted a whole number")
        if self.parents > self.population:
            raise ValueError(f"search: parents are {self.parents} of a population of {self.population}, wanted no more than that")

    @property
    def most(self) -> int:
        """Evaluations, if all individuals are found."""
        return self.population + self.iterations * (self.mutations + self.crossovers)


def _evolve(held: Evaluations, seeds: list[Individual], space: Space, sizes: _Sizes, rng: random.Random) -> None:
    """Until evaluations or iterations end."""
    population = seeds[: sizes.population]
    known = set(population)

    def pick(among: list[Individual]) -> Individual:
        return among[int(rng.random() * len(among))]

    def grown(count: int, make: Callable[[], Individual]) -> list[Individual]:
        found = (fresh(make, known) for _ in range(count))
        return [one for one in found if one is not None]

    population += grown(sizes.population - len(population), lambda: mutated(pick(seeds), space, rng))
    for individual in population:
        held.loss(individual)
    for _ in range(sizes.iterations):
        parents = sorted(population, key=held.loss)[: sizes.parents]  # a stable sort: of equals the older first
        children = grown(sizes.mutations, lambda: mutated(pick(parents), space, rng))
        children += grown(sizes.crossovers, lambda: crossed(pick(parents), pick(parents), rng))
        if not children:
            return  # nothing new is left
        for individual in children:
            held.loss(individual)
        population = parents + children


def longrope(
    loss: Callable[..., float],
    spec: RotarySpec,
    factor: float,
    original_length: int,
    *,
    population: int = 64,
    parents: int = 32,
    mutations: int = 16,
    crossovers: int = 16,
    iterations: int = 40,
    probability: float = 0.3,
    step: float = 0.01,
    most: float | None = None,
    kept_tokens: Sequence[int] | None = None,
    attention_factor: float | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    state: Any = None,
    progress: bool | Shown = False,
) -> Result:
    """LongRopeScaling for `factor` times the original length with the least loss(spec), by the evolution of LongRoPE's paper and its numbers.

    Factors are 1 to `most` (1.25 factor) in steps, never less than that of the pair before. kept_tokens: choices for the number of first
    tokens that stay unscaled (the paper's n-hat); the loss is then called as loss(spec, kept_tokens=n). evaluations: no more than so many.
    Losses that are not finite count as the worst. state: a file that is written after each evaluation; the same call goes on from there
    and ends with the same bits. progress: True for a bar on stderr, or a function of (done, at most, least loss).

    >>> import phasor, phasor.search
    >>> found = phasor.search.longrope(lambda spec: sum(spec.scaling.long_factors), phasor.RotarySpec(8), 4, 64, evaluations=40)
    >>> len(found.evaluations), found.loss < 16, found.spec.scaling.factor
    (40, True, 4)
    """
    sizes = _Sizes(population, parents, mutations, crossovers, iterations)
    sizes.check()
    choices = tuple(kept_tokens) if kept_tokens is not None else (0,)
    highest = 1.25 * factor if most is None else most
    _check_numbers(factor, step, highest, probability, choices, evaluations)
    made = _Factors(spec, factor, original_length, attention_factor, step, int((highest - 1) / step + 1e-9))
    seeds = made.seeds()
    settings = {"search": "longrope", "spec": spec_to_json(made.scaled(seeds[0])), "seed": seed, "step": step, "most": highest}
    settings |= {"probability": probability, "kept_tokens": list(choices), **vars(sizes)}

    def evaluate(individual: Individual) -> float:
        given = {} if kept_tokens is None else {"kept_tokens": choices[individual[-1]]}
        return loss(made.scaled(individual), **given)

    held = Evaluations(evaluate, sizes.most if evaluations is None else min(evaluations, sizes.most), settings, state, shown_by(progress))
    try:
        _evolve(held, seeds, Space(made.most, len(choices), probability), sizes, random.Random(seed))
    except Spent:
        pass
    found = held.best()
    all_of_them = tuple(Evaluation(made.scaled(one), value, choices[one[-1]]) for one, value in held.losses.items())
    return Result(made.scaled(found), held.losses[found], choices[found[-1]], all_of_them)


def _check_numbers(factor: float, step: float, highest: float, probability: float, choices: tuple[int, ...], evaluations: int | None) -> None:
    for name, value, fits, wanted in (
        ("factor", factor, factor >= 1, "at least 1"),
        ("step", step, step > 0, "more than 0"),
        ("most", highest, highest >= factor, f"at least the factor, {factor}"),
        ("probability", probability, 0 < probability <= 1, "more than 0 and at most 1"),
        ("kept_tokens", choices, bool(choices) and all(isinstance(n, int) and n >= 0 for n in choices), "numbers of tokens"),
        ("evaluations", evaluations, evaluations is None or evaluations >= 1, "at least 1"),
    ):
        if not fits:
            raise ValueError(f"search: {name} is {value!r}, wanted {wanted}")
