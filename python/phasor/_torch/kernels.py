# SPDX-License-Identifier: Apache-2.0
"""What the operators do: allocate where the tensors are, then call the core. Autograd and modes are decided elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._torch import checks, private
from phasor._torch.layouts import decoded

# Directions of the core, and one more: the transpose of `inverse`, which differs from `forward` where the amplitude is not 1.
FORWARD, INVERSE, TRANSPOSE, INVERSE_TRANSPOSE = range(4)
TRANSPOSED = (TRANSPOSE, INVERSE_TRANSPOSE, FORWARD, INVERSE)

_core_of_words = _core.rotary_from_words
_empty_like = torch.empty_like
_increment_version = private.increment_version  # who saved a tensor for a gradient must hear that it has changed


# Words that DTensor keeps beside its tensors on a GPU, by address, and those of the CPU that they are a copy of (phasor._torch.sharding).
WORDS_ON_GPU: dict[int, Tensor] = {}


def rotary_of(words: Tensor) -> Any:
    """The core's Rotary of a spec's words. They are on the CPU; of others, in a program that was moved as a whole, a copy is fetched."""
    if not words.is_cpu:
        words = WORDS_ON_GPU.get(words.data_ptr()) if words.data_ptr() in WORDS_ON_GPU else words.cpu()
    return _core_of_words(words)


def turn(core: Any, tensors: tuple[Tensor | None, ...], where: Any, direction: int) -> None:
    """core.apply to (q, k, q_out, k_out), for the transpose of the inverse too."""
    q, k, q_out, k_out = tensors
    if direction != INVERSE_TRANSPOSE:
        core.apply(q, k, where, direction, q_out, k_out)
        return
    core.apply(q, k, where, FORWARD, q_out, k_out)
    amplitude = core.amplitude
    if amplitude != 1:  # forward has the amplitude where the transpose of the inverse has its reciprocal
        first, width = core.spec.rotary_offset, core.rotary_width
        for written in (q if q_out is None else q_out, k if k_out is None else k_out):
            if written is not None:
                written.narrow(-1, first, width).mul_(amplitude**-2)


def where_of(positions: Tensor | None, offset: int) -> Tensor | int:
    if positions is None:
        return offset
    if offset:
        raise ValueError(f"rotary: positions and an offset of {offset} are given, only one of them can be")
    return positions


def rotary(q: Tensor, words: Tensor, positions: Tensor | None, offset: int, direction: int) -> Tensor:
    q_out = _empty_like(q)
    turn(rotary_of(words), (q, None, q_out, None), where_of(positions, offset), direction)
    return q_out


def rotary_qk(q: Tensor, k: Tensor, words: Tensor, positions: Tensor | None, offset: int, direction: int) -> tuple[Tensor, Tensor]:
    q_out, k_out = _empty_like(q), _empty_like(k)
    turn(rotary_of(words), (q, k, q_out, k_out), where_of(positions, offset), direction)
    return q_out, k_out


def rotary_(q: Tensor, words: Tensor, positions: Tensor | None, offset: int, direction: int) -> None:
    where = offset if positions is None else where_of(positions, offset)
    core = rotary_of(words)
    if direction == INVERSE_TRANSPOSE:
        turn(core, (q, None, None, None), where, direction)
    else:
        core.apply(q, None, where, direction, None, None)
    _increment_version((q,))


def rotary_qk_(q: Tensor, k: Tensor, words: Tensor, positions: Tensor | None, offset: int, direction: int) -> None:
    where = offset if positions is None else where_of(positions, offset)
    core = rotary_of(words)
    if direction == INVERSE_TRANSPOSE:
        turn(core, (q, k, None, None), where, direction)
    else:
        core.apply(q, k, where, direction, None, None)
    _increment_version((q, k))


def tables(q: Tensor, cos: Tensor, sin: Tensor, layout: list[int], direction: int) -> Tensor:
    q_out = _empty_like(q)
    _core.apply_tables(q, None, cos, sin, decoded(layout), direction, q_out, None)
    return q_out


def tables_qk(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: list[int], direction: int) -> tuple[Tensor, Tensor]:
    q_out, k_out = _empty_like(q), _empty_like(k)
    _core.apply_tables(q, k, cos, sin, decoded(layout), direction, q_out, k_out)
    return q_out, k_out


def tables_(q: Tensor, cos: Tensor, sin: Tensor, layout: list[int], direction: int) -> None:
    _core.apply_tables(q, None, cos, sin, decoded(layout), direction, None, None)
    _increment_version((q,))


def tables_qk_(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: list[int], direction: int) -> None:
    _core.apply_tables(q, k, cos, sin, decoded(layout), direction, None, None)
    _increment_version((q, k))


def table_shape(positions: Tensor, heads: int, values: int) -> tuple[int, ...]:
    """(..., values), or (..., heads, values) where heads turn by their own."""
    shape = positions.shape[1:] if positions.ndim == 3 else positions.shape
    return (*shape, values) if heads == 1 else (*shape, heads, values)


def cos_sin(positions: Tensor, words: Tensor, heads: int, values: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    checks.position_values("cos_sin", positions)
    cos, sin = (positions.new_empty(table_shape(positions, heads, values), dtype=dtype) for _ in range(2))
    rows = 1 if positions.ndim == 1 else positions.shape[-2]
    views = (x.view(rows, positions.shape[-1], heads, values) for x in (cos, sin))
    rotary_of(words).cos_sin(positions, *views)
    return cos, sin
