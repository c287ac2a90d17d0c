# SPDX-License-Identifier: Apache-2.0
"""The operators of the `phasor` namespace: their schemas, what they do, and what they do to shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from phasor._torch import checks, kernels, private

LIBRARY = torch.library.Library("phasor", "DEF")

_BY_WORDS = "Tensor words, Tensor? positions, SymInt offset, int direction"
_BY_TABLES = "Tensor cos, Tensor sin, int[] layout, int direction"
# Strides of the output follow those of the input, so a compiler must not change them on the way.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)


@dataclass(frozen=True)
class Operator:
    """One overload: `tensors` of its first arguments are rotated; `functional` is the overload that returns instead of writing."""

    name: str
    tensors: int
    overload: Any
    kernel: Callable[..., Any]
    functional: Any
    check: Callable[..., None]

    @property
    def in_place(self) -> bool:
        return self.functional is not self.overload

    @property
    def by_tables(self) -> bool:
        return self.name.startswith("rotary_tables")


def _fake(where: str, count: int, returns: bool, check: Callable[..., None]) -> Callable[..., Any]:
    def fake(*args: Any) -> Any:
        tensors = args[:count]
        check(where, tensors, *args[count:])
        if not returns:
            return None
        outs = tuple(torch.empty_like(x) for x in tensors)
        return outs if count == 2 else outs[0]

    return fake


def _define(name: str, rest: str, kernel: tuple[Callable[..., Any], ...]) -> list[Operator]:
    """`name`, `name`.qk, `name`_ and `name`_.qk."""
    check = checks.shapes_by_tables if name == "rotary_tables" else checks.shapes_by_positions
    result: list[Operator] = []
    for suffix, returns in (("", ("Tensor", "(Tensor, Tensor)")), ("_", ("()", "()"))):
        for count, overload in ((1, ""), (2, "qk")):
            marks = ("(a!)", "(b!)") if suffix else ("", "")
            tensors = ", ".join(f"Tensor{mark} {x}" for mark, x in zip(marks[:count], "qk"))
            full = f"{name}{suffix}" + (f".{overload}" if overload else "")
            LIBRARY.define(f"{full}({tensors}, {rest}) -> {returns[count - 1]}", tags=_TAGS)
            found = getattr(getattr(torch.ops.phasor, name + suffix), overload or "default")
            functional = result[count - 1].overload if suffix else found
            result.append(Operator(full, count, found, kernel[len(result)], functional, check))
            if result[-1].in_place and not private.OWN_KERNELS:
                LIBRARY.impl(full, _through_copy(functional, count), "CompositeImplicitAutograd")
                continue
            LIBRARY.impl(full, private.guarded(result[-1].kernel), "CompositeExplicitAutograd")  # of any device: the core says which it takes
            torch.library.register_fake(f"phasor::{full}", _fake(name + suffix, count, not suffix, check), lib=LIBRARY)
    return result


def _through_copy(functional: Any, count: int) -> Callable[..., None]:
    """An operator in place made of PyTorch's own: copy_ has a gradient where ours cannot be written."""

    def kernel(*args: Any) -> None:
        checks.writable(args[:count])
        outs = functional(*args)
        for x, out in zip(args, (outs,) if count == 1 else outs):
            x.copy_(out)

    return kernel


_ROTARY = _define("rotary", _BY_WORDS, (kernels.rotary, kernels.rotary_qk, kernels.rotary_, kernels.rotary_qk_))
_TABLES = _define("rotary_tables", _BY_TABLES, (kernels.tables, kernels.tables_qk, kernels.tables_, kernels.tables_qk_))
OPERATORS: tuple[Operator, ...] = (*_ROTARY, *_TABLES)

# By number of tensors.
ROTARY: dict[int, Any] = {1: _ROTARY[0].overload, 2: _ROTARY[1].overload}
ROTARY_: dict[int, Any] = {1: _ROTARY[2].overload, 2: _ROTARY[3].overload}
TABLES: dict[int, Any] = {1: _TABLES[0].overload, 2: _TABLES[1].overload}
TABLES_: dict[int, Any] = {1: _TABLES[2].overload, 2: _TABLES[3].overload}

LIBRARY.define("cos_sin(Tensor positions, Tensor words, int heads, int values, ScalarType dtype) -> (Tensor, Tensor)", tags=_TAGS[:1])
LIBRARY.impl("cos_sin", private.guarded(kernels.cos_sin), "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::cos_sin", lib=LIBRARY)
def _(positions: torch.Tensor, words: torch.Tensor, heads: int, values: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    checks.position_values("cos_sin", positions)
    shape = kernels.table_shape(positions, heads, values)
    return positions.new_empty(shape, dtype=dtype), positions.new_empty(shape, dtype=dtype)
