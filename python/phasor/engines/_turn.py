# SPDX-License-Identifier: Apache-2.0
"""The rotation in the place of an engine's: by the layer's own tables, bit for bit what the engine gives, or by exact phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from phasor._rotary import apply_rotary, apply_rotary_
from phasor.nn import Rotary as Module

from ._kinds import Kind, kind_of
from ._specs import Reading, Unlike, read


def turned_by_tables(q: Tensor, k: Tensor | None, rows: tuple[Tensor, Tensor], layout: dict[str, Any], in_place: bool, inverse: bool = False) -> Any:
    """q and k (or None) by rows of cosines and sines."""
    cos, sin = rows
    turn = apply_rotary_ if in_place else apply_rotary
    got = turn(q, k, cos, sin, inverse=inverse, **layout)
    return (got, None) if k is None else got


class Turner:
    """The rotation of one layer. `exact` is None where the layer's own tables are used."""

    def __init__(self, layer: Any, kind: Kind, exact: Module | None, reading: Reading | None) -> None:
        self.kind, self.apart, self.trailing = kind, kind.apart, kind.trailing
        self.exact: Any = exact
        self.reading = reading
        self.head_dim, self.width = int(layer.head_size), int(layer.rotary_dim)
        self.pairing = "half" if getattr(layer, "is_neox_style", True) else "interleaved"
        self.axes = 1
        axis_of_pair = kind.axis_of_pair(layer) if kind.axis_of_pair else ()
        self.axis_of_channel: Tensor | None = None
        if axis_of_pair:
            self.axes = 1 + max(axis_of_pair)
            self.axis_of_channel = torch.tensor((*axis_of_pair, *axis_of_pair), device=getattr(layer, kind.table).device)
        self.starts: Any = None
        self.factors: Any = None
        if exact is not None:
            self.starts, self.factors = _parts(layer)

    def layout(self, head_dim: int, rounds: bool) -> dict[str, Any]:
        """How tables are applied; `rounds`: each operation rounds to the tensor's dtype, as PyTorch's do."""
        return {
            "rotary_width": self.width,
            "rotary_offset": head_dim - self.width if self.trailing else 0,
            "pairing": self.pairing,
            "numerics": "hf" if rounds else "exact",
        }

    def rows(self, table: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's own rows for positions (T) or (axes, T): values are chosen, nothing is computed."""
        if positions.ndim == 1:
            chosen = table.index_select(0, positions)
        else:
            if self.axis_of_channel is None:
                raise ValueError(f"positions: are {tuple(positions.shape)}, wanted (T): the layer has one axis")
            several = table[positions]
            chosen = several.gather(0, self.axis_of_channel.to(table.device).expand(1, positions.shape[-1], -1))[0]
        cos, sin = chosen.chunk(2, dim=-1)
        return cos, sin

    def exact_rows(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.exact.rope.cos_sin(self.exact_positions(positions))
        return cos.reshape(positions.shape[-1], -1), sin.reshape(positions.shape[-1], -1)

    def exact_positions(self, positions: Tensor) -> Tensor:
        """Positions as the exact encoding takes them: (T), or (axes, 1, T) where pairs have axes of their own."""
        if self.starts is not None:  # one table after another, each of its own factor: which, and where in it
            part = torch.bucketize(positions, self.starts, right=True) - 1
            return (positions - self.starts[part]).double() / self.factors[part]
        if not self.exact.rope.spec.axes.axis_of_pair:
            return positions if positions.ndim == 1 else positions[0]
        if positions.ndim == 1:
            return positions.expand(self.axes, 1, -1)
        return positions[: self.axes, None]

    def turn(self, table: Any, positions: Tensor, q: Tensor, k: Tensor | None, in_place: bool, rounds: bool, inverse: bool = False) -> Any:
        """q and k as the engine has them; k may be None. Written in place, or into new tensors of the same shapes."""
        tokens = positions.shape[-1]
        heads = q if self.apart else q.view(tokens, -1, self.head_dim)
        keys = k if k is None or self.apart else k.view(tokens, -1, self.head_dim)
        if self.exact is None:
            head_dim = heads.shape[-1]
            got = turned_by_tables(heads, keys, self.rows(table, positions), self.layout(head_dim, rounds and table.dtype == q.dtype), in_place, inverse)
        elif heads.shape[-1] != self.head_dim:  # an indexer's heads have a width of their own
            got = turned_by_tables(heads, keys, self.exact_rows(positions), self.layout(heads.shape[-1], False), in_place, inverse)
        else:
            turn = self.exact.apply_ if in_place else self.exact
            got = turn(heads, keys, self.exact_positions(positions), inverse=inverse)
            got = (got, None) if keys is None else got
        if in_place:
            return q, k
        return got[0].reshape(q.shape), None if k is None else got[1].reshape(k.shape)


def _parts(layer: Any) -> tuple[Tensor | None, Tensor | None]:
    """Where the tables of several linear factors begin, and the factors."""
    factors = getattr(layer, "scaling_factors", None)
    if not isinstance(factors, (list, tuple)) or len(factors) < 2:
        return None, None
    device = layer.cos_sin_cache.device
    starts = [int(layer.scaling_factor_to_offset[float(f)]) for f in factors]
    return torch.tensor(starts, device=device), torch.tensor([float(f) for f in factors], dtype=torch.float64, device=device)


def turner_of(layer: Any, profile: str, arguments: Mapping[str, Any] | None = None) -> Turner:
    """The rotation of a layer by a profile of PROFILES; Unlike where the layer is not what we know by its name."""
    kind = kind_of(layer)
    if kind is None:
        raise Unlike(f"{type(layer).__name__} is not known")
    if profile == "engine" or kind.scaling is None:
        return Turner(layer, kind, None, None)
    reading = read(layer, arguments)
    return Turner(layer, kind, Module.from_spec(reading.spec), reading)
