# SPDX-License-Identifier: Apache-2.0
"""DTensor: how the operators may be sharded (over batch, tokens, heads), registered when the first DTensor is seen."""

from __future__ import annotations

import sys
from typing import Any


def any_sharded(args: tuple[Any, ...]) -> bool:
    """Whether there is a DTensor among the arguments."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and any(isinstance(x, module.DTensor) for x in args)
