# SPDX-License-Identifier: Apache-2.0
"""Encodings that are added to tokens, as modules: sinusoids, and rows of a learned table."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from phasor import _additive, _learned, _torch
from phasor._model import ModelSource, _layers_of, read_model
from phasor._types.model import ModelAdditive


def _additive_of(config: ModelSource, tower: str | None, kind: str) -> ModelAdditive:
    layers = _layers_of(read_model(config), tower)
    found = layers[0].additive if layers else None
    if found is None or found.kind != kind:
        raise ValueError(
            f"from_config: the model adds {'nothing' if found is None else f'a {found.kind} encoding'} to its tokens, wanted {kind}"
        )
    return found


class Sinusoidal(torch.nn.Module):
    """x + sinusoidal encoding, in one pass and with one rounding. Keywords are those of phasor.Sinusoidal.

    With `learned_amplitude` the factor on the encoding is a parameter; otherwise the state dict is empty.

    >>> import torch, phasor
    >>> encoding = phasor.nn.Sinusoidal(6, learned_amplitude=True)
    >>> encoding(torch.zeros(2, 3, 6)).sum().backward()
    >>> encoding.amplitude.grad.shape, list(encoding.state_dict())
    (torch.Size([]), ['amplitude'])
    """

    def __init__(self, width: int, *, learned_amplitude: bool = False, **fields: Any) -> None:
        super().__init__()
        self.encoding = _additive.Sinusoidal(width, **fields)
        self.text = _torch.text_of(self.encoding.spec)
        self.amplitude = torch.nn.Parameter(torch.tensor(float(self.encoding.amplitude))) if learned_amplitude else None

    @classmethod
    def from_config(cls, config: ModelSource, *, order: str, tower: str | None = None, **fields: Any) -> Sinusoidal:
        """The module for a model by its config. No config says in which order the sines and cosines lie, so `order` must."""
        return cls(_additive_of(config, tower, "sinusoidal").width, order=order, **fields)

    def forward(self, x: Tensor, positions: Any = None) -> Tensor:
        """x (B, T, D) or (T, D) plus the encoding of its tokens."""
        at, first = _torch.positions_and_first(positions, x)
        return torch.ops.phasor.add_sinusoidal(x, self.text, at, first, self.amplitude)

    def encode(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The encoding alone, (..., D) for positions (...), of the spec's amplitude."""
        _torch.seen(positions)
        return torch.ops.phasor.sinusoidal(positions, self.text, dtype)

    def extra_repr(self) -> str:
        spec = self.encoding.spec
        return f"width={spec.width}, order={spec.order!r}, ladder={spec.ladder}" + (
            ", learned_amplitude=True" if self.amplitude is not None else ""
        )


class Learned(torch.nn.Module):
    """x plus a row of a learned table for each token. Row `offset` is that of position 0 (OPT: 2); `padding_row` gets no gradient.

    With `length` above `rows` the table is extended by Su's hierarchical decomposition, up to rows^2 positions: the first rows are the
    table's own, and the parameter stays as it is.

    >>> import torch, phasor
    >>> positions = phasor.nn.Learned(rows=4, width=6, length=10)
    >>> positions(torch.zeros(2, 9, 6)).shape, list(positions.state_dict())
    (torch.Size([2, 9, 6]), ['weight'])
    """

    def __init__(
        self, rows: int, width: int, *, offset: int = 0, padding_row: int | None = None, length: int = 0, alpha: float = 0.4
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(rows, width))
        torch.nn.init.normal_(self.weight, std=0.02)
        self.offset, self.padding_row, self.length, self.alpha = offset, padding_row, length, alpha
        if length > rows * rows:
            raise ValueError(f"Learned: length is {length}, a table of {rows} rows extends to {rows * rows}")
        if not 0 < alpha < 1 or alpha == 0.5:
            raise ValueError(f"Learned: alpha is {alpha}, wanted a number between 0 and 1 that is not 1/2")
        if padding_row is not None and not 0 <= padding_row < rows:
            raise ValueError(f"Learned: padding_row is {padding_row}, wanted one of the {rows} rows")
        if padding_row is not None and length > rows:
            raise ValueError("Learned: padding_row and a length above rows are both given, wanted one: an extension mixes all rows")

    @classmethod
    def from_table(cls, table: Any, **options: Any) -> Learned:
        """The module of a table (rows, D)."""
        table = torch.as_tensor(table)
        module = cls(table.shape[0], table.shape[1], **options)
        module.weight = torch.nn.Parameter(table.detach().clone())
        return module

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], tensor: str, **options: Any) -> Learned:
        """The module of a tensor of a safetensors file."""
        table = _learned.read_learned_table(path, tensor)
        if table.dtype.name == "bfloat16":
            return cls.from_table(
                torch.from_numpy(table.view("uint16").astype("int32") << 16).view(torch.float32).to(torch.bfloat16), **options
            )
        return cls.from_table(torch.from_numpy(table), **options)

    @classmethod
    def from_config(cls, config: ModelSource, *, tower: str | None = None, **options: Any) -> Learned:
        """The module for a model by its config, with fresh values."""
        found = _additive_of(config, tower, "learned")
        return cls(found.length, found.width, **{"offset": found.first_position, **options})

    def table(self) -> Tensor:
        """The rows in use: the parameter, or its extension."""
        if self.length <= self.weight.shape[0]:
            return self.weight
        return torch.ops.phasor.hierarchical_table(self.weight, self.length, self.alpha)

    def forward(self, x: Tensor, positions: Any = None) -> Tensor:
        """x (B, T, D) or (T, D) plus a row for each of its tokens."""
        at, first = _torch.positions_and_first(positions, x)
        return torch.ops.phasor.lookup_add(x, self.table(), at, first, self.offset, self.padding_row)

    @torch.no_grad()
    def resample(self, size: int | tuple[int, int], *, grid: tuple[int, int] | None = None, **resampling: Any) -> Learned:
        """Another number of rows in place of the old, by phasor.resample_table; `grid` is what the rows are now, for a size of two."""
        table = self.weight.detach() if grid is None else self.weight.detach().reshape(*grid, -1)
        self.weight = torch.nn.Parameter(_learned.resample_table(table, size, **resampling).flatten(0, -2), self.weight.requires_grad)
        return self

    def extra_repr(self) -> str:
        shown = f"rows={self.weight.shape[0]}, width={self.weight.shape[1]}"
        for name, plain in (("offset", 0), ("padding_row", None), ("length", 0)):
            value = getattr(self, name)
            shown += "" if value == plain else f", {name}={value}"
        return shown
