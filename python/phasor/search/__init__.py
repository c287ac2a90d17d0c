# SPDX-License-Identifier: Apache-2.0
"""Searches for the numbers of a spec by a loss that the caller computes: LongRoPE's evolution of factors, and one field on a line. docs/factor-search.md."""

from phasor.search._evaluate import Evaluation, Result
from phasor.search._line import line
from phasor.search._longrope import longrope

__all__ = ["Evaluation", "Result", "line", "longrope"]
