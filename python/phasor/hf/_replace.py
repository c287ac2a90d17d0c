# SPDX-License-Identifier: Apache-2.0
"""The function that stands in for a recognised rotation: phasor where the proof holds, the model's own everywhere else."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from ._forms import read_call
from ._plans import MOST, compiling, key_of, plan_for
from ._recognise import Rotation
from ._variants import Misfit


def turned(rotation: Rotation, plans: dict[tuple, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the rotation makes of a call, or None where the proof does not hold. Plans are kept by shapes and dtypes."""
    call = read_call(rotation.form, args, kwargs)
    if call is None:
        return None
    try:
        if compiling():  # a dict of shapes would make every length a graph of its own
            plan = plan_for(rotation, call)
            return None if plan is None else plan.run(rotation, call)
        key = key_of(call)
        if key not in plans:
            if len(plans) >= MOST:
                plans.clear()
            plans[key] = None
            plans[key] = plan_for(rotation, call)
        plan = plans[key]
        return None if plan is None else plan.run(rotation, call)
    except Misfit:
        return None


def replacement(original: Callable, rotation: Rotation, *, method: bool = False) -> Callable:
    """A function with the original's signature and bits. A method's first argument is its module, which the rotation does not see."""
    plans: dict[tuple, Any] = {}

    @functools.wraps(original)
    def rotated(*args: Any, **kwargs: Any) -> Any:
        got = turned(rotation, plans, args[1:] if method else args, kwargs)
        return original(*args, **kwargs) if got is None else got

    rotated.phasor_rotation = rotation  # how `patch` knows its own
    return rotated


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
