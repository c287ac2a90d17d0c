# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call on one rank: checked, and what all ranks must have alike of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._attention import Call, call_of, plan_of
from phasor._attention.types import SegmentScheme
from phasor._torch.attention.operators import _cast
from phasor.distributed import _kernel
from phasor.distributed._agree import Facts
from phasor.distributed._facts import facts_of_call, facts_of_contents, text_of
from phasor.distributed._kernel import Work
from phasor.distributed._layout import integers_of
from phasor.distributed._slots import Slot, call_with, slots_of

__all__ = ["WHERE", "Given", "needs_batch", "orders_of", "starts_of_sides"]

WHERE = "distributed.attention"


def needs_batch(q: Any, k: Any, v: Any) -> bool:
    """Whether the batch axis is to be added."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{WHERE}: {name} is {type(x).__name__}, wanted a PyTorch tensor")
        if x.ndim not in (3, 4) or x.ndim != q.ndim:
            raise ValueError(f"{WHERE}: {name} has {x.ndim} axes, wanted (B, T, H, D), or (T, H, D) of all three")
    if k.shape[-3] != v.shape[-3]:
        raise ValueError(f"{WHERE}: k has {k.shape[-3]} tokens and v has {v.shape[-3]}, wanted the same")
    return q.ndim == 3


def starts_of_sides(cu_seqlens: Any) -> tuple[Any, Any]:
    """Where sequences begin: of queries and of keys."""
    return cu_seqlens if isinstance(cu_seqlens, tuple) and not isinstance(cu_seqlens[0], int) else (cu_seqlens, cu_seqlens)


def orders_of(order: Any) -> tuple[Any, Any]:
    """Of queries and of keys."""
    return order if isinstance(order, tuple) and len(order) == 2 and not isinstance(order[0], int) else (order, order)


def _token_counts(slot: Slot, x: Tensor, counts: tuple[int, int]) -> None:
    """Whether what goes by token has as many as q or k."""
    wanted = counts[1] if slot.kind == "key" else counts[0]
    if slot.kind in ("query", "key") and x.shape[1] != wanted or slot.kind == "dense" and x.shape[1] not in (1, wanted):
        raise ValueError(f"{WHERE}: {slot.label()} has {x.shape[1]} tokens, wanted the {wanted} of this rank")


class Given:
    """The arguments of this rank, checked, and what all ranks must have alike."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, scheme: Any, causal: bool, scale: float | None, options: dict[str, Any]) -> None:
        self.cu_seqlens = options.pop("cu_seqlens", None)
        self.positions = {name: options.pop(f"{name}_positions", None) for name in ("query", "key")}
        self.mask, self.prefix, seed = options.pop("key_mask", None), options.pop("prefix", None), options.get("dropout_seed")
        self.call: Call = call_of(q.shape[2], scheme, causal, scale, options)
        self.q, self.k, self.v = _cast(q, k, v, self.call)
        plan_of(self.call.scheme)  # tells what is wrong in its values
        self.slots, self.tensors = slots_of(self.call)
        for n, x in enumerate(self.tensors):
            self.tensors[n] = x if isinstance(x, Tensor) else torch.as_tensor(x, device=q.device)
        if self.call.scheme.dropout and seed is None:
            raise ValueError(f"{WHERE}: dropout is given without dropout_seed, wanted an integer, the same on every rank")
        self.counts = (q.shape[1], k.shape[1])
        for slot, x in zip(self.slots, self.tensors):
            _token_counts(slot, x, self.counts)
        self.by_token = self._by_token()
        self.try_one_token()

    def _by_token(self) -> dict[tuple[str, int], Tensor]:
        """Integers of this rank's queries and keys: positions, segments (by term), the mask."""
        found: dict[tuple[str, int], Any] = {}
        for name, count in zip(("query", "key"), self.counts):
            at = self.positions[name]
            if at is not None and not isinstance(at, int):
                found[name, -1] = at
            for number, term in enumerate(self.call.scheme.terms):
                if isinstance(term, SegmentScheme):
                    found[name, number] = self.call.tensors["terms"][number][f"{name}_segments"]
            for (side, number), x in found.items():
                if side == name:
                    found[side, number] = self._integers(x, f"{name}_{'positions' if number < 0 else 'segments'}", count)
        if self.mask is not None:
            mask = torch.as_tensor(self.mask, device=self.q.device)
            if mask.shape != (self.q.shape[0], self.counts[1]):
                raise ValueError(f"{WHERE}: key_mask is {tuple(mask.shape)}, wanted {(self.q.shape[0], self.counts[1])}: of this rank's keys")
            found["mask", 0] = mask.bool().to(torch.uint8)
        return found

    def _integers(self, x: Any, name: str, count: int) -> Tensor:
        try:
            made = integers_of(x, self.q.device)
        except TypeError as error:
            raise TypeError(f"{WHERE}: {name} {error}") from None
        if not 1 <= made.ndim <= 3 or made.shape[-1] != count:
            raise ValueError(f"{WHERE}: {name} is {tuple(made.shape)}, wanted the {count} tokens of this rank as its last axis")
        return made

    def facts(self) -> Facts:
        facts = {**facts_of_contents(q=self.q, k=self.k, v=self.v), **facts_of_call(self.call, self.slots, self.tensors)}
        facts |= {"prefix": text_of(self.prefix), "cu_seqlens": ", ".join(map(text_of, starts_of_sides(self.cu_seqlens)))}
        for name, at in self.positions.items():
            facts[f"{name}_positions"] = text_of(at) if at is None or isinstance(at, int) else "by token"
        for (name, number), x in self.by_token.items():
            what = name if name == "mask" else f"{name}_{'positions' if number < 0 else 'segments'}"
            facts[f"axes of {what} before tokens"] = str(tuple(x.shape[:-1]))
        learning = [torch.is_grad_enabled() and x.requires_grad for x in (self.q, self.k, self.v, *self.tensors)]
        facts["requires_grad"] = ", ".join(map(str, learning))
        return facts

    def try_one_token(self) -> None:
        """Whatever the core finds wrong with shapes it finds here, before anything travels."""
        if any(slot.kind == "dense" for slot in self.slots):
            return  # its columns are those of all keys, which nobody knows yet
        tensors = [x.new_zeros((x.shape[0], 1, *x.shape[2:])) if slot.kind in ("query", "key") else x for slot, x in zip(self.slots, self.tensors)]
        at = torch.zeros(1, dtype=torch.int64, device=self.q.device)
        segments = [{f"{side}_segments": at for side in ("query", "key")} if isinstance(t, SegmentScheme) else {} for t in self.call.scheme.terms]
        seed = {"dropout_seed": self.call.tensors.get("dropout_seed")}
        call = call_with(self.call.scheme, self.slots, tensors, seed, segments)
        q, k, v = (x.new_zeros((x.shape[0], 1, *x.shape[2:])) for x in (self.q, self.k, self.v))
        _kernel.forward(Work(q, k, v, self.slots, tensors, call), self.q.dtype)
