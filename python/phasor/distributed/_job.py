# SPDX-License-Identifier: Apache-2.0
"""A call that every rank agreed on, and the calls of the core that it is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasor._attention.types import AttentionScheme, DenseScheme, SegmentScheme
from phasor.distributed._group import Group
from phasor.distributed._kernel import Work
from phasor.distributed._layout import Side
from phasor.distributed._slots import Slot, call_with

__all__ = ["Job", "without_sinks"]


@dataclass(eq=False)
class Job:
    """Everything of a call beside q, k, v and the tensors of slots."""

    group: Group
    scheme: AttentionScheme
    slots: list[Slot]
    query: Side
    key: Side
    prefix: Tensor | None
    seed: Tensor | None
    out_dtype: torch.dtype
    deterministic: bool
    first_head: int = 0  # of the whole, where q has some: dropout goes by its number
    trip: Any = None  # of a ring: whose keys meet whose queries, which its forward finds out

    def key_slots(self) -> list[int]:
        """Tensors that travel with keys."""
        return [n for n, slot in enumerate(self.slots) if slot.kind == "key"]

    def work(self, contents: tuple[Tensor, Tensor, Tensor], tensors: list[Tensor], query_tokens: np.ndarray, key_tokens: np.ndarray) -> Work:
        """A call of these tokens of the whole: q, k, v and tensors have them already, but for columns of a dense bias."""
        integers, segments = self._integers(query_tokens, key_tokens)
        columns = [self.columns(slot, x, key_tokens) for slot, x in zip(self.slots, tensors)]
        chosen = [x if at is None else x.index_select(3, at) for x, at in zip(tensors, columns)]
        return Work(*contents, self.slots, chosen, call_with(self.scheme, self.slots, chosen, integers, segments))

    def columns(self, slot: Slot, x: Tensor, key_tokens: np.ndarray) -> Tensor | None:
        """Which columns of a dense bias, which has those of the whole in order, are of these keys; None: all as they are."""
        dense = slot.term >= 0 and slot.name == "table" and isinstance(self.scheme.terms[slot.term], DenseScheme)
        if not dense or x.shape[3] == 1 or self.key.has_all(key_tokens):
            return None
        return self.key.index(key_tokens)

    def _integers(self, query_tokens: np.ndarray, key_tokens: np.ndarray) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
        """Positions, starts, masks and segments of tokens."""
        query, key = self.query, self.key
        rows, columns = query.index(query_tokens), key.index(key_tokens)
        all_of_both = query.has_all(query_tokens) and key.has_all(key_tokens)
        integers: dict[str, Any] = {"prefix": self.prefix, "dropout_seed": self.seed}
        if self.seed is not None:
            integers["dropout_first_head"] = self.first_head
        if not (all_of_both and query.counted and key.counted):
            integers["query_positions"] = query.whole_positions.index_select(-1, rows)
            integers["key_positions"] = key.whole_positions.index_select(-1, columns)
        integers["query_starts"], integers["key_starts"] = query.starts_at(query_tokens), key.starts_at(key_tokens)
        if key.whole_mask is not None:
            integers["key_mask"] = key.whole_mask.index_select(-1, columns)
        segments = []
        for number, term in enumerate(self.scheme.terms):
            here = {}
            if isinstance(term, SegmentScheme):
                here["query_segments"] = query.whole_segments[number].index_select(-1, rows)
                here["key_segments"] = key.whole_segments[number].index_select(-1, columns)
            segments.append(here)
        return integers, segments


def without_sinks(job: Job, tensors: list[Any]) -> tuple[Job, list[Any]]:
    """The same without sinks: of parts that are merged exactly one has them."""
    if not job.scheme.sinks:
        return job, tensors
    kept = [n for n, slot in enumerate(job.slots) if slot.name != "sinks"]
    return replace(job, scheme=replace(job.scheme, sinks=False), slots=[job.slots[n] for n in kept]), [tensors[n] for n in kept]
