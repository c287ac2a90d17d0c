# SPDX-License-Identifier: Apache-2.0
"""Fields of configs that the shrinker cannot guess, by model type."""

from typing import Any

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1}
OVERRIDES: dict[str, dict[str, Any]] = {
    "bamba": MAMBA,
    "granitemoehybrid": MAMBA,
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1},
}

# Inputs that cannot be guessed from the parameters of forward.
INPUTS: dict[str, Any] = {}
