# SPDX-License-Identifier: Apache-2.0
"""Candidates and their losses: each evaluated once, remembered, and written down before the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasor.search import _state
from phasor.search._progress import Shown

Candidate = tuple[Any, ...]  # the numbers that are searched


@dataclass(frozen=True)
class Evaluation:
    """A candidate: its spec, how many tokens it keeps unscaled, and its loss."""

    spec: Any
    loss: float
    kept_tokens: int = 0


@dataclass(frozen=True)
class Result:
    """The best candidate, and all in the order in which they were evaluated."""

    spec: Any
    loss: float
    kept_tokens: int
    evaluations: tuple[Evaluation, ...]


class Spent(Exception):
    """No evaluation is left."""


def loss_of(value: Any) -> float:
    """What a callback returned, as a float: a number, or an array or tensor of one."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"search: the loss is a {type(value).__name__}, wanted a number") from None


class Evaluations:
    """Every loss so far. What is not finite counts as worse than everything else."""

    def __init__(self, evaluate: Callable[[Candidate], Any], most: int, settings: dict[str, Any], state: Any, shown: Shown) -> None:
        self._evaluate, self._most, self._settings, self._shown = evaluate, most, settings, shown
        self._path = None if state is None else Path(state)
        held = [] if self._path is None else _state.read(self._path, settings)
        self._before = {tuple(numbers): loss for numbers, loss in held}
        self.losses: dict[Candidate, float] = {}

    def loss(self, candidate: Candidate) -> float:
        """Of a candidate, for comparisons: infinity where it is not finite."""
        if candidate not in self.losses:
            if len(self.losses) == self._most:
                raise Spent
            self.losses[candidate] = self._before[candidate] if candidate in self._before else self._new(candidate)
            self._shown(len(self.losses), self._most, min(map(_rank, self.losses.values())))
        return _rank(self.losses[candidate])

    def _new(self, candidate: Candidate) -> float:
        loss = loss_of(self._evaluate(candidate))
        if self._path is not None:
            # Those known from before that this run has not come to yet stay in the file.
            found = {**self.losses, candidate: loss}
            found |= {known: value for known, value in self._before.items() if known not in found}
            _state.write(self._path, self._settings, [(list(one), value) for one, value in found.items()])
        return loss

    def best(self) -> Candidate:
        """The first of those with the least loss."""
        found = min(self.losses, key=lambda one: _rank(self.losses[one]))
        if not math.isfinite(self.losses[found]):
            raise ValueError(f"search: none of {len(self.losses)} candidates had a finite loss (the first was {next(iter(self.losses.values()))})")
        return found


def _rank(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf
