# SPDX-License-Identifier: Apache-2.0
"""patch and unpatch: walk a model, bind methods that call phasor on its modules, and take them away again."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Iterator
from typing import Any

import torch

from ._forms import NO_TABLES, Form, form_of
from ._recognise import Rotation, recognise
from ._replace import Standin, replacement
from ._report import Counter, Report
from ._rewrite import NAMED_LIKE_A_ROTATION, Rewriter, known, names_in

RECORD = "_phasor_hf"  # in a patched module's __dict__: {name: () where there was none, (old,) where there was}
NUMERICS = ("model", "exact")


def patch(model: torch.nn.Module, numerics: str = "model", *, strict: bool = False) -> Report:
    """Makes the model rotate with phasor, in place, and says what was replaced and what was left; `unpatch` undoes it.

    numerics="model": the model's own frequencies and tables, so that its results stay bit for bit; "exact": cosines and sines of the true
    angles too. Other models, also of the same class, are not touched. strict: a ValueError when anything that rotates was left. The bits are
    compared where the model is now: move it to its GPU first.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"patch: model is {type(model).__name__}, wanted a torch.nn.Module")
    if numerics not in NUMERICS:
        raise ValueError(f"patch: numerics is {numerics!r}, wanted one of {NUMERICS}")
    unpatch(model)
    rewriter, report = Rewriter(_device_of(model)), Report(numerics)
    rotations, left, tables = Counter(), Counter(), Counter()
    try:
        for module in model.modules():
            _patch_methods(module, rewriter, rotations, left)
        if numerics == "exact":
            from ._exact import patch_tables

            patch_tables(model, tables, left)
    except BaseException:
        unpatch(model)
        raise
    report.rotations, report.tables, report.left = rotations.entries(), tables.entries(), left.entries()
    report.calls = rewriter.calls
    if strict and (report.left or not report):
        unpatch(model)
        raise ValueError(f"patch: not everything could be replaced, wanted all of it (strict)\n{report}")
    return report


def _device_of(model: torch.nn.Module) -> str:
    """Where the rotations are to be tried out: on a GPU if any part of the model is on one."""
    return "cuda" if any(t.is_cuda for t in (*model.parameters(), *model.buffers())) else "cpu"


def unpatch(model: torch.nn.Module) -> int:
    """Takes everything back that `patch` did; the number of modules that were patched."""
    count = 0
    for module in model.modules():
        record = module.__dict__.pop(RECORD, None)
        if record is None:
            continue
        count += 1
        for name, old in record.items():
            if old:
                module.__dict__[name] = old[0]
            else:
                module.__dict__.pop(name, None)
    return count


def bind(module: torch.nn.Module, name: str, function: Any) -> None:
    """Puts a function (taking self) into the module's own attributes, and remembers what was there."""
    record = module.__dict__.setdefault(RECORD, {})
    if name not in record:
        record[name] = (module.__dict__[name],) if name in module.__dict__ else ()
    module.__dict__[name] = function


def owners_of(module: torch.nn.Module) -> list[type]:
    """The module's classes, most derived first, PyTorch's own aside."""
    return [owner for owner in type(module).__mro__ if owner.__module__.split(".")[0] != "torch" and owner is not object]


def methods_of(module: torch.nn.Module) -> Iterator[tuple[str, types.FunctionType, bool]]:
    """(name, function, whether static) of what the module's classes define; what is overridden is not seen."""
    seen: set[str] = {"__init__"}
    for owner in owners_of(module):
        for name, thing in vars(owner).items():
            if name in seen:
                continue
            seen.add(name)
            static = isinstance(thing, staticmethod)
            function = thing.__func__ if static else thing
            if isinstance(function, types.FunctionType):
                yield name, function, static


def _report_overridden(module: torch.nn.Module, rewriter: Rewriter, left: Counter) -> None:
    """A method that calls its overridden self by super() reaches the class's, which is not ours to change."""
    for name, function, _ in methods_of(module):
        if "super" not in set(names_in(inspect.unwrap(function).__code__)):
            continue
        hidden = [vars(owner)[name] for owner in owners_of(module) if name in vars(owner) and vars(owner)[name] is not function]
        if any(isinstance(h, types.FunctionType) and rewriter.rewritten(h)[0] is not None for h in hidden):
            left.add(type(module).__name__, name, "it rotates in the method that it overrides and calls by super()")


def _patch_methods(module: torch.nn.Module, rewriter: Rewriter, rotations: Counter, left: Counter) -> None:
    """Every method of one module: rotations themselves, callers of rotations, and methods that hooks keep as attributes."""
    where = type(module).__name__
    _report_overridden(module, rewriter, left)
    for name, function, static in methods_of(module):
        method_rotation = _method_rotation(module, name, function, static, rewriter.device)
        if isinstance(method_rotation, Rotation):
            ours = replacement(function, method_rotation, method=not static, name=name, where=where)
            rewriter.calls.append(ours.phasor_calls)
            bind(module, name, Standin(ours, function) if static else types.MethodType(ours, module))
            rotations.add(where, name, str(method_rotation))
            continue
        if isinstance(method_rotation, str):
            left.add(where, name, method_rotation)
        _rewrite_method(module, name, function, static, (rewriter, rotations, left))
    for name, thing in list(module.__dict__.items()):
        if not isinstance(thing, types.FunctionType) or hasattr(thing, "phasor_rotation") or not isinstance(form_of(thing), Form):
            continue
        if isinstance(found := known(thing, rewriter.device), Rotation):
            ours = replacement(thing, found, name=name, where=where)
            rewriter.calls.append(ours.phasor_calls)
            bind(module, name, Standin(ours, thing))
            rotations.add(where, name, str(found))


def _rewrite_method(module: torch.nn.Module, name: str, function: types.FunctionType, static: bool, tools: tuple) -> None:
    """Binds a copy of a method that calls rotations; where a hook holds the bound method (accelerate), there."""
    rewriter, rotations, left = tools
    where = type(module).__name__
    twin, names = rewriter.rewritten(function)
    for stranger, why in rewriter.strangers(function).items():
        left.add(where, stranger, why)
    if twin is None:
        return
    places = [n for n, held in module.__dict__.items() if isinstance(held, types.MethodType) and held.__func__ is function]
    if name in module.__dict__ and name not in places and not places:
        left.add(where, name, "the module has a method of its own under this name, which does not call its class's")
        return
    for place in places or [name]:
        bind(module, place, Standin(twin, function) if static else types.MethodType(twin, module))
    view = rewriter.view(inspect.unwrap(function))
    for called in sorted(names):
        rotation = view.rotations.get(called)
        if rotation is not None:
            rotations.add(where, called, str(rotation))
        else:
            rotations.add(where, called, "through the rotation that it calls")


def _method_rotation(
    module: torch.nn.Module, name: str, function: types.FunctionType, static: bool, device: str
) -> Rotation | str | None:
    """The rotation that a method itself is; why it is not recognised, if it takes tables; None if it is not like one."""
    if not NAMED_LIKE_A_ROTATION.search(name):
        return None
    bound = function if static else types.MethodType(function, module)
    form = form_of(bound)
    if isinstance(form, str):
        return None if form == NO_TABLES else form
    number, width = getattr(module, "num_heads", None), getattr(module, "head_size", None)
    try:
        probed = to_probe(module)
    except Exception as why:  # noqa: BLE001  whatever an attribute of a module may raise
        return f"its module cannot be copied to be tried out ({type(why).__name__})"
    probed_bound = function if static else types.MethodType(function, probed)
    return recognise(probed_bound, (number, width) if number and width and form.tables == "packed" else None, device)


def to_probe(module: torch.nn.Module) -> torch.nn.Module:
    """A copy to be tried out, so that no question leaves a trace in the model: buffers and attributes are copied, parameters shared."""
    shared = {id(p): p for p in module.parameters()}
    hooks = [held for part in module.modules() for name, held in part.__dict__.items() if name.endswith("_hooks") or name == "_hf_hook"]
    shared.update((id(held), type(held)() if hasattr(held, "clear") else None) for held in hooks)
    return copy.deepcopy(module, shared)
