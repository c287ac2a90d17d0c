# SPDX-License-Identifier: Apache-2.0
"""vmap of the step before attention without caches: the mapped axis becomes part of the batch. Weights that are mapped, and gradients, take a call each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._torch.operators import LIBRARY
from phasor._torch.plain import dense
from phasor._torch.prepare.gradient import Layout, layout_of
from phasor._torch.vmap import Dim, mapped_first, mapped_positions, mapped_table

_NEW = torch.ops.phasor.prepare_attention.default
_GRADIENT = torch.ops.phasor.prepare_attention_backward.default


def _one_by_one(overload: Any, size: int, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """A call for each of the mapped ones, whose arguments are lists too."""

    def of(x: Any, dim: Any, i: int) -> Any:
        if isinstance(x, (list, tuple)):
            return [of(one, d, i) for one, d in zip(x, dim if isinstance(dim, (list, tuple)) else [dim] * len(x))]
        return x.select(dim, i).contiguous() if isinstance(x, Tensor) and dim is not None else x

    calls = [overload(*[of(x, dim, i) for x, dim in zip(args, in_dims)]) for i in range(size)]
    outs = [torch.stack(parts) for parts in zip(*calls)]
    return outs, [0] * len(outs)


def _rows_of(x: Tensor, dim: Dim, size: int) -> Tensor:
    """Numbers for each row or token of one call, as those of all calls, one after the other."""
    return mapped_first(x, dim, size).reshape(-1)


def _read(layout: Layout, read: list[Tensor], dims: Any, size: int, rows: int) -> list[Tensor]:
    """What is read, for size times as many rows: weights are the same for all."""
    made = list(read)
    if layout.factors >= 0:
        x = mapped_first(read[layout.factors], dims[layout.factors], size)
        made[layout.factors] = x.reshape(size * rows, x.shape[-1])
    if layout.spec_of >= 0:
        made[layout.spec_of] = _rows_of(read[layout.spec_of], dims[layout.spec_of], size)
    for number in (layout.cos, layout.sin):
        if number >= 0:
            made[number] = mapped_table(read[number], dims[number], size, rows)
    return made


def _rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    heads, (words, positions, first, read, numbers, reals) = args[:3], args[3:]
    layout, size = layout_of(numbers), info.batch_size
    of_read = in_dims[6] if isinstance(in_dims[6], (list, tuple)) else [in_dims[6]] * len(read)
    of_words = in_dims[3] if isinstance(in_dims[3], (list, tuple)) else [in_dims[3]]
    if any([dim is not None for dim in of_words]):
        raise NotImplementedError("prepare_attention: words are mapped by vmap, wanted the same specs in every mapped call")
    if any([norm is not None and norm >= 0 and of_read[norm] is not None for norm in layout.norms]):
        return _one_by_one(_NEW, size, in_dims, args)
    mapped = [None if x is None else mapped_first(x, dim, size) for x, dim in zip(heads, in_dims)]
    shape = next(x.shape for x in mapped if x is not None)
    rows = shape[1] if len(shape) == 5 else 1
    folded = [None if x is None else dense(x.flatten(0, 1) if x.ndim == 5 else x) for x in mapped]
    at = None if positions is None else mapped_positions(positions, in_dims[4], size, rows)
    outs = _NEW(*folded, words, at, first, _read(layout, read, of_read, size, rows), numbers, reals)
    given = [x for x in mapped if x is not None]
    return [out.reshape(x.shape) for out, x in zip(outs, given)], [0] * len(given)


def _gradient_rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Gradients of weights are a sum for each call."""
    return _one_by_one(_GRADIENT, info.batch_size, in_dims, args)


torch.library.register_vmap("phasor::prepare_attention", _rule, lib=LIBRARY)
torch.library.register_vmap("phasor::prepare_attention_backward", _gradient_rule, lib=LIBRARY)
