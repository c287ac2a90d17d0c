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
# Of each number that a layout is: its name, the least it may be, and what it names.
_FIELDS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("rotary_width", 0, ()),
    ("rotary_offset", 0, ()),
    ("pairing", 0, _PAIRINGS),
    ("output_pairing", -1, _PAIRINGS),
    ("sense", 0, _SENSES),
    ("numerics", 0, _NUMERICS),
    ("segments", 1, ()),
)


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


def check(where: str, codes: Sequence[int]) -> None:
    """Refuses numbers that are no layout."""
    if len(codes) != len(_FIELDS):
        raise ValueError(f"{where}: the layout has {len(codes)} numbers, wanted {len(_FIELDS)}")
    for code, (name, least, names) in zip(codes, _FIELDS):
        if code < least or (names and code >= len(names)):
            wanted = f"{least} to {len(names) - 1}" if names else f"at least {least}"
            raise ValueError(f"{where}: {name} of the layout is {code}, wanted {wanted}")


layout_codes = lru_cache(maxsize=256)(codes_of)  # a compiler that looks at a call takes codes_of


def decoded_fields(codes: Sequence[int]) -> dict[str, Any]:
    """The fields of a TableLayout by name."""
    check("rotary_tables", codes)
    named = {name: names[code] if names and code >= 0 else code for code, (name, _, names) in zip(codes, _FIELDS)}
    return {**named, "output_pairing": None if named["output_pairing"] == -1 else named["output_pairing"]}


@cached
def _decoded(codes: tuple[int, ...]) -> Any:
    return _core.TableLayout(TableLayout(**decoded_fields(codes)))


def decoded(codes: Sequence[int]) -> Any:
    """The core's layout."""
    return _decoded(tuple(codes))
