# SPDX-License-Identifier: Apache-2.0
"""phasor.onnx.translations: what torch.onnx.export makes of every operator of phasor."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from phasor.onnx._attention import attention, refuse_attention
from phasor.onnx._constants import Constants
from phasor.onnx._given import given_tables, table_rows
from phasor.onnx._rotary import Settings, rotary
from phasor.onnx._tables import Turns, refuse_spec

_ADVICE = {
    "learned_rotary": "the phasor.Rotary that LearnedRotary.rotary() gives",
    "cached_attention": "phasor.attention over the keys themselves",
    "prepare_attention": "the steps apart: norm, rope(q, k, positions), and the cache as inputs and outputs of the model",
}


def _live(program: torch.export.ExportedProgram) -> set[torch.fx.Node]:
    """The nodes that outputs depend on."""
    found: set[torch.fx.Node] = set()
    ahead = [node for node in program.graph.nodes if node.op == "output"]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead += node.all_input_nodes
    return found


def _refuse(program: torch.export.ExportedProgram, settings: Settings, known: set[str]) -> None:
    """Refuses operators of phasor that have no translation, and calls that ONNX cannot say, before anything is made."""
    live = _live(program)
    for node in program.graph.nodes:
        target = node.target
        if getattr(target, "namespace", None) != "phasor":
            continue
        name = target._schema.name.removeprefix("phasor::")
        if name.endswith("_"):
            raise NotImplementedError(f"onnx: the model calls {name} in place, wanted the call that returns new tensors (no apply_)")
        if target.name() not in known:
            wanted = next((advice for begin, advice in _ADVICE.items() if name.startswith(begin)), "one of rotary, apply_rotary, cos_sin, attention")
            raise NotImplementedError(f"onnx: the model calls phasor::{name}, which has no ONNX form; wanted {wanted}")
        if name == "rotary":
            words = settings.constants.of(node.args[2 if target._schema.overload_name == "qk" else 1])
            if words is not None:
                refuse_spec(Turns(tuple(words.tolist()), 0, torch.float32).spec, constant=True)
        if name == "attention":
            refuse_attention(settings, *node.args[3:6])
            if any(user in live and user.target is operator.getitem and user.args[1] == 1 for user in node.users):
                raise NotImplementedError("onnx: the model uses the lse of attention, which opset 23's Attention does not give; wanted out alone")


def _table(settings: Settings) -> dict[Callable[..., Any], Callable[..., Any]]:
    ops = torch.ops.phasor

    def one(q: Any, words: Any, positions: Any, offset: Any, direction: int) -> Any:
        return rotary(settings, (q,), words, positions, offset, direction)[0]

    def both(q: Any, k: Any, words: Any, positions: Any, offset: Any, direction: int) -> Any:
        return rotary(settings, (q, k), words, positions, offset, direction)

    def one_by_tables(q: Any, cos: Any, sin: Any, layout: Any, direction: int) -> Any:
        return given_tables(settings, (q,), cos, sin, layout, direction)[0]

    def both_by_tables(q: Any, k: Any, cos: Any, sin: Any, layout: Any, direction: int) -> Any:
        return given_tables(settings, (q, k), cos, sin, layout, direction)

    def cos_sin(positions: Any, words: Any, heads: int, values: int, dtype: int) -> Any:
        return table_rows(settings, positions, words, heads, dtype)

    def attended(q: Any, k: Any, v: Any, tensors: Any, sizes: Any, spec: str) -> Any:
        return [attention(settings, (q, k, v), tensors, sizes, spec)]

    return {
        ops.rotary.default: one,
        ops.rotary.qk: both,
        ops.rotary_tables.default: one_by_tables,
        ops.rotary_tables.qk: both_by_tables,
        ops.cos_sin.default: cos_sin,
        ops.attention.default: attended,
    }


def translations(
    program: torch.export.ExportedProgram, *, max_position: int | None = None, compute: str = "float32"
) -> dict[Callable[..., Any], Callable[..., Any]]:
    """The custom_translation_table of torch.onnx.export for an exported program, whose constants it reads: specs, and positions where they are constants.

    Arguments are those of `export`. The opset must be 23 or newer.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(f"onnx: program is a {type(program).__name__}, wanted what torch.export.export makes")
    if max_position is not None and (isinstance(max_position, bool) or not isinstance(max_position, int) or max_position < 1):
        raise ValueError(f"onnx: max_position is {max_position!r}, wanted an integer of at least 1")
    if compute not in ("float32", "storage"):
        raise ValueError(f"onnx: compute is {compute!r}, wanted 'float32' or 'storage'")
    settings = Settings(Constants(program), max_position, compute)
    table = _table(settings)
    _refuse(program, settings, {target.name() for target in table})  # type: ignore[attr-defined]
    return table
