# SPDX-License-Identifier: Apache-2.0
"""The torchvision of PyPI is built with CUDA: beside a PyTorch without it its operators do not load, and it fails where it describes two of them.
They are declared here, before it is imported, and not implemented: what engines take of it (resizing images) are PyTorch's operations."""

import torch

_library = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
