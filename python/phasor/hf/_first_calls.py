# SPDX-License-Identifier: Apache-2.0
"""Real calls of a replaced function: the first of each kind is done by the model's own function too, and its answer decides."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.plain import TYPES
from .._torch.private import nobody_watches
from ._forms import Call
from ._variants import Misfit


def kind_of(call: Call, training: bool | None) -> tuple:
    """What a function may branch on: dtypes, devices, widths, the other sizes up to a power of two, gradients, the module's mode."""
    kinds = [
        None if t is None else (t.dtype, t.device.type, t.shape[-1], tuple(size.bit_length() for size in t.shape[:-1]))
        for t in (*call.tensors, *call.tables)
    ]
    return (*kinds, call.axis, call.rows is None, torch.is_grad_enabled(), training)


class FirstCalls:
    """Of one function in one patched model: which kinds of call were compared, and in which the answers differed."""

    def __init__(self, name: str, where: str = ""):
        self.name = name
        self.where = where  # the Python module of a function, the class of a method
        self.differences: list[str] = []  # in words
        self._alike: dict[tuple, bool] = {}

    def verdict(self, kind: tuple) -> bool | None:
        """Whether calls of this kind are answered alike; None before there was one."""
        return self._alike.get(kind)

    def note(self, kind: tuple, call: Call, alike: bool) -> None:
        """Remembers a comparison, and warns of a difference."""
        self._alike[kind] = alike
        if not alike:
            q = call.tensors[0]
            self.differences.append(
                f"it rotated the probes as phasor does, but not a call with q {tuple(q.shape)} of {q.dtype}: "
                "such calls go to the model's own function"
            )
            warnings.warn(f"phasor.hf: {self.name}: {self.differences[-1]}", stacklevel=2)


@dataclasses.dataclass(frozen=True)
class FirstCall:
    """A call that is to be done both ways."""

    rotation: Any
    plan: Any
    call: Call
    kind: tuple
    keep: Callable[[Any], None]  # takes the plan for later calls of these shapes, None for the model's own function
    calls: FirstCalls

    def compared(self, own: Callable[[dict[int, Tensor]], Any]) -> Any:
        """phasor's answer where the model's own function gives the same and leaves its arguments alone, else the function's own.

        `own` calls the function, with other tensors in the place of those whose id is in the dict. With gradients on, the comparison is
        a call apart, on copies, and whoever answers is called once more: who counts what a call saves (torch.utils.checkpoint) must count
        in this call what later ones save.
        """
        given = [t for t in (*self.call.tensors, *self.call.tables) if t is not None]
        copies = [t.clone() for t in given]
        apart = torch.is_grad_enabled()
        try:
            with saved_apart():
                ours = self.plan.run(self.rotation, self.call)
        except Misfit:
            self.keep(None)
            return own({})
        with saved_apart():
            theirs = own({id(t): copy for t, copy in zip(given, copies)} if apart else {})
        alike = same(_listed(ours), _listed(theirs)) and same(given, copies) and isinstance(theirs, type(ours))
        self.calls.note(self.kind, self.call, alike)
        self.keep(self.plan if alike else None)
        if apart:
            return self.plan.run(self.rotation, self.call) if alike else own({})
        return ours if alike else theirs


@contextlib.contextmanager
def saved_apart() -> Iterator[None]:
    """What is saved for gradients in here goes by none of the hooks outside."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(RuntimeError):  # where hooks are forbidden there are none outside either
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(torch.Tensor.detach, lambda saved: saved))
        yield


def comparable(call: Call) -> bool:
    """Whether values can be looked at now: plain tensors, and nobody (a fake or traced call, a transform, a CUDA graph) looks on."""
    given = [t for t in (*call.tensors, *call.tables) if t is not None]
    captured = any(t.is_cuda for t in given) and torch.cuda.is_current_stream_capturing()
    return not captured and nobody_watches() and all(type(t) in TYPES for t in given)


def _listed(answer: Any) -> Sequence[Tensor | None]:
    return answer if isinstance(answer, (tuple, list)) else (answer,)


def same(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """Equal in dtype, shape and every value; NaN is equal to NaN."""
    return len(some) == len(others) and all(_same(a, b) for a, b in zip(some, others))


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device:
        return False
    a, b = a.detach(), b.detach()
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())
