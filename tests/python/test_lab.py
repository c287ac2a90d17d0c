# SPDX-License-Identifier: Apache-2.0
"""The lab: its language is what it says, its runs repeat, and `--quick` finds something for every encoding."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from lab import corpus, eager, measure, model  # noqa: E402
from lab.__main__ import QUICK, main  # noqa: E402
from lab.encodings import MAPS, SCALINGS, TRAINED  # noqa: E402

Row = dict[str, Any]


def run(*arguments: str) -> None:
    """The lab as a fresh process has it: PyTorch without oneDNN, as other tests may leave it (settled.py), rounds otherwise."""
    with torch.backends.mkldnn.flags(enabled=True):
        main(["--quick", *arguments])


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Row:
    out = tmp_path_factory.mktemp("lab")
    run("--jobs", "1", "--out", str(out))
    assert (out / "lab.png").read_bytes().startswith(b"\x89PNG")
    assert "| floor" in (out / "lab.md").read_text()
    return json.loads((out / "lab.json").read_text())


def runs_of(result: Row, name: str) -> dict[float, Row]:
    return {row["multiple"]: row for row in result["runs"] if row["encoding"] == name}


def test_every_encoding_is_measured_at_every_length(result: Row) -> None:
    scaled = {f"rotary, {name}" for name in (*SCALINGS, "longrope", "longrope evolved", *MAPS)}
    wanted = {*TRAINED, "hierarchical", *scaled}
    assert {row["encoding"] for row in result["runs"]} == wanted == {row["encoding"] for row in result["summary"]}
    for name in wanted:
        assert list(runs_of(result, name)) == [1, 1.5, 2, 8]


def test_losses_are_between_the_floor_and_a_guess(result: Row) -> None:
    for row in result["runs"]:
        if "error" in row:
            continue
        assert math.isfinite(row["loss"])
        assert row["over"] > 0
        if row["multiple"] == 1:
            assert row["loss"] < result["uniform"] - 0.5, row["encoding"]
            assert row["loss"] == pytest.approx(row["over"] + result["floor"]["1"])


def test_a_learned_table_ends_and_the_hierarchical_one_does_not(result: Row) -> None:
    learned, hierarchical = runs_of(result, "learned"), runs_of(result, "hierarchical")
    for multiple in (1.5, 2, 8):
        assert learned[multiple]["error"] == "lookup_add: token 32 of batch row 0 is at position 32, the table has 32 rows, 0 to 31"
        assert math.isfinite(hierarchical[multiple]["loss"])
    assert learned[1]["loss"] == hierarchical[1]["loss"]


def test_at_the_trained_length_no_scaling_changes_anything(result: Row) -> None:
    for name in (*SCALINGS, "longrope", "longrope evolved"):
        assert runs_of(result, f"rotary, {name}")[1]["loss"] == runs_of(result, "rotary")[1]["loss"]
    for name in ("leaky rerope", "self-extend"):  # these rotate inside attention: the same but for rounding
        assert runs_of(result, f"rotary, {name}")[1]["loss"] == pytest.approx(runs_of(result, "rotary")[1]["loss"], rel=1e-5)


def test_evolved_factors_never_fall(result: Row) -> None:
    for multiple, row in runs_of(result, "rotary, longrope evolved").items():
        assert len(row["factors"]) == QUICK.shape.head_dim // 2
        assert 1 <= row["factors"][0] and row["factors"] == sorted(row["factors"]) and row["factors"][-1] <= 1.25 * multiple
        assert multiple > 1 or row["factors"][-1] == 1


def test_the_evolution_is_no_worse_than_what_it_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the documents that it searches with: its first candidates are PI, NTK and YaRN."""
    seen: list[Any] = []

    def watched(*given: Any, **options: Any) -> Any:
        seen.append(longrope_search(*given, **options))
        return seen[-1]

    longrope_search = measure.phasor.search.longrope
    monkeypatch.setattr(measure.phasor.search, "longrope", watched)
    torch.manual_seed(3)
    measure._evolved(measure.Model(QUICK.shape, corpus.VOCABULARY, TRAINED["rotary"](QUICK.shape)), 8, QUICK)
    (found,) = seen
    assert len(found.evaluations) > 50
    assert found.loss <= min(one.loss for one in found.evaluations[:3])


def test_a_seed_gives_the_same_numbers_in_any_process(result: Row, tmp_path: Path) -> None:
    run("--only", "t5", "--jobs", "2", "--out", str(tmp_path))
    again = json.loads((tmp_path / "lab.json").read_text())["runs"]
    assert again == [row for row in result["runs"] if row["encoding"] == "t5"]


def read(tokens: list[str]) -> list[float]:
    """The chance of every token given those before it, by a plain reader of one document: nothing of the writer's but its numbers."""
    chances: list[float] = []
    stack: list[str] = []
    value: dict[str, str] = {}
    at = 0

    def see(chance: float) -> str:
        nonlocal at
        chances.append(chance)
        at += 1
        return tokens[at - 1]

    while at < len(tokens):
        word, opened, closed, assigned, keyed, copied = 0.18, 0.13, 0.15, 0.18, 0.26, 0.10
        opened, closed, keyed = opened * (len(stack) < 3), closed * bool(stack), keyed * bool(value)
        all_of_them = word + opened + closed + assigned + keyed + copied
        begun = tokens[at]
        if begun in "abcdefghijkl":
            see(word / all_of_them / 12)
            two = [12, corpus.NAMES.index(begun)]
            while at < len(tokens) and tokens[at - 1] != "_":
                token = corpus.NAMES.index(tokens[at])
                see(corpus.MARKOV[two[0], two[1], token])
                two = [two[1], token]
        elif begun in "([{":
            stack.append(see(opened / all_of_them / 3))
        elif begun in ")]}":
            assert "([{".index(stack.pop()) == ")]}".index(see(closed / all_of_them))
        elif "=" in begun:
            key, given = see(assigned / all_of_them / 25).strip().split("=")
            value[key] = given
        elif begun in "ABCDE":
            key = see(keyed / all_of_them / len(value))
            assert at == len(tokens) or see(1.0) == value[key]
        else:
            assert see(copied / all_of_them) == "#"
            source: list[str] = []
            while at < len(tokens) and tokens[at] != "|":
                source.append(see((1.0 if len(source) < 3 else 0.75) / 12))
            assert at == len(tokens) or see(1.0 if len(source) == 8 else 0.25) == "|"
            for letter in source[: len(tokens) - at]:
                assert see(1.0) == letter
    return chances


def test_the_floor_is_the_language_s_own() -> None:
    documents = corpus.documents(50, 200, (3,), near=64)
    for document in range(50):
        chances = read([corpus.NAMES[token] for token in documents.tokens[document]])
        np.testing.assert_allclose(-np.log(chances), documents.surprisal[document], rtol=1e-12, atol=1e-12)


def test_far_recalls_are_those_whose_assignment_is_far() -> None:
    documents = corpus.documents(50, 200, (4,), near=64)
    seen = 0
    for tokens, parts in zip(documents.tokens, documents.part):
        names = [corpus.NAMES[token] for token in tokens]
        for at in np.flatnonzero((parts == corpus.RECALL_NEAR) | (parts == corpus.RECALL_FAR)):
            assigned = max(i for i in range(at) if names[i].startswith(names[at - 1] + "="))
            assert names[assigned].strip() == f"{names[at - 1]}={names[at]}"
            assert (parts[at] == corpus.RECALL_FAR) == (at - assigned >= 64)
            seen += 1
    assert seen > 500


def test_training_the_table_is_training_its_extension() -> None:
    one, other = (measure.Model(QUICK.shape, corpus.VOCABULARY, TRAINED["learned"](QUICK.shape)) for _ in range(2))
    other.load_state_dict(one.state_dict())
    other.encoding.module.length = 8 * QUICK.shape.length
    tokens = torch.from_numpy(QUICK.test(1).tokens)
    for each in (one, other):
        measure._losses(each, tokens).mean().backward()
    assert torch.equal(one.encoding.module.weight.grad, other.encoding.module.weight.grad)


@pytest.mark.parametrize("name", TRAINED)
def test_the_library_s_attention_gives_the_loss_of_the_papers_formulas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, past the clips and buckets too."""
    torch.manual_seed(5)
    made = measure.Model(QUICK.shape, corpus.VOCABULARY, TRAINED[name](QUICK.shape))
    for layer in made.layers:
        layer.mlp[1] = torch.nn.SiLU()  # ReLU's gradient jumps: one activation that rounding takes past 0 would be all of a difference
    for parameter in made.encoding.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # a table of zeros would not show
    tokens = torch.from_numpy(QUICK.test(1 if name == "learned" else 2).tokens)
    found = []
    for attention in (model.phasor.attention, eager.attention):
        monkeypatch.setattr(model.phasor, "attention", attention)
        made.zero_grad()
        loss = measure._losses(made, tokens)
        loss.mean().backward()
        found.append([loss.detach(), *(parameter.grad.clone() for parameter in made.parameters())])
    for ours, theirs in zip(*found):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
