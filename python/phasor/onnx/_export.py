# SPDX-License-Identifier: Apache-2.0
"""phasor.onnx.export: a module, or an exported program, as a file."""

from __future__ import annotations

import os
from typing import Any

import torch
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveUnusedNodesPass

from phasor.onnx._translations import translations

OPSET = 23  # the first with RotaryEmbedding and Attention


def _of_ours(error: BaseException) -> Exception | None:
    """What phasor refused, somewhere below what the exporter made of it."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (NotImplementedError, ValueError)) and str(seen).startswith("onnx: "):
            return seen
        seen = seen.__cause__
    return None


def export(
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: tuple[Any, ...] = (),
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    max_position: int | None = None,
    dynamic_shapes: Any = None,
    compute: str = "float32",
    **options: Any,
) -> Any:
    """The ONNX program of a model, written to `path` if one is given; everything that is refused is refused before that.

    max_position: tables hold positions 0 to max_position - 1, and biases the distances between them; not needed where positions are constants.
    dynamic_shapes: as torch.export.export takes them. compute: "float32" widens 16-bit tensors for rotations and attention, as phasor does;
    "storage" leaves them as they are and rounds tables and biases to their dtype. Other options go to torch.onnx.export.

    >>> import torch, phasor.onnx
    >>> q = torch.randn(1, 5, 2, 8)
    >>> program = phasor.onnx.export(phasor.nn.Rotary(8), (q,), max_position=64)
    >>> [node.op_type for node in program.model.graph]
    ['Reshape', 'RotaryEmbedding', 'Reshape']
    """
    opset = options.pop("opset_version", OPSET)
    if opset < OPSET:
        raise ValueError(f"onnx: opset_version is {opset}, wanted {OPSET} or newer, which has RotaryEmbedding and Attention")
    if isinstance(model, torch.export.ExportedProgram):
        program = model
    else:
        program = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    table = translations(program, max_position=max_position, compute=compute)
    table |= options.pop("custom_translation_table", None) or {}
    options = {"verbose": False, **options}
    try:
        made = torch.onnx.export(program, opset_version=opset, custom_translation_table=table, **options)
    except Exception as error:
        if (ours := _of_ours(error)) is None:
            raise
        raise type(ours)(str(ours)) from error
    RemoveUnusedNodesPass()(made.model)
    LiftConstantsToInitializersPass(lift_all_constants=False)(made.model)
    if path is not None:
        made.save(path)
    return made
