# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch tensors: where its tensors are, how operators carry a call, the operators and their gradients."""

from phasor._torch.attention.cached import cached_attention
from phasor._torch.attention.operators import attention, merge_attention, placed

__all__ = ["attention", "cached_attention", "merge_attention", "placed"]
