# SPDX-License-Identifier: Apache-2.0
"""Small inputs for any model: token ids, images, patches with their grid, sound, by the parameters of its forward."""

import inspect
from typing import Any

import torch

from .shrink import FIRST_SPECIAL

TOKENS = 9


def attribute(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these attributes that the config has, vision and audio parts included."""
    for part in (config, getattr(config, "vision_config", None), getattr(config, "audio_config", None), getattr(config, "encoder_config", None)):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def token_ids(batch: int = 2, tokens: int = TOKENS) -> torch.Tensor:
    """Ordinary tokens: no padding, no placeholder of an image."""
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


def inputs_for(model: Any) -> dict[str, Any]:
    """Keywords for a call of the model."""
    from .overrides import INPUTS

    special = INPUTS.get(model.config.model_type)
    if special is not None:
        return special(model)
    taken = inspect.signature(model.forward).parameters
    if "grid_thw" in taken or "image_grid_thw" in taken and "input_ids" not in taken:
        made = patches(model)
        first = next(name for name in taken if name != "self")
        return {first: made["patches"], "grid_thw" if "grid_thw" in taken else "image_grid_thw": made["grid"]}
    if "input_ids" in taken:
        given = {"input_ids": token_ids()}
        if getattr(model.config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
            given["decoder_input_ids"] = token_ids(tokens=7)
        return given
    if "pixel_values" in taken:
        return {"pixel_values": image(model.config)}
    if "input_features" in taken:
        mels = attribute(model.config, "num_mel_bins", "feature_size", "n_mels", "input_channels", default=80)
        return {"input_features": normal(1, 40, mels)}
    if "input_values" in taken:
        return {"input_values": normal(1, 1600)}
    if "inputs_embeds" in taken:
        return {"inputs_embeds": normal(2, TOKENS, model.config.hidden_size)}
    raise LookupError(f"no inputs known for {type(model).__name__}, which takes {list(taken)}")
