# SPDX-License-Identifier: Apache-2.0
"""Gradients with the bits of the model's own function: which calls have them, found by trying, and the strides that they must come in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._torch.private import transforms_active
from ._forms import Call, Form, answer
from ._variants import Misfit, Variant

# Of the tensors and of the tables. The first four are those in which a rotation must agree to be recognised at all.
GRADIENT_DTYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float16),
    (torch.float16, torch.float32),
    (torch.float64, torch.float64),
]


def needed(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a call of these is to be differentiated."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


@dataclasses.dataclass(frozen=True)
class Order:
    """How a function's results and gradients lie in memory: contiguous (what cat and stack made), or as what they were made from.

    What is summed over heads and tokens later (the gradient of a norm before the rotation) has its bits by the order in memory.
    """

    results: bool  # contiguous
    gradients: bool  # contiguous

    def kept(self, turned: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Our results and the gradients through them in this order."""
        if self.results:
            turned = [None if t is None else t.contiguous() for t in turned]
        if self.gradients and not transforms_active():  # there is no hook in them
            for t in turned:
                if t is not None and t.requires_grad:
                    t.register_hook(torch.Tensor.contiguous)
        return list(turned)


def _swapped(t: Tensor | None) -> Tensor | None:
    """The same numbers with heads and tokens the other way in memory, as a projection leaves them."""
    return t if t is None or t.ndim < 3 else t.transpose(-3, -2).contiguous().transpose(-3, -2)


def order_of_gradients(function: Callable, kind: tuple[Form, Variant, str], call: Call, generator: torch.Generator) -> Order | None:
    """The order in which our results and gradients are the function's in every bit; None where there is none."""
    form, variant, packing = kind
    tensors = [None if t is None else _swapped(t).requires_grad_() for t in call.tensors]
    call = Call(tensors, call.tables, call.rows, call.axis)
    given = [t for t in tensors if t is not None]
    try:
        with torch.enable_grad():
            theirs = function(**call.keywords(form))
            theirs = [t for t in ((theirs,) if isinstance(theirs, Tensor) else theirs) if t is not None]
            ours = [t for t in answer(variant, packing, call) if t is not None]
            by = [_swapped(torch.randn(t.shape, generator=generator, dtype=torch.float32).to(t)) for t in theirs]
            wanted = torch.autograd.grad(theirs, given, by)
            order = Order(_contiguous(theirs, given), _contiguous(wanted, given))
            ours = order.kept(ours)
            got = torch.autograd.grad(ours, given, by)
    except (Misfit, ValueError, RuntimeError, IndexError, NotImplementedError):
        return None
    return order if all(_alike(a, b) for a, b in zip((*theirs, *wanted), (*ours, *got), strict=True)) else None


def _contiguous(results: Sequence[Tensor], given: Sequence[Tensor]) -> bool:
    """Whether results are contiguous though what they were made from is not."""
    return all(t.is_contiguous() for t in results) and not all(t.is_contiguous() for t in given)


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and _strides(a) == _strides(b) and torch.equal(a, b)


def _strides(t: Tensor) -> list[int]:
    """Those of axes with one element say nothing."""
    return [stride for stride, size in zip(t.stride(), t.shape) if size > 1]
