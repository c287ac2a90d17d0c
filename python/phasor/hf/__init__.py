# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers with phasor's rotation: patch, unpatch, register."""

from ._patch import patch, unpatch
from ._report import Entry, Report

__all__ = ["Entry", "Report", "patch", "unpatch"]
