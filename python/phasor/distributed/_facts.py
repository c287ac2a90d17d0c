# SPDX-License-Identifier: Apache-2.0
"""What ranks compare of a call, as words: shapes without their tokens, dtypes, the scheme's values."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from phasor._attention import Call
from phasor._torch.attention.text import encoded
from phasor.distributed._agree import Facts
from phasor.distributed._slots import Slot

__all__ = ["facts_of_call", "facts_of_contents", "shape_without", "text_of"]


def text_of(value: Any) -> str:
    return "none" if value is None else str(value.tolist() if hasattr(value, "tolist") else value)


def shape_without(x: Tensor, tokens: int | None) -> str:
    """A shape and dtype; the axis of tokens is each rank's own."""
    return "(" + ", ".join("tokens" if n == tokens else str(size) for n, size in enumerate(x.shape)) + f") {x.dtype}"


def facts_of_contents(**tensors: Tensor) -> Facts:
    return {name: shape_without(x, 1) for name, x in tensors.items()}


def facts_of_call(call: Call, slots: list[Slot], tensors: list[Tensor]) -> Facts:
    scheme = call.scheme
    facts = {"causal": str(scheme.mask == "causal"), "window": f"{scheme.left}, {scheme.right}", "softcap": str(scheme.softcap)}
    facts |= {"sinks": str(scheme.sinks), "scale": str(scheme.scale), "out_dtype": str(call.out_dtype)}
    _, sizes, text = encoded(Call(scheme, {"terms": [{} for _ in scheme.terms]}, call.out_dtype, call.deterministic))
    facts |= {"scheme": f"{text} {sizes}", "dropout_seed": text_of(call.tensors.get("dropout_seed"))}
    for slot, x in zip(slots, tensors):
        facts[slot.label()] = shape_without(x, None if slot.kind == "shared" else 1)
    return facts
