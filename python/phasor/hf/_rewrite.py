# SPDX-License-Identifier: Apache-2.0
"""Copies of functions that see other globals: so one model's methods call our rotation while the module of its class stays as it is."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

from ._first_calls import FirstCalls
from ._forms import NO_TABLES, Form, form_of
from ._recognise import Rotation, recognise
from ._replace import replacement

NAMED_LIKE_A_ROTATION = re.compile(r"rot(ary|ate)|rope", re.IGNORECASE)
_KNOWN: dict[tuple[Callable, str], Rotation | str] = {}  # what probing said: it does not depend on the model


def known(function: Callable, device: str = "cpu") -> Rotation | str:
    """What the function is on such a device; probed once per process."""
    if (function, device) not in _KNOWN:
        _KNOWN[function, device] = recognise(function, None, device)
    return _KNOWN[function, device]


def names_in(code: types.CodeType) -> Iterator[str]:
    """Global names and attributes that the code, or code nested in it, refers to."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


class ModuleView:
    """The globals of one Python module, with its rotations replaced in a copy."""

    def __init__(self, original: dict[str, Any], calls: list[FirstCalls], device: str):
        self._calls, self._device = calls, device  # of what is replaced; where the model is
        self.rotations: dict[str, Rotation] = {}
        self.strangers: dict[str, str] = {}  # named like a rotation or taking tables, but not recognised: why
        self.globals = dict(original)
        self._name = self.globals.pop("__name__", None)  # else torch.compile would look for our names in the module of this name
        self._find(original)
        self._copy_helpers(original)

    def _find(self, original: dict[str, Any]) -> None:
        for name, thing in original.items():
            if not callable(thing) or inspect.isclass(thing) or hasattr(thing, "phasor_rotation"):
                continue
            named = bool(NAMED_LIKE_A_ROTATION.search(name))
            form = form_of(thing) if named or isinstance(thing, types.FunctionType) else NO_TABLES
            if isinstance(form, Form):
                found = known(thing, self._device)
                if isinstance(found, Rotation):
                    self.rotations[name] = found
                    self.globals[name] = ours = replacement(thing, found, name=name, where=self._name or "")
                    self._calls.append(ours.phasor_calls)
                elif named:
                    self.strangers[name] = found
            elif named and (form != NO_TABLES or self._turns_by_itself(thing)):
                self.strangers[name] = form

    def _turns_by_itself(self, thing: Any) -> bool:
        """Whether a function of this module takes more than the tensor (rotate_half takes that alone): positions, then."""
        return isinstance(thing, types.FunctionType) and thing.__module__ == self._name and thing.__code__.co_argcount > 1

    def _copy_helpers(self, original: dict[str, Any]) -> None:
        """Functions of the module that call a replaced one are copied too, until no more are found."""
        helpers = {
            name: thing
            for name, thing in original.items()
            if isinstance(thing, types.FunctionType) and thing.__module__ == self._name and name not in self.rotations
        }
        changed = True
        while changed:
            changed = False
            for name, helper in list(helpers.items()):
                if self.calls(helper.__code__):
                    self.globals[name] = copied(helper, self.globals, helper.__closure__)
                    self.rotations.setdefault(name, None)
                    self.strangers.pop(name, None)
                    del helpers[name]
                    changed = True

    def calls(self, code: types.CodeType) -> list[str]:
        """The replaced names that the code refers to."""
        return [name for name in dict.fromkeys(names_in(code)) if name in self.rotations]


def copied(function: types.FunctionType, new_globals: dict[str, Any], closure: tuple | None) -> types.FunctionType:
    """The same function with other globals or cells."""
    twin = types.FunctionType(function.__code__, new_globals, function.__name__, function.__defaults__, closure)
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__, twin.__module__, twin.__doc__ = function.__qualname__, function.__module__, function.__doc__
    twin.__annotations__ = function.__annotations__
    twin.__dict__.update(function.__dict__)
    return twin


class Rewriter:
    """Rewrites functions for one model; the views of Python modules are shared by all its parts."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device  # where the model is
        self.calls: list[FirstCalls] = []  # of every function that is replaced
        self._views: dict[int, ModuleView] = {}
        self._done: dict[types.FunctionType, tuple[types.FunctionType | None, frozenset[str]]] = {}

    def view(self, function: types.FunctionType) -> ModuleView:
        """The view of the module that the function belongs to."""
        own = function.__globals__
        if id(own) not in self._views:
            self._views[id(own)] = ModuleView(own, self.calls, self.device)
        return self._views[id(own)]

    def rewritten(self, function: types.FunctionType) -> tuple[types.FunctionType | None, frozenset[str]]:
        """A copy that calls our rotations, and their names; None when the function calls none."""
        if function not in self._done:
            self._done[function] = (None, frozenset())  # a decorator's cell may hold the function itself
            self._done[function] = self._rewrite(function)
        return self._done[function]

    def _rewrite(self, function: types.FunctionType) -> tuple[types.FunctionType | None, frozenset[str]]:
        view = self.view(function)
        names = set(view.calls(function.__code__))
        new_globals = view.globals if names else function.__globals__
        cells, inner = [], {}
        for cell in function.__closure__ or ():
            held = _content(cell)
            twin = None
            if isinstance(held, types.FunctionType):
                twin, more = self.rewritten(held)
                names |= more
            if twin is not None:
                inner[held] = twin
                cell = types.CellType(twin)
            cells.append(cell)
        if not names:
            return None, frozenset()
        twin = copied(function, new_globals, tuple(cells) or None)
        if getattr(function, "__wrapped__", None) in inner:
            twin.__wrapped__ = inner[function.__wrapped__]
        return twin, frozenset(names)

    def strangers(self, function: types.FunctionType) -> dict[str, str]:
        """Unrecognised rotations that the function refers to, and why they were not recognised."""
        found: dict[str, str] = {}
        view = self.view(function)
        for name in names_in(function.__code__):
            if name in view.strangers:
                found[name] = view.strangers[name]
        for cell in function.__closure__ or ():
            held = _content(cell)
            if isinstance(held, types.FunctionType) and held is not function:
                found.update({name: why for name, why in self.view(held).strangers.items() if name in set(names_in(held.__code__))})
        return found


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
