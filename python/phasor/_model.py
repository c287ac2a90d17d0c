# SPDX-License-Identifier: Apache-2.0
"""What a model's files say about its positions: reading, explaining, comparing, exporting; weights between pairings."""

from __future__ import annotations

import json
import os
from typing import Any

from phasor import _core
from phasor._spec import RotarySpec
from phasor._types.model import Difference, LayerPositions, ModelPositions, PermuteOptions, PermuteReport

__all__ = [
    "detect_pairing",
    "diff",
    "explain",
    "explain_json",
    "permute_safetensors",
    "read_model",
    "rotary_spec_of",
    "to_gguf_keys",
    "to_hf_config",
]

# A path, JSON text, a dict, a transformers config, the bytes of a GGUF file, or what read_model made of one.
ModelSource = Any


def _plain(value: Any) -> Any:
    """What JSON has no word for, as transformers writes it into config.json."""
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    return str(value)  # dtypes and paths, which say nothing about positions


def _json_of(config: Any) -> str:
    if isinstance(config, dict):
        return json.dumps(config, default=_plain)
    if hasattr(config, "to_dict"):
        return json.dumps(config.to_dict(), default=_plain)
    raise TypeError(
        f"read_model: is {type(config).__name__}, wanted a path, JSON text, a dict, a transformers config or the bytes of a GGUF file"
    )


def _read_path(path: str, length: int) -> ModelPositions:
    try:
        return _core.read_model(path, length)
    except FileNotFoundError as error:
        if os.path.lexists(path):  # a folder without a config.json: the message says that
            raise
        raise FileNotFoundError(f"{error}; wanted a config.json, a folder that has one or a GGUF file (nothing is downloaded by a model's name)") from None


def read_model(source: ModelSource, *, length: int = 0) -> ModelPositions:
    """A model's positions, layer by layer.

    `source` is a path (a config.json, a folder that has one, a GGUF file), JSON text, a dict, a transformers config, or the bytes of a
    GGUF file. `length` is how many positions are in use, for dynamic NTK and LongRoPE's choice; 0: as many as were trained.

    >>> import phasor
    >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 5e5}
    >>> phasor.read_model(config).layers[1].rotary.head_dim
    16
    """
    if isinstance(source, ModelPositions):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _core.parse_gguf(bytes(source), length)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return _core.parse_hf_config(source, length)
    if isinstance(source, (str, os.PathLike)):
        return _read_path(os.fspath(source), length)
    return _core.parse_hf_config(_json_of(source), length)


def _layers_of(model: ModelPositions, tower: str | None) -> tuple[LayerPositions, ...]:
    if tower is None:
        return model.layers
    for one in model.towers:
        if one.name == tower:
            return one.layers
    names = ", ".join(one.name for one in model.towers) or "none"
    raise ValueError(f"read_model: has no tower {tower!r}, the model's are: {names}")


def rotary_spec_of(config: ModelSource, layer: int = 0, tower: str | None = None, length: int = 0) -> RotarySpec:
    """The rotary spec of a layer; a ValueError where it has none.

    >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    >>> rotary_spec_of(config, 1).base
    10000.0
    """
    model = read_model(config, length=length)
    layers = _layers_of(model, tower)
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"from_config: layer is {layer}, the model has {len(layers)}{'' if tower is None else f' in {tower}'}")
    rotary = layers[layer].rotary
    if rotary is None:
        raise ValueError(f"from_config: layer {layer} of {model.model_type or 'the model'} has no rotary encoding")
    return rotary


def explain(source: ModelSource, *, layer: int | None = None) -> str:
    """One screen of plain words: what the model does with positions, or one of its layers.

    >>> import phasor
    >>> config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16}
    >>> print(phasor.explain(config))  # doctest: +ELLIPSIS
    gpt2...
    """
    return _core.explain(read_model(source), layer)


def explain_json(source: ModelSource, *, layer: int | None = None) -> dict[str, Any]:
    """The same as data.

    >>> import phasor
    >>> config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16}
    >>> phasor.explain_json(config)["model_type"]
    'gpt2'
    """
    return json.loads(_core.explain_json(read_model(source), layer))


def diff(left: ModelSource, right: ModelSource) -> tuple[Difference, ...]:
    """What two models do differently with positions, whether it matters, and why.

    >>> import phasor
    >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    >>> [(one.left, one.right) for one in phasor.diff(config, {**config, "rope_theta": 5e5})]
    [('base 10,000, unscaled', 'base 500,000, unscaled')]
    """
    return _core.diff(read_model(left), read_model(right))


def to_hf_config(model: ModelSource) -> dict[str, Any]:
    """The model's positions as a Hugging Face v5 config.json; NotImplementedError for what that dialect cannot say.

    >>> import phasor
    >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    >>> phasor.to_hf_config(config)["rope_parameters"]["rope_theta"]
    10000
    """
    return json.loads(_core.to_hf_config(read_model(model)))


def to_gguf_keys(model: ModelSource, architecture: str) -> dict[str, Any]:
    """The same as GGUF keys and tensors for an architecture: {"keys": {name: {"type", "value"}}, "tensors": {...}}.

    >>> import phasor
    >>> config = {"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 1e6}
    >>> phasor.to_gguf_keys(config, "qwen2")["keys"]["qwen2.rope.freq_base"]
    {'type': 'f32', 'value': 1000000.0}
    """
    return json.loads(_core.to_gguf_keys(read_model(model), architecture))


def permute_safetensors(from_path: str | os.PathLike, to_path: str | os.PathLike, options: PermuteOptions) -> PermuteReport:
    """Writes a copy of a safetensors file whose q and k weights, biases and norms suit the other pairing: the same scores.

    >>> import phasor
    >>> options = phasor.PermuteOptions(source="half", target="interleaved", heads=4)
    >>> phasor.permute_safetensors("missing.safetensors", "out.safetensors", options)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileNotFoundError: ...
    """
    return _core.permute_safetensors(os.fspath(from_path), os.fspath(to_path), options)


def detect_pairing(left_path: str | os.PathLike, right_path: str | os.PathLike, shape: PermuteOptions) -> str:
    """How the q and k weights of two files of one model are related: same, half_to_interleaved, interleaved_to_half or different.

    >>> import phasor
    >>> phasor.detect_pairing("missing", "missing", phasor.PermuteOptions(heads=4))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileNotFoundError: ...
    """
    return _core.detect_pairing(os.fspath(left_path), os.fspath(right_path), shape)
