# SPDX-License-Identifier: Apache-2.0
"""Encoders of transformers, trained with phasor.attention in the place of their own: the same losses."""

from __future__ import annotations

import sys
from pathlib import Path

from cases import DEVICE

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench/gpu"))


def test_encoders_learn_the_same() -> None:
    from training import MODELS, QUICK, trained_in_three_ways, worst_difference

    for name in MODELS:
        found = trained_in_three_ways(name, QUICK, DEVICE)
        theirs, ours = found["theirs"], found["ours"]
        assert worst_difference(theirs, ours) < 2**-8, (name, theirs.losses, ours.losses)  # a unit of bfloat16
        assert ours.losses != theirs.losses, f"{name}: its attention was not replaced"
