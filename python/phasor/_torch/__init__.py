# SPDX-License-Identifier: Apache-2.0
"""PyTorch: registered operators with gradients, and the short way past the dispatcher for eager calls."""

import torch
from torch.autograd import forward_ad

from phasor import _core
from phasor._torch import private

_core.use_torch(torch.Tensor, torch.nn.Parameter)
if private.CAN_ASK:
    _core.watch_torch(
        private.SILENT, forward_ad, torch.is_inference_mode_enabled, torch.is_grad_enabled, private.increment_version
    )

from phasor._torch import additive, autograd, bias, learned, vmap  # noqa: E402, F401  (importing registers)
from phasor._torch.attention import attention, cached_attention, merge_attention, placed  # noqa: E402
from phasor._torch.eager import (  # noqa: E402
    cos_sin,
    learned_rotary,
    output,
    positions_and_first,
    rotary,
    rotary_,
    tables,
    tables_,
    words_of,
    words_of_core,
)
from phasor._torch.moves import rerotate_  # noqa: E402
from phasor._torch.plain import TYPES  # noqa: E402
from phasor._torch.prepare import list_beside, prepare_attention, prepared  # noqa: E402
from phasor._torch.rows import rotaries, rotaries_  # noqa: E402
from phasor._torch.sharding import refuse, seen  # noqa: E402
from phasor._torch.spec_text import text_of  # noqa: E402
from phasor._torch import shard_rules  # noqa: E402, F401  (importing registers, for operators that are there)
from phasor._torch.prepare import shards, vmap as prepare_vmap  # noqa: E402, F401  (the same)

__all__ = [
    "TYPES",
    "attention",
    "cached_attention",
    "cos_sin",
    "learned_rotary",
    "list_beside",
    "merge_attention",
    "output",
    "placed",
    "positions_and_first",
    "prepare_attention",
    "prepared",
    "refuse",
    "rerotate_",
    "rotaries",
    "rotaries_",
    "rotary",
    "rotary_",
    "seen",
    "tables",
    "tables_",
    "text_of",
    "words_of",
    "words_of_core",
]
