# SPDX-License-Identifier: Apache-2.0
"""`python -m lab --quick`: every encoding trained and measured, every label at every length, and numbers that can be."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab.__main__ import main  # noqa: E402
from lab.batches import Source  # noqa: E402
from lab.encodings import TRAINED, file_name  # noqa: E402
from lab.encodings.changed import MAPS, SCALINGS, TUNED  # noqa: E402
from lab.presets import QUICK  # noqa: E402

Result = dict[str, Any]
PARTS = ("trained", "measured", "language", "retrieval", "numerics", "cost", "refused")


@pytest.fixture(scope="module")
def told() -> list[str]:
    """The last line that the command says."""
    return []


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, told: list[str]) -> dict[str, Result]:
    out, words = tmp_path_factory.mktemp("lab"), io.StringIO()
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        with contextlib.redirect_stdout(words), torch.backends.mkldnn.flags(enabled=True):  # as a fresh process has it: other tests may leave it off (settled.py)
            assert main(["--quick", "--out", str(out)]) == 0
    finally:
        torch.use_deterministic_algorithms(deterministic)
    told.append(words.getvalue().splitlines()[-1])
    return {name: json.loads((out / "results/quick" / file_name(name, 0)).read_text()) for name in TRAINED}


def by_length(result: Result, label: str, tuned: bool = False) -> dict[float, Result]:
    return {row["multiple"]: row for row in result["measured"] if row["label"] == label and row["tuned"] == tuned}


def test_every_encoding_is_measured_at_every_length(results: dict[str, Result]) -> None:
    for name, result in results.items():
        assert result["encoding"] == name and all(part in result for part in PARTS)
        wanted = [multiple for multiple in QUICK.multiples if name != "learned" or multiple <= 1]
        assert list(by_length(result, name)) == wanted
        assert result["data"] == Source().store.hash and result["settings"]["shape"]["width"] == QUICK.shape.width
        assert [row["multiple"] for row in result["language"] if row["label"] == name] == wanted
        assert {row["task"] for row in result["retrieval"]} <= {"passkey", "needles", "tracing", "copying", "counting"}
        assert result["retrieval"] or name == "learned"


def test_rotary_is_measured_with_every_change(results: dict[str, Result]) -> None:
    result = results["rotary"]
    for how in (*SCALINGS, "longrope", *MAPS):
        assert list(by_length(result, f"rotary, {how}")) == [*((1,) if how in MAPS else ()), *QUICK.changes.multiples]
        assert list(by_length(result, f"rotary, {how}", tuned=True)) == ([*QUICK.changes.tune_multiples] if how in TUNED else [])
    assert set(result["longrope_factors"]) == {"2", "4"}
    assert {(row["length"], row["shift"]) for row in result["numerics"]} == {(32, 0), (32, 1_000_000), (64, 0), (64, 1_000_000)}
    assert len(result["numerics"]) == 12 and not results["none"]["numerics"]


def test_losses_are_finite_and_over_the_floor(results: dict[str, Result]) -> None:
    uniform = math.log(Source().store.vocabulary)
    for name, result in results.items():
        assert result["trained"]["final_loss"] < uniform - 0.5, name
        for row in (*result["measured"], *result["language"]):
            assert math.isfinite(row["loss"]) and row.get("over", 1) > 0
        at_one = by_length(result, name)[1]
        assert at_one["loss"] < uniform - 0.5 and at_one["last"] == pytest.approx(at_one["loss"])
        assert len(at_one["by_position"]) == 32


def test_a_learned_table_ends_and_the_hierarchical_one_does_not(results: dict[str, Result]) -> None:
    result = results["learned"]
    refused = {row["length"]: row["message"] for row in result["refused"] if row["label"] == "learned"}
    assert set(refused) == {64, 128} and "the table has 32 rows, 0 to 31" in refused[64]
    longer = by_length(result, "hierarchical")
    assert list(longer) == list(QUICK.multiples) and longer[1]["loss"] == by_length(result, "learned")[1]["loss"]


def test_nothing_else_is_refused(results: dict[str, Result]) -> None:
    for name, result in results.items():
        assert [row for row in result["refused"] if row["label"] != "learned"] == [], name


def test_both_pairings_end_alike(results: dict[str, Result]) -> None:
    for multiple in QUICK.multiples:
        both = [by_length(results[name], name)[multiple]["loss"] for name in ("rotary", "rotary adjacent")]
        assert both[0] == pytest.approx(both[1], abs=2e-3)


def test_the_command_says_how_long_it_took(results: dict[str, Result], told: list[str]) -> None:
    """No bound: on a machine that others use it takes many times as long."""
    found = re.fullmatch(r"lab: --quick: (\d+) s", told[0])
    assert found and int(found[1]) + 1 > sum(result["seconds"] for result in results.values())


def test_costs_are_there(results: dict[str, Result]) -> None:
    for name, result in results.items():
        assert result["cost"]["attention_path"] and result["trained"]["tokens_per_second"] > 0 and result["lanes"] == 1, name
