# SPDX-License-Identifier: Apache-2.0
"""A call of attention as operators carry it: tensors in one list, integers in another (they may be symbols), the rest in a text that is JSON.

The text is {"scheme": ..., "tensors": ..., "out_dtype": ..., "deterministic": ...}: the scheme has the form of docs/spec-format.md, but for the version and for integers,
which are in the list; the tensors are named as the core names them. Texts are made by plain operations on strings, which compilers of Python
programs follow where they do not follow the json module.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._attention import types
from phasor._arrays import positions_argument
from phasor._attention import Call
from phasor._torch.caches import cached

_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field.name for field in dataclasses.fields(kind))
    for name, kind in vars(types).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}
_PARTS = frozenset(("Axes", "Mlp", "RotarySpec", "Window"))  # of a struct that is always of this type: it is not named
_NUMBERS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # as the json module reads them


def _values(value: Any, sizes: list[int]) -> str:
    """A value of a scheme."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, torch.SymInt)):
        sizes.append(value)
        return f'{{"size":{len(sizes) - 1}}}'
    if isinstance(value, float):
        return _NUMBERS.get(repr(value), repr(value))
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_values(item, sizes) for item in value]) + "]"
    name = type(value).__name__
    if name not in _FIELDS:
        raise TypeError(f"attention: a scheme holds {name}, wanted numbers and specs of phasor")
    parts = [] if name in _PARTS else [f'"type":"{name}"']
    for field in _FIELDS[name]:
        member = getattr(value, field)
        if member is not None:
            parts.append(f'"{field}":{_values(member, sizes)}')
    return "{" + ",".join(parts) + "}"


def _tensor(value: Any, lists: tuple[list[Tensor], list[int]]) -> str:
    """A tensor, or the first of consecutive positions."""
    tensors, sizes = lists
    if isinstance(value, (int, torch.SymInt)):
        sizes.append(value)
        return f'{{"size":{len(sizes) - 1}}}'
    if not isinstance(value, Tensor):
        value = torch.as_tensor(value if torch.compiler.is_compiling() else positions_argument(value))
    tensors.append(value)
    return str(len(tensors) - 1)


def _tensors(named: dict[str, Any], lists: tuple[list[Tensor], list[int]]) -> str:
    return "{" + ",".join([f'"{name}":{_tensor(value, lists)}' for name, value in named.items() if value is not None]) + "}"


def encoded(call: Call) -> tuple[list[Tensor], list[int], str]:
    """The tensors, the integers and the text of a call."""
    tensors: list[Tensor] = []
    sizes: list[int] = []
    lists = (tensors, sizes)
    scheme = _values(call.scheme, sizes)
    terms = "[" + ",".join([_tensors(term, lists) for term in call.tensors["terms"]]) + "]"
    alone = _tensors({name: value for name, value in call.tensors.items() if name != "terms"}, lists)
    dtype = "null" if call.out_dtype is None else f'"{call.out_dtype}"'
    return tensors, sizes, f'{{"scheme":{scheme},"terms":{terms},"tensors":{alone},"out_dtype":{dtype},"deterministic":{"true" if call.deterministic else "false"}}}'


# ---- And back ----


def sized(value: Any, sizes: tuple[int, ...]) -> Any:
    """The same with the integers of the list."""
    if isinstance(value, list):
        return [sized(item, sizes) for item in value]
    if not isinstance(value, dict):
        return value
    return sizes[value["size"]] if "size" in value else {key: sized(item, sizes) for key, item in value.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class Template:
    """A call whose tensors are numbers in a list; integers are in brackets, to tell them from those."""

    plan: Any
    terms: list[dict[str, int]]
    tensors: dict[str, Any]
    out_dtype: str | None
    deterministic: bool

    def filled(self, tensors: list[Tensor]) -> dict[str, Any]:
        """What the core takes."""
        result: dict[str, Any] = {"terms": [{name: tensors[n].detach() for name, n in term.items()} for term in self.terms]}
        for name, n in self.tensors.items():
            result[name] = n[0] if isinstance(n, list) else tensors[n].detach()
        return result


@cached
def template(text: str, sizes: tuple[int, ...]) -> Template:
    """The call of a text: made once."""
    try:
        read = json.loads(text)
        scheme = {"phasor": 1, **sized(read["scheme"], sizes)}
        tensors = {name: [sizes[n["size"]]] if isinstance(n, dict) else n for name, n in read["tensors"].items()}
        made = (read["terms"], tensors, read["out_dtype"], read["deterministic"])
    except (KeyError, TypeError, IndexError, json.JSONDecodeError):
        shown = text if len(text) < 80 else text[:77] + "..."
        raise ValueError(f"attention: spec is {shown!r}, wanted the text that phasor.attention makes") from None
    return Template(_core.attention_from_json(json.dumps(scheme)), *made)
