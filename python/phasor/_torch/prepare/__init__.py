# SPDX-License-Identifier: Apache-2.0
"""The step before attention for PyTorch: operators that write to caches, and, for training, one that does not and has gradients."""

from phasor._torch.prepare import gradient  # noqa: F401  (importing registers)
from phasor._torch.prepare.caches import list_beside, prepare_attention, prepared

__all__ = ["list_beside", "prepare_attention", "prepared"]
