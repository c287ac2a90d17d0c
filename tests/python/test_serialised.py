# SPDX-License-Identifier: Apache-2.0
"""Specs as text: what comes back, what is refused, what operators carry, and that the page of the form says what is so."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

import phasor
from phasor import _additive, _bias_specs, _core, _spec
from phasor._attention import types

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = (ROOT / "tests" / "golden" / "specs_version_1.jsonl").read_text().splitlines()
PAGE = (ROOT / "docs" / "spec-format.md").read_text()

_TYPES = {
    name: kind
    for module in (_spec, _additive, _bias_specs, types)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


@pytest.mark.parametrize("text", GOLDEN, ids=lambda text: json.loads(text)["type"])
def test_texts_of_version_1_come_back(text: str) -> None:
    spec = phasor.spec_from_json(text)
    assert type(spec) is _TYPES[json.loads(text)["type"]]
    assert phasor.spec_to_json(spec) == text
    assert phasor.spec_from_json(json.dumps(json.loads(text), indent=2, sort_keys=True)) == spec


def test_equal_specs_have_equal_texts_and_words() -> None:
    one = phasor.Rotary(head_dim=8, base=1e4, scaling=phasor.Llama3Scaling())
    other = phasor.Rotary(head_dim=8, scaling=phasor.Llama3Scaling(factor=8.0, low_freq_factor=1))
    assert phasor.spec_to_json(one.spec) == phasor.spec_to_json(other.spec)
    assert one._core.words == other._core.words
    assert one._core.words != phasor.Rotary(head_dim=8)._core.words


def test_words_are_the_text_with_its_length_before_it() -> None:
    core = phasor.Rotary(head_dim=8, scaling=phasor.NtkScaling(2.5))._core
    text = phasor.spec_to_json(core.spec).encode()
    length, *words = core.words
    content = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
    assert length == len(text) and content == text + b"\0" * (-len(text) % 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "spec_from_json: line 1, byte 1: syntax error"),
        ('{"type":"RotarySpec"}', "phasor is missing, wanted 1"),
        ('{"phasor":2,"type":"RotarySpec","head_dim":8}', "phasor is 2, wanted 1"),
        ('{"phasor":1,"type":"Rotary"}', 'type is "Rotary", wanted RotarySpec, SinusoidalSpec, Alibi'),
        ('{"phasor":1,"type":"RotarySpec","head_dim":"8"}', 'head_dim is "8", wanted a whole number'),
        ('{"phasor":1,"type":"RotarySpec","heads":8}', "heads is no field of RotarySpec, wanted head_dim"),
        ('{"phasor":1,"type":"RotarySpec","head_dim":7}', "RotarySpec: head_dim is 7, wanted an even number"),
        ('{"phasor":1,"type":"Alibi","heads":8,"max_bias":NaN}', "Alibi: max_bias is"),
    ],
)
def test_what_is_no_spec_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        phasor.spec_from_json(text)


def test_what_is_no_valid_spec_has_no_text() -> None:
    with pytest.raises(ValueError, match="RotarySpec: head_dim is 7"):
        phasor.spec_to_json(phasor.RotarySpec(head_dim=7))
    with pytest.raises(TypeError, match="spec_to_json: is Rotary, wanted one of Alibi"):
        phasor.spec_to_json(phasor.Rotary(8))  # type: ignore[arg-type]


def test_words_that_are_no_spec_are_refused() -> None:
    words = phasor.Rotary(head_dim=8)._core.words
    sinusoidal = phasor.spec_to_json(phasor.SinusoidalSpec(width=8)).encode()
    packed = [int.from_bytes(sinusoidal[i : i + 8], "little") for i in range(0, len(sinusoidal), 8)]
    for bad, message in (
        ([], "there are no integers"),
        (words[:-1], "wanted as many as hold it"),
        ([*words, 0], "wanted as many as hold it"),
        ([-1, *words[1:]], "the length is -1 bytes"),
        ([2**62, *words[1:]], "the length is 4611686018427387904 bytes"),
        ([words[0] - 1, *words[1:]], "lies behind the text"),
        ([words[0], words[2], words[1], *words[3:]], "syntax error"),
        ([len(sinusoidal), *packed], "wanted RotarySpec"),
    ):
        with pytest.raises(ValueError, match=message):
            _core.rotary_from_words(torch.tensor(bad, dtype=torch.int64))


def test_operators_refuse_the_text_of_another_type() -> None:
    _ = phasor.nn  # its operators
    alibi = phasor.spec_to_json(phasor.Alibi(heads=2))
    with pytest.raises(ValueError, match='type is "Alibi", wanted SinusoidalSpec'):
        torch.ops.phasor.sinusoidal(torch.arange(3), alibi, torch.float32)
    with pytest.raises(ValueError, match='type is "SinusoidalSpec", wanted Alibi'):
        at = torch.arange(3)
        torch.ops.phasor.bias(at, at, phasor.spec_to_json(phasor.SinusoidalSpec(width=4)), torch.float32)


# ---- The page ----


def _tables() -> dict[str, list[list[str]]]:
    """The rows of each type's table on the page."""
    found: dict[str, list[list[str]]] = {}
    for section in re.split(r"^#+ ", PAGE, flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", section, re.MULTILINE)
        if rows:
            found[section.split()[0]] = [list(row) for row in rows]
    return found


@pytest.mark.parametrize("name", sorted(name for name, kind in _TYPES.items() if dataclasses.fields(kind) and name not in ("TableLayout", "XlSinusoids")))
def test_the_page_has_every_field_in_order(name: str) -> None:
    kind = _TYPES[name]
    assert [row[0] for row in _tables()[name]] == [field.name for field in dataclasses.fields(kind)]
    hints = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    for field, said, default in _tables()[name]:
        for value in re.findall(r"'(\w+)'|\"(\w+)\"", hints[field]):
            assert f"`{value[0] or value[1]}`" in said or said.startswith("the same"), (name, field)
        given = next(f.default for f in dataclasses.fields(kind) if f.name == field)
        if isinstance(given, (int, float)) and not isinstance(given, bool):
            assert float(default) == given, (name, field)
        elif isinstance(given, str):
            assert default == f"`{given}`", (name, field)


@pytest.mark.parametrize("text", re.findall(r"^```json\n(.*?)\n```", PAGE, re.MULTILINE))
def test_examples_on_the_page_are_specs(text: str) -> None:
    assert phasor.spec_from_json(text)
