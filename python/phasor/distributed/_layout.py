# SPDX-License-Identifier: Apache-2.0
"""Where queries and keys of all ranks lie in the whole, at which positions, and what else goes by token: known to every rank before keys travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasor.distributed._orders import Dealt

__all__ = ["Side", "counted_positions", "integers_of"]


def counted_positions(how: Dealt, base: Sequence[int]) -> np.ndarray:
    """Of all tokens, from the base of each sequence on."""
    starts = how.whole_starts
    return np.arange(starts[-1], dtype=np.int64) + np.repeat(np.array(base, np.int64) - starts[:-1], np.diff(starts))


@dataclass(eq=False)
class Side:
    """Queries or keys. Lists have an entry for each rank."""

    name: str
    how: Dealt
    packed: bool  # several sequences, by cu_seqlens
    device: torch.device
    base: list[int]  # by sequence: the position of its first token where none are given
    counted: bool  # positions are those that attention takes by itself
    given: list[Tensor] | None = None  # positions (T), (B, T) or (axes, B, T)
    segments: list[dict[int, Tensor]] = field(default_factory=list)  # by term
    mask: list[Tensor] | None = None  # (B, T)

    def count(self, rank: int) -> int:
        return len(self.how.tokens[rank])

    def length(self) -> int:
        return int(self.how.whole_starts[-1])

    def has_all(self, tokens: np.ndarray) -> bool:
        """Whether these are all tokens of the whole, in order."""
        return len(tokens) == self.length() and bool((np.diff(tokens) > 0).all())

    def index(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def whole(self, parts: list[Tensor], axis: int) -> Tensor:
        """The parts of all ranks, in the order of the whole."""
        shape = list(parts[0].shape)
        shape[axis] = self.length()
        out = parts[0].new_empty(shape)
        for part, tokens in zip(parts, self.how.tokens):
            out.index_copy_(axis, self.index(tokens), part)
        return out

    @cached_property
    def whole_positions(self) -> Tensor:
        return self.index(counted_positions(self.how, self.base)) if self.given is None else self.whole(self.given, -1)

    @cached_property
    def whole_mask(self) -> Tensor | None:
        return None if self.mask is None else self.whole(self.mask, -1)

    @cached_property
    def whole_segments(self) -> dict[int, Tensor]:
        """By term."""
        return {term: self.whole([x[term] for x in self.segments], -1) for term in (self.segments[0] if self.segments else ())}

    def starts_at(self, tokens: np.ndarray) -> Tensor | None:
        """Where tokens of the whole, sequence after sequence, begin; None where there is one sequence."""
        if not self.packed:
            return None
        sequences = np.searchsorted(self.how.whole_starts, tokens, "right") - 1
        counts = np.bincount(sequences, minlength=len(self.how.whole_starts) - 1)
        return self.index(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def check(self, where: str) -> None:
        """Tokens of a sequence rise in position, from rank to rank: positions of a shard's own, counted from 0, do not."""
        if self.given is None or self.given[0].ndim > 2:
            return
        at = self.whole_positions
        steps = at.diff(dim=-1)
        inner = np.ones(max(self.length() - 1, 0), bool)
        ends = self.how.whole_starts[1:-1]
        inner[ends[(ends > 0) & (ends < self.length())] - 1] = False
        least = 1 if self.name == "key" else 0  # queries of padding may share a position, and have no mask that says so
        wrong = (steps < least) & self.index(inner)
        if self.whole_mask is not None:
            seen = self.whole_mask.bool()
            wrong = wrong & (seen[..., 1:] & seen[..., :-1])
        if bool(wrong.any()):
            token = int(wrong.reshape(-1, wrong.shape[-1]).any(0).nonzero()[0])
            row = at.reshape(-1, at.shape[-1])[0]
            ranks = [next(r for r, x in enumerate(self.how.tokens) if t in x) for t in (token, token + 1)]
            raise ValueError(
                f"{where}: {self.name}_positions have token {token} (rank {ranks[0]}) at {int(row[token])} and token {token + 1} (rank {ranks[1]}) at "
                f"{int(row[token + 1])}, wanted them to rise over the whole: give those that shard returns, or those plus an offset"
            )


def integers_of(value: Any, device: torch.device) -> Tensor:
    """Positions or segments as int64."""
    found = torch.as_tensor(value, device=device)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"is of {found.dtype}, wanted integers")
    return found.to(torch.int64)
