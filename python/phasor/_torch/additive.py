# SPDX-License-Identifier: Apache-2.0
"""Operators of additive encodings: sinusoids written or added, rows of a learned table added, longer tables, and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._torch import checks, private, recorded
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import dense
from phasor._torch.spec_text import sinusoidal_of

_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
ops = torch.ops.phasor

# `first` is the position of the first token where positions are not given; `offset` is added to positions to find a row.
for _schema in (
    "sinusoidal(Tensor positions, str spec, ScalarType dtype) -> Tensor",
    "add_sinusoidal(Tensor x, str spec, Tensor? positions, SymInt first, Tensor? amplitude) -> Tensor",
    "sinusoidal_amplitude_gradient(Tensor gradient, str spec, Tensor? positions, SymInt first) -> Tensor",
    "lookup_add(Tensor x, Tensor table, Tensor? positions, SymInt first, int offset, int? padding_row) -> Tensor",
    "lookup_gradient(Tensor gradient, Tensor table, Tensor? positions, SymInt first, int offset, int? padding_row) -> Tensor",
    "hierarchical_table(Tensor table, SymInt rows, float alpha) -> Tensor",
):
    LIBRARY.define(_schema, tags=_TAGS)


def _where(positions: Tensor | None, first: int) -> Tensor | int:
    return first if positions is None else positions


def _check_amplitude(x: Tensor, amplitude: Tensor | None) -> None:
    """A number of the host is on no device, as in PyTorch."""
    if amplitude is not None and not (amplitude.device.type == "cpu" and amplitude.ndim == 0 and x.device.type == "cuda"):
        checks.one_device("add_sinusoidal", x=x, amplitude=amplitude)


def _check_tokens(where: str, x: Tensor, positions: Tensor | None) -> None:
    checks.tokens(where, "x", x)
    if positions is not None:
        checks.positions_of_tokens(where, positions, x)


def _sinusoidal(positions: Tensor, spec: str, dtype: torch.dtype) -> Tensor:
    out = positions.new_empty(_encoding_shape(positions, spec), dtype=dtype)
    sinusoidal_of(spec).fill(out, positions, None)
    return out


def _encoding_shape(positions: Tensor, spec: str) -> tuple[int, ...]:
    checks.position_values("sinusoidal", positions)
    return (*(positions.shape[1:] if positions.ndim == 3 else positions.shape), sinusoidal_of(spec).width)


def _add_sinusoidal(x: Tensor, spec: str, positions: Tensor | None, first: int, amplitude: Tensor | None) -> Tensor:
    _check_tokens("add_sinusoidal", x, positions)
    _check_amplitude(x, amplitude)
    out = torch.empty_like(x)
    sinusoidal_of(spec).add(x, _where(positions, first), out, None if amplitude is None else float(amplitude))
    return out


def _amplitude_gradient(gradient: Tensor, spec: str, positions: Tensor | None, first: int) -> Tensor:
    checks.tokens("sinusoidal_amplitude_gradient", "gradient", gradient)
    if not gradient.is_cpu:
        return _amplitude_gradient_there(gradient, spec, _where(positions, first))
    value = sinusoidal_of(spec).amplitude_gradient(dense(gradient), _where(positions, first))
    return gradient.new_empty((), dtype=torch.float64).fill_(value)  # torch.tensor would be lifted to the level of a transform


def _amplitude_gradient_there(gradient: Tensor, spec: str, where: Tensor | int) -> Tensor:
    """On a GPU PyTorch adds, in an order of its own, and nothing waits for the sum."""
    encoding = torch.empty(gradient.shape, dtype=torch.float64, device=gradient.device)
    sinusoidal_of(spec).fill(encoding, where, 1.0)
    return encoding.mul_(gradient).sum()


def _lookup_add(x: Tensor, table: Tensor, positions: Tensor | None, first: int, offset: int, padding_row: int | None) -> Tensor:
    _check_lookup(x, table, positions)
    out = torch.empty_like(x)
    _core.lookup_add(x, table, _where(positions, first), out, offset)
    return out


def _check_lookup(x: Tensor, table: Tensor, positions: Tensor | None) -> None:
    _check_tokens("lookup_add", x, positions)
    checks.kind("lookup_add", "table", table)
    checks.one_device("lookup_add", x=x, table=table)
    if table.ndim != 2 or table.shape[1] != x.shape[-1]:
        raise ValueError(f"lookup_add: the table is {tuple(table.shape)}, wanted (rows, {x.shape[-1]})")


def _lookup_gradient(gradient: Tensor, table: Tensor, positions: Tensor | None, first: int, offset: int, padding_row: int | None) -> Tensor:
    checks.tokens("lookup_gradient", "gradient", gradient)
    out = gradient.new_zeros(table.shape, dtype=table.dtype)
    _core.scatter_gradient(out, dense(gradient), _where(positions, first), offset, padding_row)
    return out


def _hierarchical_table(table: Tensor, rows: int, alpha: float) -> Tensor:
    checks.tokens("hierarchical_table", "table", table)
    out = table.new_empty((rows, table.shape[1]))
    _core.fill_hierarchical(out, table, alpha)
    return out


for _name, _kernel in (
    ("sinusoidal", _sinusoidal),
    ("add_sinusoidal", _add_sinusoidal),
    ("sinusoidal_amplitude_gradient", _amplitude_gradient),
    ("lookup_add", _lookup_add),
    ("lookup_gradient", _lookup_gradient),
    ("hierarchical_table", _hierarchical_table),
):
    LIBRARY.impl(_name, private.guarded(_kernel), "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::sinusoidal", lib=LIBRARY)
def _(positions: Tensor, spec: str, dtype: torch.dtype) -> Tensor:
    return positions.new_empty(_encoding_shape(positions, spec), dtype=dtype)


@torch.library.register_fake("phasor::add_sinusoidal", lib=LIBRARY)
def _(x: Tensor, spec: str, positions: Tensor | None, first: int, amplitude: Tensor | None) -> Tensor:
    _check_tokens("add_sinusoidal", x, positions)
    _check_amplitude(x, amplitude)
    sinusoidal_of(spec)
    return torch.empty_like(x)


@torch.library.register_fake("phasor::sinusoidal_amplitude_gradient", lib=LIBRARY)
def _(gradient: Tensor, spec: str, positions: Tensor | None, first: int) -> Tensor:
    return gradient.new_empty((), dtype=torch.float64)


@torch.library.register_fake("phasor::lookup_add", lib=LIBRARY)
def _(x: Tensor, table: Tensor, positions: Tensor | None, first: int, offset: int, padding_row: int | None) -> Tensor:
    _check_lookup(x, table, positions)
    return torch.empty_like(x)


@torch.library.register_fake("phasor::lookup_gradient", lib=LIBRARY)
def _(gradient: Tensor, table: Tensor, positions: Tensor | None, first: int, offset: int, padding_row: int | None) -> Tensor:
    return table.new_empty(table.shape)


@torch.library.register_fake("phasor::hierarchical_table", lib=LIBRARY)
def _(table: Tensor, rows: int, alpha: float) -> Tensor:
    return table.new_empty((rows, table.shape[1]))


# ---- Gradients: every one of these operators is linear in what it is differentiated by ----

_X, _SPEC, _POSITIONS, _FIRST, _AMPLITUDE = range(5)


def _encoding(given: Tensor, args: tuple[Any, ...]) -> Tensor:
    """The encoding of amplitude 1 for each token of x, where `given` is."""
    zeros = args[_X].zeros(given.device)
    one = torch.ones((), dtype=torch.float64, device=given.device)
    return ops.add_sinusoidal(zeros, args[_SPEC], args[_POSITIONS], args[_FIRST], one)


def _add_sinusoidal_backward(needs: tuple[bool, ...], args: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    (gradient,) = gradients
    amplitude = None
    if needs[_AMPLITUDE]:
        amplitude = ops.sinusoidal_amplitude_gradient(gradient, args[_SPEC], args[_POSITIONS], args[_FIRST]).to(args[_AMPLITUDE].dtype)
    return gradient, None, None, None, amplitude


def _add_sinusoidal_tangent(args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    x, amplitude = tangents[_X], tangents[_AMPLITUDE]
    if amplitude is None:
        return x
    scaled = (amplitude * _encoding(amplitude, args)).to(args[_X].dtype)
    return scaled if x is None else x + scaled


def _amplitude_gradient_backward(needs: tuple[bool, ...], args: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    (by_sum,) = gradients
    return (by_sum * _encoding(by_sum, args)).to(args[_X].dtype), None, None, None


def _amplitude_gradient_tangent(args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    return ops.sinusoidal_amplitude_gradient(tangents[_X], *args[1:4])


def _lookup_add_backward(needs: tuple[bool, ...], args: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    (gradient,) = gradients
    by_table = ops.lookup_gradient(gradient, args[1].shell(gradient.device), *args[2:6]) if needs[1] else None
    return gradient, by_table, None, None, None, None


def _lookup_add_tangent(args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    x, rows = tangents[:2]
    if rows is None:
        return x
    return ops.lookup_add(args[0].zeros(rows.device) if x is None else dense(x), dense(rows), *args[2:6])


def _lookup_gradient_backward(needs: tuple[bool, ...], args: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """A scattered sum is linear: its transpose looks the rows up. A padding row was left out, so nothing comes back from it."""
    (rows,) = gradients
    positions, first, offset, padding_row = args[2:6]
    if padding_row is not None:
        rows = rows.index_fill(0, torch.tensor([padding_row], device=rows.device), 0)
    back = ops.lookup_add(args[0].zeros(rows.device), dense(rows), positions, first, offset, None)
    return back, None, None, None, None, None


def _lookup_gradient_tangent(args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    if tangents[0] is None:  # the table gives its shape alone
        return args[1].zeros(tangents[1].device)
    return ops.lookup_gradient(tangents[0], args[1].shell(tangents[0].device), *args[2:6])


def _hierarchical_backward(needs: tuple[bool, ...], args: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Row i n + j is p_j + c (p_i - p_0) with c = alpha / (1 - alpha)."""
    (gradient,) = gradients
    table, rows, alpha = args[:3]
    n, share = table.shape[0], alpha / (1 - alpha)
    at = torch.arange(rows, device=gradient.device)

    def scattered(of: Tensor) -> Tensor:
        return ops.lookup_gradient(gradient, table.shell(gradient.device), of, 0, 0, None)

    return scattered(at % n) + share * (scattered(at // n) - scattered(torch.zeros_like(at))), None, None


def _hierarchical_tangent(args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Tensor:
    return ops.hierarchical_table(dense(tangents[0]), *args[1:3])


for _overload, _by, _kept, _backward, _tangent in (
    (ops.add_sinusoidal.default, (_X, _AMPLITUDE), (_POSITIONS,), _add_sinusoidal_backward, _add_sinusoidal_tangent),
    (ops.sinusoidal_amplitude_gradient.default, (_X,), (_POSITIONS,), _amplitude_gradient_backward, _amplitude_gradient_tangent),
    (ops.lookup_add.default, (0, 1), (2,), _lookup_add_backward, _lookup_add_tangent),
    (ops.lookup_gradient.default, (0, 1), (2,), _lookup_gradient_backward, _lookup_gradient_tangent),
    (ops.hierarchical_table.default, (0,), (), _hierarchical_backward, _hierarchical_tangent),
):
    recorded.register(recorded.Rule(_overload, frozenset(_by), frozenset(_kept), _backward, _tangent))
recorded.register_without(ops.sinusoidal.default)
