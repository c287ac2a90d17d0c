# SPDX-License-Identifier: Apache-2.0
"""The spec of an engine's rotary layer, by its attributes; believed only where the layer's own table says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from phasor._rotary import Rotary
from phasor._spec import Axes, RotarySpec

from ._kinds import Kind, kind_of

# Of a cosine, for each radian of its angle: the frequency has some float32 roundings, the angle one more.
PER_RADIAN = 1e-6


class Unlike(Exception):
    """The layer is not what we know by its name: why."""


@dataclass(frozen=True)
class Reading:
    """What a layer does with positions."""

    spec: RotarySpec  # the right one
    as_engine: RotarySpec  # the one of the layer's table; another where the engine is wrong
    off: float  # by how much the table differs from the true cosines and sines of `spec`, at the table's last row
    last: int  # the position of that row

    @property
    def corrected(self) -> bool:
        return self.spec != self.as_engine


def read(layer: Any, arguments: Mapping[str, Any] | None = None) -> Reading:
    """The reading of a layer; `arguments` are those that it was made with. Unlike, where there is none."""
    kind = kind_of(layer)
    if kind is None:
        raise Unlike(f"{type(layer).__name__} is not known")
    if kind.scaling is None:
        raise Unlike("its tables are learned")
    try:
        as_engine = _spec(layer, kind, kind.scaling(layer))
        fixed = kind.corrected(layer, arguments or {}) if kind.corrected else None
        spec = as_engine if fixed is None else replace(as_engine, scaling=fixed)
        rope, theirs = Rotary.from_spec(spec), Rotary.from_spec(as_engine)
    except (AttributeError, ValueError, TypeError, NotImplementedError) as why:
        raise Unlike(str(why)) from why
    return Reading(spec, as_engine, *_compared(layer, kind, theirs, rope))


def _spec(layer: Any, kind: Kind, scaling: Any) -> RotarySpec:
    axis_of_pair = kind.axis_of_pair(layer) if kind.axis_of_pair else ()
    width = int(layer.rotary_dim)
    offset = int(layer.head_size) - width if kind.trailing else 0
    return RotarySpec(
        int(layer.head_size),
        width,
        offset,
        float(layer.base),
        scaling,
        "half" if getattr(layer, "is_neox_style", True) else "interleaved",
        axes=Axes(order="given", axis_of_pair=axis_of_pair) if any(axis_of_pair) else Axes(),
    )


def _compared(layer: Any, kind: Kind, theirs: Rotary, rope: Rotary) -> tuple[float, int]:
    """Refuses a reading that the layer's table contradicts; how far the table's last row is from the truth, and where that is."""
    table = getattr(layer, kind.table)
    if table.is_meta:
        raise Unlike("its table is on the meta device: there are no numbers to compare with")
    if table.is_complex():
        return 0.0, 0  # rows of patches, which _turn.py compares
    rows, positions = _samples(layer, kind, table.shape[0])
    own = table[torch.tensor(rows, device=table.device)].detach().float().cpu().numpy().astype("float64")
    scale = max(1.0, abs(theirs.amplitude))
    at = torch.tensor(positions, dtype=torch.float64)
    room = scale * (torch.finfo(table.dtype).eps + PER_RADIAN * (1 + at[:, None].numpy() * abs(theirs.frequencies)))
    for name, got, wanted in zip(("cosine", "sine"), _halves(own), _tables(theirs, at)):
        wrong = abs(got - wanted) > room
        if got.shape != wanted.shape or wrong.any():
            row, pair = (int(i[0]) for i in wrong.nonzero())
            raise Unlike(f"its {name} of pair {pair} at position {positions[row]:g} is {got[row, pair]:g}, by its attributes {wanted[row, pair]:g}")
    last = max(range(len(positions)), key=lambda i: positions[i])
    true = [t[last] for t in _tables(rope, at)]
    return float(max(abs(h[last] - t).max() for h, t in zip(_halves(own), true))), int(positions[last])


def _halves(rows: Any) -> tuple[Any, Any]:
    pairs = rows.shape[-1] // 2
    return rows[..., :pairs], rows[..., pairs:]


def _tables(rope: Rotary, at: Tensor) -> list[Any]:
    """Rows of every pair at one position, whatever its axis."""
    spec = rope.spec
    axes = 1 + max(spec.axes.axis_of_pair, default=0)
    return [t.reshape(len(at), -1).double().numpy() for t in rope.cos_sin(at.expand(axes, 1, -1).contiguous() if axes > 1 else at)]


def _samples(layer: Any, kind: Kind, rows: int) -> tuple[list[int], list[float]]:
    """Rows of the table to look at, and the position of each: from the first to the last, where slow pairs show their frequency."""
    chosen = [(first + m, m / divisor) for first, count, divisor in _parts(layer, kind, rows) for m in _spread(count)]
    return [row for row, _ in chosen], [position for _, position in chosen]


def _spread(count: int) -> list[int]:
    return sorted({*range(min(count, 8)), *(count // n for n in (2, 3, 5, 17)), count - 1} - {-1})


def _parts(layer: Any, kind: Kind, rows: int) -> list[tuple[int, int, float]]:
    """Parts of the table that follow the spec: the first row, how many there are, and what positions are divided by."""
    if hasattr(layer, "chunk_size"):
        return [(0, min(rows, layer.chunk_size - layer.local_size), 1.0)]  # later rows begin again
    if kind.table.startswith("long_short"):
        original = int(layer.original_max_position_embeddings)
        return [(original, rows - original, 1.0) if getattr(layer, "use_long_rope", False) else (0, original, 1.0)]
    factors = getattr(layer, "scaling_factors", None)
    if isinstance(factors, (list, tuple)) and len(factors) > 1:
        starts = [int(layer.scaling_factor_to_offset[float(f)]) for f in factors]
        return [(a, b - a, float(f)) for a, b, f in zip(starts, (*starts[1:], rows), factors)]
    return [(0, rows, 1.0)]
