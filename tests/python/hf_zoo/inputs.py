# SPDX-License-Identifier: Apache-2.0
"""Inputs for any model, by the parameters of its forward."""

import inspect
from typing import Any

from .samples import TOKENS, attribute, image, normal, patches, token_ids
from .special_inputs import SPECIAL


def inputs_for(model: Any) -> dict[str, Any]:
    """Keywords for a call of the model."""
    if model.config.model_type in SPECIAL:
        return SPECIAL[model.config.model_type](model)
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
