# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers with phasor's rotation: patch, unpatch, register."""

from ._patch import patch, unpatch
from ._register import Registration, register
from ._report import Entry, Report

__all__ = ["Entry", "Registration", "Report", "patch", "register", "unpatch"]
