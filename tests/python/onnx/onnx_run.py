# SPDX-License-Identifier: Apache-2.0
"""What the tests of phasor.onnx share: one output of a file alone, run by onnxruntime, and how far rounding may take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

onnxruntime.set_default_logger_severity(4)
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # of one operation, relative


class File:
    """A program as onnxruntime has it; each output may be had alone, with the nodes that it needs."""

    def __init__(self, program: Any) -> None:
        self.proto = program.model_proto
        self.names = [value.name for value in self.proto.graph.output]

    def part(self, number: int) -> Any:
        model = ir.from_proto(self.proto)
        model.graph.outputs[:] = [model.graph.outputs[number]]
        RemoveUnusedNodesPass()(model)
        RemoveUnusedOpsetsPass()(model)
        return model

    def nodes(self, number: int) -> list[Any]:
        return list(self.part(number).graph)

    def initializers(self, number: int) -> dict[str, np.ndarray]:
        return {name: value.const_value.numpy() for name, value in self.part(number).graph.initializers.items()}

    def run(self, feed: dict[str, torch.Tensor], number: int | None = None) -> list[np.ndarray]:
        proto = self.proto if number is None else ir.to_proto(self.part(number))
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, {each.name: feed[each.name].numpy() for each in session.get_inputs()})


def pair_sums(x: np.ndarray, width: int, offset: int, pairing: str) -> np.ndarray:
    """|first| + |second| of the pair of every channel that turns, 0 for the others."""
    sums = np.zeros(x.shape)
    part = np.abs(x[..., offset : offset + width].astype(np.float64))
    if pairing == "half":
        both = part[..., : width // 2] + part[..., width // 2 :]
        sums[..., offset : offset + width] = np.concatenate([both, both], -1)
    else:
        sums[..., offset : offset + width] = np.repeat(part[..., ::2] + part[..., 1::2], 2, -1)
    return sums


def rotation_bound(sums: np.ndarray, amplitude: float) -> np.ndarray:
    """How far two float32 rotations by one table may be apart: each rounds two products and a sum, or fuses a product into the sum.

    Products are at most amplitude |x|, the result at most amplitude (|first| + |second|): one rounding of the products more or less, and two of the sum.
    """
    return 3.0001 * ROUNDING[torch.float32] * amplitude * sums
