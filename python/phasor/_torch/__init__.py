# SPDX-License-Identifier: Apache-2.0
"""PyTorch: registered operators with gradients, and the short way past the dispatcher for eager calls."""

import torch
from torch import _C
from torch.autograd import forward_ad

from phasor import _core

_core.use_torch(torch.Tensor, torch.nn.Parameter)
_core.watch_torch(
    (_C._are_functorch_transforms_active, _C._len_torch_dispatch_stack, _C._len_torch_function_stack, _C._is_tracing),
    forward_ad,
    _C.is_inference_mode_enabled,
    _C.is_grad_enabled,
    _C._increment_version,
)

from phasor._torch import additive, autograd, bias, learned, vmap  # noqa: E402, F401  (importing registers)
from phasor._torch.attention import attention, detached, merge_attention  # noqa: E402
from phasor._torch.eager import (  # noqa: E402
    cos_sin,
    learned_rotary,
    output,
    positions_and_first,
    rerotate_,
    rotary,
    rotary_,
    tables,
    tables_,
    words_of,
    words_of_core,
)
from phasor._torch.plain import TYPES  # noqa: E402
from phasor._torch.spec_text import text_of  # noqa: E402

__all__ = [
    "TYPES",
    "attention",
    "cos_sin",
    "detached",
    "learned_rotary",
    "merge_attention",
    "output",
    "positions_and_first",
    "rerotate_",
    "rotary",
    "rotary_",
    "tables",
    "tables_",
    "text_of",
    "words_of",
    "words_of_core",
]
