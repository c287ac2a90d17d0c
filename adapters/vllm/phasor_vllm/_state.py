# SPDX-License-Identifier: Apache-2.0
"""What a process knows: how often layers were turned by phasor, and which profile is wanted."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import torch
from phasor.engines import profile_named

VARIABLE = "PHASOR_VLLM_PROFILE"
OPTION = "phasor_profile"

# Calls of layers turned by phasor, by the class's name. Those from a compiled graph go past Python and are not counted: a profiler
# sees them as phasor::rotary and phasor::rotary_tables.
calls: Counter[str] = Counter()


def count(name: str) -> None:
    """One more call; nothing that a compiler could see."""
    if not torch.compiler.is_compiling():
        calls[name] += 1


def profile_by_environment() -> str:
    return profile_named(VARIABLE, os.environ.get(VARIABLE, "") or "vllm", "vllm")


def profile_of(config: Any) -> str:
    """The profile that a vLLM config says, or else the environment."""
    said = getattr(config, "additional_config", None)
    if isinstance(said, dict) and OPTION in said:
        return profile_named(f"additional_config[{OPTION!r}]", said[OPTION], "vllm")
    return profile_by_environment()
