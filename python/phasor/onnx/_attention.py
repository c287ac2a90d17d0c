# SPDX-License-Identifier: Apache-2.0
"""phasor::attention as opset 23's Attention, where that can say it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset23 as op

from phasor._torch.attention.text import sized
from phasor.onnx._biases import Distances, refuse_term, term
from phasor.onnx._constants import integer, integers, shared, size_of, static
from phasor.onnx._rotary import Settings, cast


@dataclass(frozen=True)
class _Call:
    """A call as its text says it: the values of the scheme, and its tensors."""

    scheme: dict[str, Any]
    terms: list[dict[str, Any]]
    tensors: dict[str, Any]
    out_dtype: str | None


def _read(text: str, tensors: list[Any], sizes: list[Any]) -> _Call:
    read = json.loads(text)
    named = {name: sizes[n["size"]] if isinstance(n, dict) else tensors[n] for name, n in read["tensors"].items()}
    terms = [{name: tensors[n] for name, n in one.items()} for one in read["terms"]]
    return _Call(sized(read["scheme"], tuple(sizes)), terms, named, read["out_dtype"])


def _refuse(call: _Call, settings: Settings) -> None:
    """Refuses what Attention has no words for."""
    scheme = call.scheme
    if scheme["content"]["type"] != "PlainScheme":
        kind = scheme["content"]["type"]
        raise NotImplementedError(f"onnx: attention has the content {kind}, wanted q and k that are rotated before: rope(q, k, positions)")
    for name in ("sinks", "content_shift", "prefix", "query_starts", "key_starts"):
        if name in call.tensors:
            raise NotImplementedError(f"onnx: attention has {name}, which opset 23's Attention cannot say; wanted none")
    if scheme["dropout"]:
        raise NotImplementedError(f"onnx: attention has a dropout of {scheme['dropout']}, wanted 0: a file is for inference")
    if scheme["softcap"] and scheme["terms"]:
        raise NotImplementedError("onnx: attention has a softcap and a bias, wanted one of them: Attention adds the bias after the softcap, phasor before")
    for name in ("left", "right"):
        if not isinstance(scheme.get(name, 0), int):
            raise NotImplementedError(f"onnx: the window is dynamic, wanted a number for {name}")
    for one, tensors in zip(scheme["terms"], call.terms):
        refuse_term(settings, one, tensors)


def refuse_attention(settings: Settings, tensors: list[Any], sizes: list[Any], text: str) -> None:
    """Refuses a call before anything is made of it."""
    _refuse(_read(text, tensors, sizes), settings)


def _positions(q: Any, k: Any, given: dict[str, Any]) -> tuple[Any, Any]:
    """Of queries and keys, (T) or (B, T): the last query at the last key unless they are given."""
    queries, keys = (op.Squeeze(size_of(x, 1), integers(0)) for x in (q, k))
    found = []
    for name, count, first in (("query_positions", queries, op.Sub(keys, queries)), ("key_positions", keys, integer(0))):
        one = given.get(name)
        if one is None or isinstance(one, int) or len(one.shape) == 0:
            first = first if one is None else integer(one)
            found.append((op.Range(first, op.Add(first, count), integer(1)), 1))
        else:
            if one.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
                raise NotImplementedError(f"onnx: {name} are {one.dtype}, wanted integers")
            found.append((cast(one, ir.DataType.INT64), len(one.shape)))
    return found[0], found[1]


def _distances(q: Any, k: Any, given: dict[str, Any]) -> Distances:
    """query - key, (Tq, Tk) or (B, Tq, Tk)."""
    (queries, rank), (keys, key_rank) = _positions(q, k, given)
    value = op.Sub(op.Unsqueeze(queries, integers(-1)), op.Unsqueeze(keys, integers(-2)))
    return Distances(value, batched=max(rank, key_rank) == 2)


def _seen(call: _Call, distances: Distances, causal_by_node: bool) -> Any:
    """Which keys a query sees, bool (B or 1, 1, Tq, Tk); None: all."""
    scheme, value = call.scheme, distances.value
    rules = []
    if scheme["mask"] == "causal" and not causal_by_node:
        rules.append(op.GreaterOrEqual(value, integer(0)))
    if scheme.get("left") is not None:
        rules.append(op.LessOrEqual(value, integer(scheme["left"])))
    if scheme.get("right") is not None:
        rules.append(op.GreaterOrEqual(value, integer(-scheme["right"])))
    rules = [op.Unsqueeze(rule, integers(1) if distances.batched else integers(0, 1)) for rule in rules]
    if "key_mask" in call.tensors:
        rules.append(op.Unsqueeze(op.Cast(call.tensors["key_mask"], to=int(ir.DataType.BOOL)), integers(1, 2)))
    seen = None
    for rule in rules:
        seen = rule if seen is None else op.And(seen, rule)
    return seen


def _mask(call: _Call, settings: Settings, q: Any, k: Any, causal_by_node: bool, dtype: ir.DataType) -> Any:
    """What Attention adds to scores, (B or 1, H or 1, Tq, Tk): the sum of all biases, minus infinity where a query does not see."""
    distances = _distances(q, k, call.tensors)
    seen = _seen(call, distances, causal_by_node)
    heads = static(q, 2, "the number of heads")
    total = None
    for scheme, tensors in zip(call.scheme["terms"], call.terms):
        bias = term(settings, scheme, tensors, distances, heads)
        total = bias if total is None else op.Add(total, bias)
    if total is None and seen is None:
        return None
    shape = op.Concat(integers(1, 1), size_of(q, 1), size_of(k, 1), axis=0)
    if total is None:
        return op.Expand(seen, shape)  # a mask of bool
    if seen is not None:
        total = op.Where(seen, total, shared(("minus infinity",), lambda: np.array(-np.inf, np.float32)))
    total.dtype = ir.DataType.FLOAT
    return op.Expand(cast(total, dtype), shape)


def _flat(x: Any, dtype: ir.DataType) -> tuple[Any, int]:
    """(B, T, H, D) as (B, T, H D), and H."""
    heads, width = static(x, 2, "the number of heads"), static(x, 3, "the width of a head")
    made = op.Reshape(x, integers(0, 0, heads * width))
    made.dtype = x.dtype
    return cast(made, dtype), heads


def attention(settings: Settings, qkv: tuple[Any, Any, Any], tensors: list[Any], sizes: list[Any], text: str) -> Any:
    """phasor::attention's out."""
    q, k, v = qkv
    call = _read(text, tensors, sizes)
    dtype = settings.dtype(q)
    moved = "query_positions" in call.tensors or "key_positions" in call.tensors
    # The node's own causal mask puts the first query at the first key.
    causal_by_node = call.scheme["mask"] == "causal" and not moved and str(q.shape[1]) == str(k.shape[1])
    mask = _mask(call, settings, q, k, causal_by_node, dtype)
    (q_flat, heads), (k_flat, kv_heads), (v_flat, _) = (_flat(x, dtype) for x in qkv)
    out, *_ = op.Attention(
        q_flat,
        k_flat,
        v_flat,
        mask,
        is_causal=int(causal_by_node),
        q_num_heads=heads,
        kv_num_heads=kv_heads,
        scale=call.scheme.get("scale"),
        softcap=call.scheme["softcap"],
    )
    out.dtype = dtype
    wanted = q.dtype if call.out_dtype is None else _DTYPES[call.out_dtype]
    return op.Reshape(cast(out, wanted), integers(0, 0, heads, static(v, 3, "the width of a value")))


_DTYPES = {"float32": ir.DataType.FLOAT, "float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16, "float64": ir.DataType.DOUBLE}
