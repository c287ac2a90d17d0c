# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="phasor": phasor.attention as an attention of transformers, with a scheme of positions where a layer has one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from .. import Dense, attention

Rules = dict[str, Any]  # keywords of phasor.attention


@dataclasses.dataclass(eq=False)
class Seen:
    """Who sees whom, as rules instead of a tensor of every pair: what the masks of transformers become where they are such rules."""

    rules: Rules
    ndim: int = 4  # what generation asks of a mask that is ready

    def contiguous(self) -> Seen:
        """What generation wants of it; there is nothing to copy."""
        return self


# ---- Masks ----


def _closure(function: Any) -> dict[str, Any]:
    """The variables that a function has from where it was made."""
    return dict(zip(function.__code__.co_freevars, [cell.cell_contents for cell in function.__closure__ or ()]))


def _rules_of(function: Any) -> Rules | None:
    """A mask function of transformers as rules of positions, known by its code; None for any other."""
    from transformers import masking_utils as masks

    if function is masks.causal_mask_function:
        return {"causal": True}
    if function is getattr(masks, "bidirectional_mask_function", None):  # transformers 4 has none
        return {}
    code = getattr(function, "__code__", None)
    if code is masks.sliding_window_overlay(1).__code__:
        return {"window": (_closure(function)["sliding_window"] - 1, None)}  # keys nearer than the window
    both_ways = getattr(masks, "sliding_window_bidirectional_overlay", None)
    if both_ways is not None and code is both_ways(1).__code__:
        return {"window": (_closure(function)["sliding_window"],) * 2}
    if code is masks.and_masks().__code__:
        parts = [_rules_of(part) for part in _closure(function)["mask_functions"]]
        windows = [part for part in parts if part is not None and "window" in part]
        return None if None in parts or len(windows) > 1 else {key: value for part in parts for key, value in part.items()}  # type: ignore[union-attr]
    return None


def _padding(given: Tensor | None, kv_length: int, kv_offset: int) -> Tensor | None:
    """The part of (B, tokens) that says which of the keys are padding; tokens that are still to come are not there."""
    if given is None:
        return None
    missing = kv_length + kv_offset - given.shape[-1]
    whole = torch.nn.functional.pad(given, (0, missing)) if missing > 0 else given
    return whole[:, kv_offset : kv_offset + kv_length]


def mask(*, kv_length: int, kv_offset: Any = 0, mask_function: Any = None, attention_mask: Any = None, **more: Any) -> Any:
    """What transformers calls for a mask: rules where they say it all, else its own tensor of every pair (packed sequences, blocks, chunks).

    Where queries are: q_length and q_offset, a tensor for a static cache; before transformers 5 cache_position.
    """
    from transformers import masking_utils as masks

    if isinstance(attention_mask, Seen):  # generation makes it before the model is called
        return attention_mask
    function = masks.causal_mask_function if mask_function is None else mask_function
    rules = _rules_of(function)
    if rules is None:
        more |= {"kv_length": kv_length, "kv_offset": kv_offset, "mask_function": function, "attention_mask": attention_mask}
        return masks.sdpa_mask(**more | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
    padding = _padding(attention_mask, kv_length, kv_offset)
    if padding is not None:
        rules["key_mask"] = padding
    first = more.get("cache_position", more.get("q_offset", 0))
    if isinstance(first, Tensor) and first.ndim == 0:
        first = torch.arange(more["q_length"], device=first.device) + first
    return Seen({**rules, "query_positions": first, "key_positions": kv_offset})


# ---- Attention ----


def _rules_beside(module: Any, q: Tensor, given: Any, is_causal: bool | None) -> tuple[Rules, list[Any]]:
    """Rules and biases of whatever a model hands over as its mask."""
    if isinstance(given, Seen):
        return given.rules, []
    if given is None:  # a model that makes no masks: as PyTorch's own attention, queries and keys from 0
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        return {"causal": True, "query_positions": 0, "key_positions": 0} if causal and q.shape[2] > 1 else {}, []
    if given.dtype == torch.bool:
        given = torch.zeros(given.shape, dtype=q.dtype, device=q.device).masked_fill(~given, -math.inf)
    return {}, [Dense(given)]


def _scheme_of(module: Any, queries: int, keys: int) -> list[Any]:
    """The scheme of a layer, `phasor_scheme`: one, a list, or a module of phasor.nn, called for so many queries and keys."""
    scheme = getattr(module, "phasor_scheme", None)
    if isinstance(scheme, torch.nn.Module):
        scheme = scheme(queries, keys)
    return [] if scheme is None else list(scheme) if isinstance(scheme, (list, tuple)) else [scheme]


def forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """What transformers calls for attention: (B, H, T, D) to (B, T, H, D). s_aux are sinks (gpt-oss), position_bias is T5's."""
    if more.get("cache") is not None:
        raise NotImplementedError("phasor: a paged cache of transformers is given to attention, wanted another implementation for that")
    rules, scheme = _rules_beside(module, query, attention_mask, is_causal)
    scheme = scheme + _scheme_of(module, query.shape[2], key.shape[2])
    if position_bias is not None:
        scheme = [*scheme, Dense(position_bias)]
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    options = {"scale": scaling, "softcap": softcap, "sinks": s_aux, "dropout": dropout}
    given = {name: option for name, option in options.items() if option is not None}
    return attention(q, k, v, scheme or None, **rules, **given), None


def register_attention(name: str = "phasor") -> str:
    """Makes attn_implementation=`name` phasor.attention, for models that are built or set from then on; returns the name.

    Masks that are rules (causal, windows, padding) cost no memory; others are added as a bias. A layer's `phasor_scheme` (T5, ALiBi, a module of
    phasor.nn, ...) is added to its scores. Weights are not given back.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, mask)
    return name
