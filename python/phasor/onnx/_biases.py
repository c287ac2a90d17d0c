# SPDX-License-Identifier: Apache-2.0
"""Biases by distance for Attention's mask: a table of every distance that max_position allows, gathered by the distances of a call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset23 as op

from phasor._bias import Bias
from phasor._spec import spec_from_json
from phasor.onnx._constants import integer, integers, shared
from phasor.onnx._rotary import Settings, cast, guarded

_BY_DISTANCE = ("Alibi", "Kerple", "Sandwich", "ShawClip", "T5Buckets")
_BY_ROW = ("ShawClip", "T5Buckets")  # whose parameters are a table (H, rows) that distances read


@dataclass(frozen=True)
class Distances:
    """query - key, (Tq, Tk), or (B, Tq, Tk) where batch rows have positions of their own."""

    value: Any
    batched: bool

    def index(self, length: int) -> Any:
        """Into a table that begins at distance 1 - length; beyond either end Gather refuses it."""
        return guarded(op.Add(self.value, integer(length - 1)), 2 * length - 1)


def refuse_term(settings: Settings, scheme: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Refuses what the additive mask cannot be made of."""
    kind = scheme["type"]
    if kind == "DenseScheme":
        return
    if kind != "BiasScheme":
        raise NotImplementedError(f"onnx: attention has a term {kind}, wanted a bias by distance or one given in full: Attention has q.k and a mask alone")
    name, learned = scheme["bias"]["type"], "parameters" in tensors
    wanted = _BY_ROW if learned else _BY_DISTANCE
    if name not in wanted:
        what = f"{name} with parameters that are tensors" if learned else name
        raise NotImplementedError(f"onnx: attention has the bias {what}, wanted one of {', '.join(wanted)}, or phasor.Dense")
    if scheme["bias"].get("form") == "key_position":
        raise NotImplementedError("onnx: attention has Alibi by key_position, wanted the form 'symmetric' or 'causal': a table is by distance")
    settings.length("a bias by distance")


def term(settings: Settings, scheme: dict[str, Any], tensors: dict[str, Any], distances: Distances, heads: int) -> Any:
    """What a term adds to scores, float32, (B or 1, H or 1, Tq or 1, Tk or 1)."""
    if scheme["type"] == "DenseScheme":
        return op.Transpose(cast(tensors["table"], ir.DataType.FLOAT), perm=[0, 2, 1, 3])
    bias = _by_distance(settings, scheme, tensors, distances, heads)
    if "features" in tensors:  # the gate (B or 1, Tq, H or 1, 1)
        bias = op.Mul(bias, op.Transpose(cast(tensors["features"], ir.DataType.FLOAT), perm=[0, 2, 1, 3]))
    return bias


def _by_distance(settings: Settings, scheme: dict[str, Any], tensors: dict[str, Any], distances: Distances, heads: int) -> Any:
    text = json.dumps({"phasor": 1, **scheme["bias"]})
    spec: Any = spec_from_json(text)
    bias, length, first = Bias(spec), settings.length("a bias by distance"), scheme["first_head"]
    index = distances.index(length)
    if "parameters" in tensors:
        rows = shared(("rows", text, length), lambda: np.asarray(bias.row(np.arange(1 - length, length)), np.int64))
        table = op.Reshape(cast(tensors["parameters"], ir.DataType.FLOAT), integers(bias.heads, -1))
        if heads != bias.heads:
            table = op.Slice(table, integers(first), integers(first + heads), integers(0))
        index = op.Gather(rows, index)
    else:
        key = ("bias", text, length, first, heads)
        table = shared(key, lambda: bias.diagonal(1 - length, 2 * length - 1, "float32", first_head=first)[:heads])
    found = op.Gather(table, index, axis=1)
    return op.Transpose(found, perm=[1, 0, 2, 3]) if distances.batched else op.Unsqueeze(found, integers(0))
