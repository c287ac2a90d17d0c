# SPDX-License-Identifier: Apache-2.0
"""A call of attention as operators carry it: tensors in one list, integers in another (they may be symbols), the rest in a text that is JSON.

Specs in it have the form of docs/spec-format.md, but for the version and for integers, which are in the list. Texts are made by plain
operations on strings, which compilers of Python programs follow where they do not follow the json module.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import torch
from torch import Tensor

from phasor import _bias_specs, _core, _position_types
from phasor._arrays import positions_argument
from phasor._bias import Bias
from phasor._rotary import Rotary
from phasor._torch.caches import cached
from phasor._torch.eager import words_of

_TYPES: dict[str, type] = {
    name: kind
    for module in (_bias_specs, _position_types)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}
_FIELDS: dict[str, tuple[str, ...]] = {name: tuple(field.name for field in dataclasses.fields(kind)) for name, kind in _TYPES.items()}
_BIASES = frozenset(kind.__name__ for kind in get_args(_bias_specs.BiasSpec))
_PARTS = frozenset(("Mlp", "Window"))

# Keys of arrays that may come as lists or NumPy's, too.
_INTEGERS = ("prefix", "query_starts", "key_starts", "query_positions", "key_positions", "query_segments", "key_segments", "key_mask")
_NUMBERS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # as the json module reads them


def _tensor(value: Tensor, tensors: list[Tensor], kind: str = "tensor") -> str:
    tensors.append(value)
    return f'{{"{kind}":{len(tensors) - 1}}}'


def _fields(names: Any, value_of: Any, lists: tuple[list[Tensor], list[int]]) -> str:
    parts = []
    for name in names:
        value = value_of(name)
        if value is not None:
            parts.append(f'"{name}":{_text(name, value, lists)}')
    return "{" + ",".join(parts) + "}"


def _text(key: str, value: Any, lists: tuple[list[Tensor], list[int]]) -> str:
    tensors, sizes = lists
    if isinstance(value, Tensor):
        return _tensor(value, tensors)
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, torch.SymInt)):
        sizes.append(value)
        return f'{{"size":{len(sizes) - 1}}}'
    if isinstance(value, float):
        return _NUMBERS.get(repr(value), repr(value))
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return _fields(value, value.__getitem__, lists)
    if key in _INTEGERS:
        return _tensor(torch.as_tensor(value if torch.compiler.is_compiling() else positions_argument(value)), tensors)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_text("", item, lists) for item in value]) + "]"
    if isinstance(value, Rotary):
        return _tensor(words_of(value), tensors, "rotary")
    return _object(value, lists)


def _object(value: Any, lists: tuple[list[Tensor], list[int]]) -> str:
    """A spec, a map or an array of another library. What is never but of one type, a part of a spec, does not name it."""
    if isinstance(value, Bias):
        value = value.spec
    name = type(value).__name__
    if name in _FIELDS:
        members = _fields(_FIELDS[name], lambda field: getattr(value, field), lists)
        return members if name in _PARTS else f'{{"type":"{name}",{members[1:]}'
    return _tensor(torch.as_tensor(value), lists[0])


def encoded(spec: dict[str, Any]) -> tuple[list[Tensor], list[int], str]:
    """The tensors, the integers and the text of a spec."""
    tensors: list[Tensor] = []
    sizes: list[int] = []
    text = _text("spec", spec, (tensors, sizes))
    return tensors, sizes, text


# ---- And back ----


def _made(value: Any, sizes: tuple[int, ...]) -> Any:
    """JSON's value as a spec has it, but for tensors."""
    if isinstance(value, list):
        return [_made(item, sizes) for item in value]
    if not isinstance(value, dict):
        return value
    if "size" in value:
        return sizes[value["size"]]
    members = {key: _made(item, sizes) for key, item in value.items()}
    name = members.get("type")
    if name is None:
        return members
    if name in _BIASES:  # members of biases are numbers, texts and lists of them: JSON again
        return _core.bias_from_json(json.dumps({"phasor": 1, **members}))
    del members["type"]
    return _TYPES[name](**members)


@cached
def template(text: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """The spec of a text, its tensors as their numbers: made once."""
    try:
        return _made(json.loads(text), sizes)
    except (KeyError, TypeError, IndexError, json.JSONDecodeError):
        shown = text if len(text) < 80 else text[:77] + "..."
        raise ValueError(f"attention: spec is {shown!r}, wanted the text that phasor.attention makes") from None


def filled(value: Any, tensors: list[Tensor]) -> Any:
    """The same with the tensors."""
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        if len(value) == 1 and isinstance(value.get("rotary"), int):
            return _core.rotary_from_words(tensors[value["rotary"]])
        return {key: filled(item, tensors) for key, item in value.items()}
    return [filled(item, tensors) for item in value] if isinstance(value, list) else value
