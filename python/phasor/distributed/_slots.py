# SPDX-License-Identifier: Apache-2.0
"""The tensors of a call by what they go by: queries, keys, or neither. Those that learn are in one list, in an order that every rank has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from phasor._attention import Call
from phasor._attention.types import AttentionScheme, BiasScheme, CopeScheme, DenseScheme, TableScheme

__all__ = ["Slot", "call_with", "head_slice", "scheme_of_heads", "slots_of"]

Kind = Literal["shared", "query", "key", "dense"]  # dense: rows by query, columns by keys of the whole
_INTEGERS = ("query_segments", "key_segments")


@dataclass(frozen=True)
class Slot:
    """The place of a tensor of four axes: heads are axis 2, tokens axis 1."""

    term: int  # -1: of the call itself
    name: str
    kind: Kind

    def label(self) -> str:
        return self.name if self.term < 0 else f"{self.name} of term {self.term}"


def _kind(term: Any, name: str) -> Kind:
    if name == "table" and isinstance(term, DenseScheme):
        return "dense"
    if name != "features":
        return "shared"
    return "key" if isinstance(term, TableScheme) and term.side == "key" else "query"


def slots_of(call: Call) -> tuple[list[Slot], list[Tensor]]:
    """Every tensor of real numbers, and where it belongs."""
    slots: list[Slot] = []
    tensors: list[Tensor] = []
    for number, (term, named) in enumerate(zip(call.scheme.terms, call.tensors["terms"])):
        for name, value in named.items():
            if name not in _INTEGERS and value is not None:
                slots.append(Slot(number, name, _kind(term, name)))
                tensors.append(value)
    for name in ("content_shift", "sinks"):
        if call.tensors.get(name) is not None:
            slots.append(Slot(-1, name, "shared"))
            tensors.append(call.tensors[name])
    return slots, tensors


def merges(scheme: AttentionScheme) -> bool:
    """Whether outputs over disjoint keys make that over all; CoPE counts the keys between, in whichever part they are."""
    return not any(isinstance(term, CopeScheme) for term in scheme.terms)


def head_slice(slot: Slot, x: Tensor, heads: tuple[int, int], key_heads: tuple[int, int]) -> tuple[int, int]:
    """Which heads of x some heads of queries read: all where one serves every head, and the numbers of a bias."""
    if x.shape[2] == 1:
        return 0, 1
    return key_heads if slot.kind == "key" else heads


def scheme_of_heads(scheme: AttentionScheme, first: int) -> AttentionScheme:
    """The same for heads from `first` on: a bias knows the numbers of all heads."""
    terms = tuple(replace(t, first_head=t.first_head + first) if isinstance(t, BiasScheme) else t for t in scheme.terms)
    return replace(scheme, terms=terms)


def call_with(scheme: AttentionScheme, slots: list[Slot], tensors: list[Tensor], integers: dict[str, Any], segments: list[dict[str, Tensor]]) -> Call:
    """A call for the core. integers: positions, starts, prefix, mask, seed; segments: of each term."""
    terms: list[dict[str, Any]] = [dict(x) for x in segments]
    alone: dict[str, Any] = {}
    for slot, x in zip(slots, tensors):
        (alone if slot.term < 0 else terms[slot.term])[slot.name] = x
    return Call(scheme, {"terms": terms, **alone, **{name: x for name, x in integers.items() if x is not None}})
