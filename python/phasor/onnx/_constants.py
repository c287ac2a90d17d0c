# SPDX-License-Identifier: Apache-2.0
"""What is known when a program is exported: its constants by name, and the values that its graph shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxscript
import torch
from onnxscript import opset23 as op


_NAMED = ("cos", "sin", "bias", "rows")  # what a reader of the file looks for


class Constants:
    """The tensors that a program holds, by the placeholder that stands for each."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        signature = program.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        named = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers, **signature.inputs_to_parameters}
        held = {**program.constants, **program.state_dict}
        self._held = {name: held[of] for name, of in named.items() if of in held and of not in changed}

    def of(self, value: Any) -> torch.Tensor | None:
        """The tensor of a value of the graph; None where it is only known when the file runs."""
        return self._held.get(getattr(value, "name", None) or "")


def shared(key: tuple[Any, ...], make: Callable[[], np.ndarray]) -> Any:
    """A constant of the graph that is being made: the same value for the same key, so that layers of one spec share their tables."""
    farm = getattr(onnxscript.evaluator.default(), "constant_farm", None)  # the exporter's own list of constants
    if farm is None:
        return op.Constant(value=ir.tensor(make()))
    if ("phasor", *key) not in farm:
        value = farm[("phasor", *key)] = op.Constant(value=ir.tensor(make()))
        if key[0] in _NAMED:
            value.name = f"phasor_{key[0]}_{len(farm)}"
    return farm[("phasor", *key)]


def integers(*values: int) -> Any:
    """A list of int64."""
    return shared(("integers", values), lambda: np.array(values, np.int64))


def integer(value: Any) -> Any:
    """An int64 of no axes; what the graph computes stays as it is."""
    return shared(("integer", value), lambda: np.array(value, np.int64)) if isinstance(value, int) else value


def static(value: Any, axis: int, what: str) -> int:
    """The size of an axis that a file cannot leave open."""
    size = value.shape[axis]
    if not isinstance(size, int):
        raise NotImplementedError(f"onnx: {what} is dynamic ({size}), wanted a number: the file holds it as an attribute")
    return size


def size_of(value: Any, axis: int) -> Any:
    """The size of an axis as a list of one int64, known or not."""
    size = value.shape[axis]
    axis %= len(value.shape)
    return integers(size) if isinstance(size, int) else op.Shape(value, start=axis, end=axis + 1)
