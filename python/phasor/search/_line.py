# SPDX-License-Identifier: Apache-2.0
"""A search for one number of a spec: points all over a range, then golden sections around the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

from phasor._spec import RotarySpec, spec_to_json
from phasor.search._evaluate import Evaluation, Evaluations, Result, Spent
from phasor.search._progress import Shown, shown_by

_GOLDEN = 0.6180339887498949  # (sqrt(5) - 1) / 2


def _with(spec: Any, path: list[str], value: Any) -> Any:
    """The spec with the field at the path changed."""
    name, *rest = path
    return replace(spec, **{name: _with(getattr(spec, name), rest, value) if rest else value})


def _value(spec: Any, field: str) -> Any:
    """What a spec has there; checks that there is such a field."""
    found = spec
    for name in field.split("."):
        if not is_dataclass(found) or name not in found.__dataclass_fields__:
            kind, names = type(found).__name__, ", ".join(getattr(found, "__dataclass_fields__", ()))
            raise ValueError(f"search: field is {field!r}, and {kind} has no {name!r}; wanted one of {names or 'none'}")
        found = getattr(found, name)
    if found is not None and (isinstance(found, bool) or not isinstance(found, (int, float))):
        raise TypeError(f"search: {field} is {found!r}, wanted the name of a number")
    return found


def _section(low: float, high: float, loss: Callable[[float], float]) -> None:
    """Golden sections of an interval until evaluations are spent or the points no longer differ."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    while low < left < right < high:
        if loss(left) <= loss(right):
            high, right, left = right, left, right - _GOLDEN * (right - low)
        else:
            low, left, right = left, right, left + _GOLDEN * (high - left)


def line(
    loss: Callable[[RotarySpec], float],
    spec: RotarySpec,
    field: str,
    low: float,
    high: float,
    *,
    evaluations: int = 32,
    points: int = 9,
    scale: str = "log",
    state: Any = None,
    progress: bool | Shown = False,
) -> Result:
    """The value of one field between low and high with the least loss: "base", "scaling.alpha", "scaling.factor", "scaling.beta_fast", ...

    `points` all over the range (in equal ratios, or with scale="linear" equal steps), then golden sections around the best, `evaluations`
    in all. An integer field takes integers. state: a file that is written after each evaluation; the same call goes on from there.

    >>> import phasor, phasor.search
    >>> spec = phasor.RotarySpec(64, scaling=phasor.NtkScaling(1.0))
    >>> found = phasor.search.line(lambda spec: abs(spec.scaling.alpha - 5.0), spec, "scaling.alpha", 1, 32)
    >>> round(found.spec.scaling.alpha, 2), len(found.evaluations)
    (5.0, 32)
    """
    whole = isinstance(_value(spec, field), int)
    if scale not in ("log", "linear"):
        raise ValueError(f"search: scale is {scale!r}, wanted 'log' or 'linear'")
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or (scale == "log" and low <= 0):
        raise ValueError(f"search: the range is {low} to {high}, wanted low < high" + (", both above 0 for scale='log'" if scale == "log" else ""))
    if not 3 <= points <= evaluations:
        raise ValueError(f"search: points are {points} of {evaluations} evaluations, wanted at least 3 and no more than evaluations")
    there, back = (math.log, math.exp) if scale == "log" else (float, float)
    begin, end = there(low), there(high)

    def made(at: float) -> float:
        value = min(max(back(at), low), high)
        return round(value) if whole else value

    def at(value: float) -> RotarySpec:
        return _with(spec, field.split("."), value)

    for value in (low, high):
        spec_to_json(at(round(value) if whole else float(value)))  # refuses what is no spec before anything is evaluated
    settings = {"search": "line", "spec": spec_to_json(spec), "field": field, "low": low, "high": high, "points": points, "scale": scale}
    held = Evaluations(lambda one: loss(at(one[0])), evaluations, settings, state, shown_by(progress))
    grid = [begin + (end - begin) * i / (points - 1) for i in range(points)]
    try:
        found = [held.loss((made(x),)) for x in grid]
        best = found.index(min(found))
        _section(grid[max(best - 1, 0)], grid[min(best + 1, points - 1)], lambda x: held.loss((made(x),)))
    except Spent:
        pass
    best_value = held.best()
    all_of_them = tuple(Evaluation(at(one[0]), loss) for one, loss in held.losses.items())
    return Result(at(best_value[0]), held.losses[best_value], 0, all_of_them)
