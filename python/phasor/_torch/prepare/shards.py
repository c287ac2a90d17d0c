# SPDX-License-Identifier: Apache-2.0
"""DTensors of the step before attention without caches: every rank prepares its batch rows, tokens or heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._torch.prepare.gradient import Layout, layout_of
from phasor._torch.shard_rules import by_heads_alike, specs_beside
from phasor._torch.sharding import by_shards
from phasor._torch.shards import HEADS, Shards

_WHERE = "prepare_attention"
_TABLES = {2: ("token", "pair"), 3: ("batch", "token", "pair"), 4: ("batch", "token", "head", "pair")}


def _alike(heads: dict[str, Shards]) -> None:
    """Batch rows and tokens are sharded for all or for none; few heads of keys may be on every rank."""
    leading = next(iter(heads.values()))
    places = {name: tuple([None if role == "head" else role for role in shards.roles]) for name, shards in heads.items()}
    if len(set(places.values())) > 1 or any([shards.mesh != leading.mesh for shards in heads.values()]):
        words = ", ".join([f"{name} is {tuple(shards.x.placements)}" for name, shards in heads.items()])
        raise ValueError(f"{_WHERE}: {words}, wanted one mesh, and batch rows and tokens sharded alike; redistribute() makes it so")


def _within_heads(heads: dict[str, Shards], words: list[Tensor], layout: Layout, read: list[Any]) -> None:
    """Refuses what a rank with some of the heads cannot know."""
    for name, shards in heads.items():
        if "head" not in shards.roles:
            continue
        if layout.over_all["qkv".index(name)]:
            raise ValueError(f"{_WHERE}: {name} is sharded by heads and its norm is over all of them, wanted a norm over each head, or batch rows or tokens sharded")
        if layout.cos >= 0 and read[layout.cos].ndim == 4 and read[layout.cos].shape[2] > 1:
            raise ValueError(f"{_WHERE}: {name} is sharded by heads and cos has rows for each of them, wanted tables of all heads, or batch rows or tokens sharded")
        for one in words if name != "v" else ():
            by_heads_alike(shards, one, None)


def _read_beside(heads: dict[str, Shards], layout: Layout, read: list[Any]) -> list[Any]:
    """This rank's part of what is read."""
    leading, local = next(iter(heads.values())), list(read)
    for name, norm in zip("qkv", layout.norms):
        if norm is not None and norm >= 0 and name in heads:
            local[norm] = heads[name].beside(f"weight of {name}_norm", read[norm], ("head", "channel"))
    if layout.factors >= 0:
        local[layout.factors] = heads.get("q", leading).beside("query_factors", read[layout.factors], ("batch", "token"))
    if layout.spec_of >= 0:
        local[layout.spec_of] = specs_beside(leading, read[layout.spec_of])
    for name, number in (("cos", layout.cos), ("sin", layout.sin)):
        if number >= 0:
            local[number] = leading.beside(name, read[number], _TABLES.get(read[number].ndim, ()))
    return local


def _prepare(q: Any, k: Any, v: Any, words: Any, positions: Any, first: Any, read: Any, numbers: Any, reals: Any) -> list[Any]:
    heads = {name: Shards(_WHERE, name, x, HEADS, ("batch", "token", "head")) for name, x in zip("qkv", (q, k, v)) if x is not None}
    layout = layout_of(numbers)
    _alike(heads)
    _within_heads(heads, words, layout, read)
    at, first = next(iter(heads.values())).where_tokens_are(positions, first)
    local = [heads[name].local() if name in heads else None for name in "qkv"]
    made = torch.ops.phasor.prepare_attention(*local, words, at, first, _read_beside(heads, layout, read), numbers, reals)
    return [shards.whole_like(x) for shards, x in zip(heads.values(), made)]


by_shards(torch.ops.phasor.prepare_attention.default, _prepare)
by_shards(torch.ops.phasor.prepare_attention_backward.default, None)
