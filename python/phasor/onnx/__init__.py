# SPDX-License-Identifier: Apache-2.0
"""PyTorch models with phasor's operators as ONNX files of standard operators (opset 23): docs/onnx.md."""

from phasor._needed import needed as _needed

_needed("torch", by="phasor.onnx")
_needed("onnxscript", by="phasor.onnx")

from phasor.onnx._export import export
from phasor.onnx._translations import translations

__all__ = ["export", "translations"]
