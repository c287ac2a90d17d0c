# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers with phasor's rotation (patch, unpatch, register, the hook that transformers has itself) and its attention."""

from phasor._needed import needed as _needed

_needed("torch", by="phasor.hf")

from ._attention import register_attention
from ._hook import kernel_mapping
from ._patch import patch, unpatch
from ._register import Registration, register
from ._report import Entry, Report

__all__ = ["Entry", "Registration", "Report", "kernel_mapping", "patch", "register", "register_attention", "unpatch"]
