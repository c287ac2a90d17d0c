# SPDX-License-Identifier: Apache-2.0
"""The function that stands in for a recognised rotation: phasor where the proof holds, the model's own everywhere else."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

from ._first_calls import FirstCall, FirstCalls, comparable, kind_of
from ._forms import Call, plain_function, read_call
from ._plans import MOST, Plan, compiling, key_of, plan_for
from ._recognise import Rotation
from ._variants import Misfit

_NEW = object()


class Plans(dict):
    """Plans by shapes and dtypes, None where the model's own function is to be used; and which calls were compared with it."""

    def __init__(self, calls: FirstCalls):
        super().__init__()
        self.calls = calls


def turned(rotation: Rotation, plans: dict[tuple, Any], args: tuple, kwargs: dict[str, Any], training: bool | None = None) -> Any:
    """What the rotation makes of a call, None where the proof does not hold, a FirstCall where it is to be seen once more.

    With a plain dict nothing is compared.
    """
    call = read_call(rotation.form, args, kwargs)
    if call is None:
        return None
    try:
        if compiling():  # a dict of shapes would make every length a graph of its own; nor are there values to compare
            plan = None if isinstance(plans, Plans) and plans.calls.differences else plan_for(rotation, call)
            return None if plan is None else plan.run(rotation, call)
        key = key_of(call) if training is None else (*key_of(call), training)
        found = plans.get(key, _NEW)  # at once: another thread may clear the plans
        if found is _NEW:
            found = _first_plan(rotation, call, plans, key, training)
        return found.run(rotation, call) if isinstance(found, Plan) else found
    except Misfit:
        return None


def _first_plan(rotation: Rotation, call: Call, plans: dict[tuple, Any], key: tuple, training: bool | None) -> Plan | FirstCall | None:
    """The plan of a call whose shapes are new; a FirstCall where its kind is new too."""
    if len(plans) >= MOST:
        plans.clear()
    plans[key] = None  # for a Misfit, here and later
    plan = plan_for(rotation, call)
    if plan is None or not isinstance(plans, Plans):
        plans[key] = plan
        return plan
    kind = kind_of(call, training)
    alike = plans.calls.verdict(kind)
    if alike is None:
        plans.pop(key, None)  # whoever cannot compare now leaves that to a later call
        return FirstCall(rotation, plan, call, kind, functools.partial(plans.__setitem__, key), plans.calls) if comparable(call) else plan
    plans[key] = kept = plan if alike else None
    return kept


def replacement(original: Callable, rotation: Rotation, *, method: bool = False, name: str | None = None, where: str = "") -> Callable:
    """A function with the original's signature and bits. A method's first argument is its module, which the rotation does not see.

    `name` is what the report calls it, its own if not given, and `where` the place that it names.
    """
    plans = Plans(FirstCalls(name or getattr(original, "__name__", "a rotation"), where))

    @functools.wraps(plain_function(original))
    def rotated(*args: Any, **kwargs: Any) -> Any:
        got = turned(rotation, plans, args[1:], kwargs, args[0].training) if method else turned(rotation, plans, args, kwargs)
        if got is None:
            return original(*args, **kwargs)
        if type(got) is FirstCall:
            return got.compared(lambda other: original(*_swapped(args, other), **dict(zip(kwargs, _swapped(kwargs.values(), other)))))
        return got

    rotated.phasor_rotation = rotation  # how `patch` knows its own
    rotated.phasor_calls = plans.calls
    return rotated


def _swapped(values: Iterable[Any], other: dict[int, Any]) -> list[Any]:
    return [other.get(id(value), value) for value in values]


class Standin:
    """A function bound on a module where there is no method to bind: it is pickled as the original, and copied as itself."""

    def __init__(self, function: Callable, original: Callable):
        functools.update_wrapper(self, original)
        self._function, self._original = function, original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple:
        return copy.copy, (self._original,)  # the copy of a function is the function: the pickle does not need phasor

    def __deepcopy__(self, _: dict) -> Standin:
        return self
