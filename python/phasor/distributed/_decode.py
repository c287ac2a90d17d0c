# SPDX-License-Identifier: Apache-2.0
"""phasor.distributed.decode: a few queries, the same on every rank, over a cache whose tokens lie on the ranks."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

import phasor
from phasor._attention import AttentionOptions, Call, call_of
from phasor._torch.attention.operators import out_dtype_of
from phasor.distributed._agree import Facts, agree
from phasor.distributed._exchange import every_part
from phasor.distributed._facts import facts_of_call, shape_without, text_of
from phasor.distributed._group import Group, group_of
from phasor.distributed._kernel import wide
from phasor.distributed._slots import merges, slots_of

__all__ = ["decode", "interleaved"]

_WHERE = "distributed.decode"


def _positions(tokens: int, group: Group, block: int) -> Tensor:
    place = torch.arange(tokens)
    return place // block * (block * group.size) + group.rank * block + place % block


def interleaved(tokens: int, mesh: Any = None, block: int = 1) -> Tensor:
    """Positions of the tokens of this rank's part of a cache that is dealt out in blocks, as vLLM and SGLang keep it.

    Block 0 is on rank 0, block 1 on rank 1, ...: `tokens` places of this rank, in their order, whether they are filled or not.
    """
    group = group_of(mesh, "distributed.interleaved", None, None)
    if block < 1 or tokens < 0:
        raise ValueError(f"distributed.interleaved: tokens is {tokens} and block is {block}, wanted 0 or more and 1 or more")
    return _positions(tokens, group, block)


def _part(q: Tensor, keys: Any, values: Any, scheme: Any, causal: bool, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """This rank's keys alone, not rounded."""
    if isinstance(keys, phasor.Cache):
        return phasor.cached_attention(q, keys, values, scheme=scheme, causal=causal, return_lse=True, **options)
    return phasor.attention(q, keys, values, scheme, causal, return_lse=True, **options)


def _keys_text(k: Any) -> str:
    return shape_without(k, 1) if isinstance(k, Tensor) else "a cache"


def _refuse(call: Call, q: Any, options: dict[str, Any]) -> None:
    if not isinstance(q, Tensor) or q.ndim != 4:
        raise TypeError(f"{_WHERE}: q is {type(q).__name__} {tuple(getattr(q, 'shape', ()))}, wanted a PyTorch tensor (B, T, H, D), the same on every rank")
    if not merges(call.scheme):
        raise NotImplementedError(f"{_WHERE}: CoPE counts the keys between query and key, so parts of its keys do not merge")
    for name in ("query_positions", "key_positions"):
        if options.get(name) is None:
            raise ValueError(f"{_WHERE}: {name} are not given, wanted those of the whole: a part does not know where it lies (see interleaved)")


@torch.compiler.disable(reason="phasor.distributed.decode compares arguments between ranks on the host, which no graph holds")
def decode(
    q: Tensor,
    k: Any,
    v: Any,
    scheme: Any = None,
    causal: bool = True,
    *,
    mesh: Any = None,
    scale: float | None = None,
    lengths: Any = None,
    blocks: Any = None,
    return_lse: bool = False,
    timeout: float | None = None,
    **options: Unpack[AttentionOptions],
) -> Any:
    """Attention of q (B, T, H, D), the same on every rank, over keys and values of which each rank has some; every rank gets the same bits.

    k, v: this rank's tokens, (B, tokens, Hk, D), none perhaps; key_positions (tokens) or (B, tokens) say where they are in the whole, in any order, and
    key_mask which of them are there. Or phasor.Cache of each, with this rank's lengths and blocks as of cached_attention. query_positions: those
    of q; several queries are drafts, causal among themselves. Parts are merged once by lse, in float32. Without gradients.
    """
    group = group_of(mesh, _WHERE, timeout, q if isinstance(q, Tensor) else None)

    def checked() -> tuple[Facts, list[int], Any]:
        given: dict[str, Any] = dict(options)
        call = call_of(q.shape[2] if isinstance(q, Tensor) and q.ndim == 4 else 0, scheme, causal, scale, given)
        _refuse(call, q, given)
        slots, tensors = slots_of(call)
        facts = {"q": shape_without(q, None), "k": _keys_text(k), "v": _keys_text(v), **facts_of_call(call, slots, tensors)}
        at = given["query_positions"]
        facts |= {"query_positions": text_of(at), "prefix": text_of(given.get("prefix"))}
        if group.rank:  # one part takes the sinks
            given.pop("sinks", None)
        if isinstance(k, phasor.Cache):
            given |= {"lengths": lengths, "blocks": blocks}
        given["out_dtype"] = wide(q)
        with torch.no_grad():
            return facts, [], (_part(q.detach(), k, v, scheme, causal, {**given, "scale": scale}), call)

    _, ((out, lse), call) = agree(group, checked, 0)
    parts = every_part(group, [out, lse[..., None]], [1, 1], [q.shape[1]] * group.size)()
    out, lse = phasor.merge_attention([(x, y[..., 0]) for x, y in parts])
    out = out.to(out_dtype_of(q, call.out_dtype))
    return (out, lse) if return_lse else out
