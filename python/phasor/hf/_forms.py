# SPDX-License-Identifier: Apache-2.0
"""What the parameters of a rotating function are, and the arguments of a call to it, by role."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ._variants import Misfit, Variant, rotate


# What a parameter is, by its name. This only says what to feed it; what the function is, the comparison of bits says.
ROLES = {
    "tensor": r"x|q|k|v|xq|xk|query|key|value|tensor|hidden_states|(query|key|value)_(layer|states)",
    "cos": r"cos",
    "sin": r"sin",
    "complex": r"freqs_cis?",
    "packed": r"sinusoidal_pos|relative_position_embeddings",
    "rows": r"position_ids",
    "axis": r"unsqueeze_dim",
}
TABLES = ("cos", "sin", "complex", "packed")


@dataclasses.dataclass(frozen=True)
class Form:
    """A function's parameters, by role."""

    names: tuple[str, ...]
    roles: tuple[str, ...]  # a role of ROLES, or "option": a default that must not be changed
    defaults: tuple[Any, ...]  # inspect.Parameter.empty where there is none

    @property
    def tables(self) -> str:
        """separate (cos, sin), complex, or packed (both in one tensor)."""
        return "separate" if "cos" in self.roles else "complex" if "complex" in self.roles else "packed"

    @functools.cached_property
    def plain(self) -> int:
        """The arguments of a call (q, k, cos, sin): tensors, cosines and sines in this order, all else by default; 0 where they are not."""
        count = self.roles.count("tensor") + 2
        plain = self.roles[:count] == ("tensor",) * (count - 2) + ("cos", "sin") and "rows" not in self.roles
        return count if plain else 0

    @functools.cached_property
    def axis(self) -> int | None:
        """The default of the parameter that says where the heads are; None without one."""
        return self.defaults[self.roles.index("axis")] if "axis" in self.roles else None

    @functools.cached_property
    def sines_first(self) -> bool:
        """GPT-J: (tensor, sin, cos)."""
        return self.tables == "separate" and self.roles.index("sin") < self.roles.index("cos")


def plain_function(function: Callable) -> Callable:
    """The function itself. With the package `kernels` transformers makes a module of a function, so that another may take its place."""
    return function.forward if isinstance(function, nn.Module) else function


def form_of(function: Callable) -> Form | str:
    """The form of something that may be a rotation, or why it is none."""
    try:
        parameters = inspect.signature(plain_function(function)).parameters.values()
    except (TypeError, ValueError):
        return "its signature cannot be read"
    found: list[tuple[str, str, Any]] = []
    unknown = ""
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            continue
        role = next((role for role, pattern in ROLES.items() if re.fullmatch(pattern, p.name)), "option")
        if role == "rows" and p.default is not p.empty:
            role = "option"
        if p.kind is p.VAR_POSITIONAL or (role == "option" and p.default is p.empty):
            unknown = unknown or p.name
        found.append((p.name, role, p.default))
    roles = {role for _, role, _ in found}
    if "tensor" not in roles or not ({"cos", "sin"} <= roles or "complex" in roles or "packed" in roles):
        return NO_TABLES
    if unknown:
        return f"it takes {unknown!r}, which is no table, no tensor to rotate and no option"
    return Form(*(tuple(column) for column in zip(*found)))


NO_TABLES = "it takes no cosines and sines, but makes its own"


@dataclasses.dataclass
class Call:
    """The arguments of one call, by role."""

    tensors: list[Tensor | None]
    tables: tuple[Tensor, ...]
    rows: Tensor | None = None
    axis: int | None = None

    def keywords(self, form: Form) -> dict[str, Any]:
        """The call as keywords of the function; options are left at their defaults."""
        tensors = iter(self.tensors)
        tables = iter(self.tables[::-1] if form.sines_first else self.tables)
        given: dict[str, Any] = {}
        for name, role in zip(form.names, form.roles):
            if role == "tensor":
                given[name] = next(tensors)
            elif role in TABLES:
                given[name] = next(tables)
            elif role in ("rows", "axis"):
                given[name] = self.rows if role == "rows" else self.axis
        return given


def read_call(form: Form, args: tuple, kwargs: dict[str, Any]) -> Call | None:
    """The call by role, or None when an option is not at its default: the variant is not proven for that."""
    if form.plain and len(args) == form.plain and not kwargs:
        return Call(list(args[:-2]), args[-2:], None, form.axis)
    given = dict(zip(form.names, args))
    given.update(kwargs)
    call = Call([], ())
    for name, role, default in zip(form.names, form.roles, form.defaults):
        value = given.pop(name, default)
        if role == "tensor":
            call.tensors.append(value)
        elif role in TABLES:
            call.tables += (value,)
        elif role == "rows":
            call.rows = value
        elif role == "axis":
            call.axis = value
        elif value is not default and not (type(value) in (bool, int) and value == default):
            return None
    if form.sines_first:
        call.tables = call.tables[::-1]
    return None if given else call


# How both tables lie in one tensor: (2, T, 1, 1, R) as Wav2Vec2-Conformer has it, or (..., sines then cosines) as RoFormer has it.
PACKINGS = {"separate": ("separate",), "complex": ("complex",), "packed": ("stacked", "sin_cos")}


def cos_sin(packing: str, call: Call) -> tuple[Tensor, Tensor]:
    """Cosines and sines of a call."""
    if packing == "separate":
        cos, sin = call.tables
    elif packing == "complex":
        cos, sin = call.tables[0].real, call.tables[0].imag
    elif packing == "stacked":
        rows = call.tensors[0].shape[1]
        cos, sin = call.tables[0][0, :rows], call.tables[0][1, :rows]
    else:
        sin, cos = call.tables[0].chunk(2, dim=-1)
    return (cos, sin) if call.rows is None else (cos[call.rows], sin[call.rows])


def answer(variant: Variant, packing: str, call: Call) -> list[Tensor | None]:
    """What the variant makes of a call."""
    tables = cos_sin(packing, call)
    if packing != "stacked":
        return rotate(variant, call.tensors, tables, call.axis)
    width = tables[0].shape[-1]
    if any(t is None or t.shape[-1] % width for t in call.tensors):
        raise Misfit
    # (B, T, H * D): the heads lie packed in the last axis
    heads = rotate(variant, [t.unflatten(-1, (-1, width)) for t in call.tensors], tables, call.axis)
    return [t.flatten(-2) for t in heads]
