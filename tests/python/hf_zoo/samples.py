# SPDX-License-Identifier: Apache-2.0
"""Small inputs: token ids, images, patches with their grid, always the same numbers."""

from typing import Any

import torch

from .shrink import FIRST_SPECIAL

TOKENS = 9


def attribute(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these attributes that the config has, vision and audio parts included."""
    for part in (config, *(getattr(config, f"{kind}_config", None) for kind in ("vision", "audio", "encoder"))):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def token_ids(batch: int = 2, tokens: int = TOKENS) -> torch.Tensor:
    """Ordinary tokens: no padding, none that stands for an image."""
    return torch.randint(20, FIRST_SPECIAL - 10, (batch, tokens), generator=torch.Generator().manual_seed(3))


def normal(*shape: int) -> torch.Tensor:
    """Random numbers, the same every time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


def patches(model: Any) -> dict[str, Any]:
    """Flattened patches of two images and their grids, as Qwen's vision towers take them."""
    config = model.config
    size = attribute(config, "patch_size", default=14)
    time = attribute(config, "temporal_patch_size", default=1)
    channels = attribute(config, "in_channels", "in_chans", "num_channels", default=3)
    grid = torch.tensor([[1, 4, 4], [1, 4, 8]])
    return {"patches": normal(48, channels * time * size * size), "grid": grid}


def image(config: Any) -> torch.Tensor:
    """One image of the size that the config says."""
    size = attribute(config, "image_size", default=32)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return normal(1, attribute(config, "num_channels", "in_channels", default=3), height, width)
