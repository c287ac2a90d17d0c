# SPDX-License-Identifier: Apache-2.0
"""numerics="exact": rotary embedding modules give cosines and sines of the true angles, in their own layout, at their own positions."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import Rotary
from ._exact_source import NARROW, Source, by_operator, operator_handle
from ._patch import bind
from ._plans import MOST, compiling
from ._report import Counter
from ._rewrite import NAMED_LIKE_A_ROTATION, copied, names_in
from ._tables import Layout, Unlike, buffer_of, find_layout, numbers_of


def patch_tables(model: torch.nn.Module, tables: Counter, left: Counter) -> None:
    """Replaces the forward of every module that turns positions into tables."""
    for module in model.modules():
        if not is_rotary_embedding(module):
            continue
        where = type(module).__name__
        try:
            exact = ExactTables(module)
        except Unlike as why:
            left.add(where, "forward", str(why))
            continue
        bind(module, "forward", types.MethodType(rewrapped(type(module).forward, exact.forward), module))
        tables.add(where, "forward", exact.source)


def is_rotary_embedding(module: torch.nn.Module) -> bool:
    """Whether the module has frequencies of its own, no parts, and is for rotation by its name or its parameters."""
    forward = getattr(type(module), "forward", None)
    if not kinds_of(module) or any(True for _ in module.children()) or not isinstance(forward, types.FunctionType):
        return False
    return bool(NAMED_LIKE_A_ROTATION.search(type(module).__name__)) or "position_ids" in inspect.signature(forward).parameters


def kinds_of(module: torch.nn.Module) -> list[str | None]:
    """Layer types that the module has frequencies for, None where it has one set for all."""
    names = [name for name, _ in module.named_buffers(recurse=False)] + [n for n, v in module.__dict__.items() if isinstance(v, Tensor)]
    kinds = [name.removesuffix("inv_freq") for name in names if name.endswith("inv_freq")]
    kinds = [kind for kind in dict.fromkeys(kinds) if not kind.endswith(("original_", "long_"))]
    return [kind.removesuffix("_") or None for kind in kinds]


def rewrapped(function: types.FunctionType, inner: Callable) -> Callable:
    """The function's decorators (no_grad, the update of dynamic frequencies) around another innermost function."""
    wrapped = getattr(function, "__wrapped__", None)
    if not isinstance(wrapped, types.FunctionType):
        return inner
    twin = rewrapped(wrapped, inner)
    cells = tuple(types.CellType(twin) if _holds(cell, wrapped) else cell for cell in function.__closure__ or ())
    outer = copied(function, function.__globals__, cells or None)
    outer.__wrapped__ = twin
    return outer


def innermost(function: types.FunctionType) -> types.FunctionType:
    """The function without its decorators."""
    while isinstance(getattr(function, "__wrapped__", None), types.FunctionType):
        function = function.__wrapped__
    return function


def _holds(cell: types.CellType, thing: Any) -> bool:
    try:
        return cell.cell_contents is thing
    except ValueError:
        return False


def to_ask(module: torch.nn.Module) -> torch.nn.Module:
    """A copy on the CPU, with the class's own forward and without hooks: questions may move dynamic frequencies, and are nobody else's
    business."""
    asked = copy.deepcopy(module).cpu()
    asked.__dict__.pop("forward", None)
    asked._forward_hooks.clear()
    asked._forward_pre_hooks.clear()
    return asked


class ExactTables:
    """The layouts of one module, and the encodings made from its frequencies so far (dynamic ones change with the length)."""

    def __init__(self, module: torch.nn.Module):
        read = set(names_in(innermost(type(module).forward).__code__))
        own = [n for n in (*module._buffers, *module._parameters) if n in read and not n.endswith("inv_freq")]
        if own or {"config", "rope_init_fn"} & read:
            raise Unlike(f"its forward reads {own[0] if own else 'the config'} too: what it gives depends on more than positions")
        if any(buffer_of(module, kind).is_meta for kind in kinds_of(module)):
            raise Unlike("its frequencies are on the meta device: there are no numbers to take")
        self._own = innermost(type(module).forward)
        self._layouts: dict[str | None, list[Layout]] = {}
        self._rotaries: dict[tuple, Rotary] = {}
        self._first: dict[str | None, tuple[Tensor, float, Rotary]] = {}  # frequencies and amplitude when patched
        self.config, self.handle = getattr(module, "config", None), operator_handle(self)
        asked = to_ask(module)
        sources = []
        for kind in kinds_of(asked):
            self._layouts[kind] = [find_layout(asked, kind)]
            source = Source.of(asked, kind)
            rotary, name = source.rotary()
            self._first[kind] = (source.frequencies, source.amplitude, rotary)
            sources.append(name)
        self.source = "frequencies of " + ", ".join(dict.fromkeys(sources))
        self.forward = self._forward()

    def _forward(self) -> Callable:
        """The innermost forward: a plain function of the module, so that a copied model calls it with itself."""

        def forward(module: torch.nn.Module, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
            kind = layer_type if layer_type in self._layouts else None
            layout = None if position_ids.is_meta or buffer_of(module, kind).is_meta else self._layout(module, kind, position_ids)
            if layout is None:
                return self._own(module, x, position_ids, **({} if layer_type is None else {"layer_type": layer_type}))
            dtype = x.dtype if layout.follows_dtype or x.dtype == torch.float64 else torch.float32
            cos, sin = layout.tables(*self._tables(module, kind), position_ids.cpu(), dtype)
            if layout.complex:
                return torch.complex(cos, sin).to(x.device)
            return cos.to(device=x.device, dtype=dtype), sin.to(device=x.device, dtype=dtype)

        forward.__name__ = "forward"
        return forward

    def _tables(self, module: torch.nn.Module, kind: str | None) -> tuple[Callable, float]:
        """What turns positions into cosines and sines of the module's frequencies as they are now, and their amplitude."""
        if compiling():
            return by_operator(self.handle, module, kind), numbers_of(module, kind)[1]
        rotary = self.rotary(Source.of(module, kind))
        return rotary.cos_sin, rotary.amplitude

    def _layout(self, module: torch.nn.Module, kind: str | None, positions: Tensor) -> Layout | None:
        """The layout for positions of this shape; None where the module's own tables are to be used."""
        known = self._layouts[kind]
        for layout in known:
            if layout.fits(positions):
                return layout
        asked = to_ask(module)
        try:
            known.append(find_layout(asked, kind, positions))
        except Unlike:
            return None
        return known[-1]

    def rotary(self, source: Source) -> Rotary:
        """The exact pairs of a module's frequencies; those found when it was patched while they are only rounded since (model.half())."""
        key = (source.kind, tuple(source.frequencies.tolist()), source.amplitude)
        if key not in self._rotaries:
            if len(self._rotaries) >= MOST:  # dynamic frequencies are others at every length
                self._rotaries.clear()
            frequencies, amplitude, rotary = self._first[source.kind]
            rounded = any(torch.equal(frequencies.to(dtype).float(), source.frequencies) for dtype in NARROW)
            self._rotaries[key] = rotary if rounded and amplitude == source.amplitude else source.rotary()[0]
        return self._rotaries[key]
