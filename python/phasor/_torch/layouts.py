# SPDX-License-Identifier: Apache-2.0
"""Table layouts as the integers that operators carry, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from phasor import _core
from phasor._spec import TableLayout
from phasor._torch.caches import cached

_PAIRINGS = ("half", "interleaved")
_SENSES = ("counterclockwise", "clockwise")
_NUMERICS = ("exact", "hf", "hf_float32", "vllm", "ggml")
LENGTH = 7


def _code(field: str, names: tuple[str, ...], value: str) -> int:
    if value not in names:
        raise ValueError(f"apply_rotary: {field} is {value!r}, wanted one of {', '.join(names)}")
    return names.index(value)


def codes_of(layout: TableLayout) -> tuple[int, ...]:
    """Width, offset, pairing, output pairing (-1: the same), sense, numerics, segments."""
    output = -1 if layout.output_pairing is None else _code("output_pairing", _PAIRINGS, layout.output_pairing)
    return (
        layout.rotary_width,
        layout.rotary_offset,
        _code("pairing", _PAIRINGS, layout.pairing),
        output,
        _code("sense", _SENSES, layout.sense),
        _code("numerics", _NUMERICS, layout.numerics),
        layout.segments,
    )


layout_codes = lru_cache(maxsize=256)(codes_of)  # a compiler that looks at a call takes codes_of


@cached
def _decoded(codes: tuple[int, ...]) -> Any:
    width, offset, pairing, output, sense, numerics, segments = codes
    layout = TableLayout(
        rotary_width=width,
        rotary_offset=offset,
        pairing=_PAIRINGS[pairing],
        output_pairing=None if output < 0 else _PAIRINGS[output],
        sense=_SENSES[sense],
        numerics=_NUMERICS[numerics],
        segments=segments,
    )
    return _core.TableLayout(layout)


def decoded(codes: Sequence[int]) -> Any:
    """The core's layout."""
    return _decoded(tuple(codes))
