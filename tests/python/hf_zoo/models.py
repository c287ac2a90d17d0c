# SPDX-License-Identifier: Apache-2.0
"""Which model types of the installed transformers use rotary encoding, and a tiny random model of each."""

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES, model_type_to_module_name

from .overrides import CLASSES
from .shrink import shrink

HEADS = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CTC")


@functools.cache
def rotary_folders() -> list[str]:
    """The folders of transformers whose models mention a rotation."""
    root = Path(transformers.__file__).parent / "models"
    files = sorted(root.glob("*/modeling_*.py"))
    return sorted({f.parent.name for f in files if re.search(r"apply_rotary|rotate_half|freqs_cis|rotary", f.read_text())})


@functools.cache
def model_types() -> list[str]:
    """Every model type of those folders, towers included."""
    folders = set(rotary_folders())
    return sorted(t for t in CONFIG_MAPPING_NAMES if model_type_to_module_name(t) in folders)


def model_class(model_type: str) -> type | None:
    """The class to build: with a language head if there is one, else the first of its modeling file; None for parts of other models."""
    if model_type in CLASSES:
        return getattr(transformers, CLASSES[model_type])
    mappings = [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES") for head in HEADS] + [modeling_auto.MODEL_MAPPING_NAMES]
    for mapping in mappings:
        name = mapping.get(model_type)
        name = name if name is None or isinstance(name, str) else name[0]
        if name and hasattr(transformers, name):
            return getattr(transformers, name)
    return scanned_class(model_type)


def scanned_class(model_type: str) -> type | None:
    """A class of the modeling file that is made for this config and is not abstract."""
    folder = model_type_to_module_name(model_type)
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    wanted = CONFIG_MAPPING[model_type]
    for _, thing in inspect.getmembers(module, inspect.isclass):
        made_for = getattr(thing, "config_class", None) or getattr(thing, "config", None)
        if issubclass(thing, transformers.PreTrainedModel) and made_for is wanted and "forward" in vars(thing):
            return thing
    return None


def build(model_type: str, seed: int = 0) -> Any:
    """A tiny random model in float32, ready to run; None when the type has no model of its own."""
    chosen = model_class(model_type)
    if chosen is None:
        return None
    config = shrink(CONFIG_MAPPING[model_type])
    torch.manual_seed(seed)
    return chosen(config).eval().float()
