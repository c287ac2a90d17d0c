# SPDX-License-Identifier: Apache-2.0
"""What the report says a longer text gives: read where as much stands before a token at the trained length as at any other, and judged by that."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import made_up  # noqa: E402

from lab.report import build, claims, ends, papers, short, state  # noqa: E402
from lab.report.labels import CONTROLS, RANKED, RUNS  # noqa: E402
from lab.report.losses import end_loss, last_loss, tokens_told  # noqa: E402
from lab.report.results import Results, read_all  # noqa: E402

Row = dict[str, Any]
TABLE_1 = next(one for one in claims.CLAIMS if one.paper.startswith("YaRN, table 1,"))


def made(folder: Path, change: Callable[[Row], None] = lambda row: None, encodings: tuple[str, ...] = ("rotary", "alibi"), seeds: tuple[int, ...] = (0, 1, 2)) -> Results:
    """Made-up results with each of their rows of text changed."""
    made_up.write(folder, seeds, encodings)
    for path in (folder / "small").glob("*.json"):
        run = json.loads(path.read_text())
        for row in run["measured"]:
            change(row)
        path.write_text(json.dumps(run))
    return read_all(folder)["small"]


def cells(lines: list[str], label: str) -> list[str]:
    return next([cell.strip() for cell in line.split("|")[2:-1]] for line in lines if line.startswith(f"| {label} "))


def test_the_end_is_of_the_tokens_that_all_bins_tell(tmp_path: Path) -> None:
    def counted(row: Row) -> None:  # each bin is its own last token's place, from the end
        row["by_position"] = [float(row["length"] - (number + 1) * row["length"] / 64) for number in range(64)]

    found = made(tmp_path, counted)
    assert [tokens_told(found, one) for one in (0.5, 1, 1.5, 2, 4, 8, 16)] == [64, 64, 60, 64, 64, 64, 0]
    assert tokens_told(found, 1, 1.5) == 48 and tokens_told(found, 1, 3) == 0
    assert end_loss(found, "alibi", 1)[0] == sum(range(0, 64, 8)) / 8 and end_loss(found, "alibi", 8)[0] == 0
    assert end_loss(found, "alibi", 1.5, beside=(1,))[0] == sum(range(0, 48, 12)) / 4 and end_loss(found, "alibi", 1, beside=(1.5,))[0] == sum(range(0, 48, 8)) / 6
    assert end_loss(found, "alibi", 16) == {} and ends.lengths(found) == [0.5, 1, 2, 4, 8]


def test_a_part_that_is_not_finite_gives_no_end(tmp_path: Path) -> None:
    def hole(row: Row) -> None:
        if row["label"] == "alibi":
            row["by_position"][-1] = None

    found = made(tmp_path, hole)
    assert end_loss(found, "alibi", 2) == {} and set(end_loss(found, "rotary", 2)) == {0, 1, 2}


def test_a_scaling_at_the_trained_length_is_rotary(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert end_loss(found, "rotary, yarn", 1) == end_loss(found, "rotary", 1) != {} and last_loss(found, "rotary, yarn", 1) == last_loss(found, "rotary", 1)
    assert end_loss(found, "rotary, llama3", 1, tuned=True) == {} and end_loss(found, "xpos", 1) == {}


def more_context_alone(row: Row) -> None:
    """ALiBi reads every length alike; only the tokens that have little before them are worse."""
    if row["label"] == "alibi":
        row["by_position"] = [3.5] * 32 + [3.0] * 32
        row["last"] = 3.25 if row["multiple"] <= 1 else 3.0


def test_a_gain_by_context_that_the_trained_length_lacks_is_none(tmp_path: Path) -> None:
    found = made(tmp_path, more_context_alone)
    assert last_loss(found, "alibi", 1)[0] - last_loss(found, "alibi", 8)[0] == pytest.approx(0.25)
    gain = ends.gained(found, "alibi")
    assert gain is not None and gain.mean == pytest.approx(0) and cells(ends.trained(found), "alibi")[5] == "0.000 ± 0.000"
    assert papers.judged(papers.falls("alibi", 8), papers.falls("alibi", 8).difference(found)) == papers.SAME
    assert papers.judged(papers.stays("alibi", 8), papers.stays("alibi", 8).difference(found)) == papers.HOLDS
    assert "no clear difference: alibi 0.000 ± 0.000" in short.lines(found)[-1]


def test_beyond_the_bins_twice_the_length_is_what_is_compared_with(tmp_path: Path) -> None:
    found = made(tmp_path)
    wanted = made_up.loss("alibi", 2, 0) - made_up.loss("alibi", 64, 0)
    assert cells(ends.trained(found), "alibi")[-1] == f"{wanted:+.3f} ± 0.000"
    grown = papers.grows("alibi", 8, 4)
    assert "end" not in grown.words and grown.difference(found).mean == pytest.approx(made_up.loss("alibi", 8, 0) - made_up.loss("alibi", 4, 0))  # type: ignore[union-attr]
    assert papers.grows("alibi", 8).words == "`alibi` at 8x − at 1x, end"


def test_what_is_compared_with_a_broken_one_says_nothing(tmp_path: Path) -> None:
    def tuned(loss: float) -> Callable[[Row], None]:
        return lambda row: row.update(by_position=[loss if "linear" in row["label"] else 3.0] * 64) if row["tuned"] else None

    assert claims.verdict_of(TABLE_1, made(tmp_path / "broken", tuned(9.0))) == papers.NO_STANDARD
    assert claims.verdict_of(TABLE_1, made(tmp_path / "whole", tuned(3.0))) == papers.HOLDS
    assert claims.verdict_of(TABLE_1, made(tmp_path / "better", tuned(2.9))) == papers.FAILS
    assert claims.verdict_of(TABLE_1, None) == papers.MISSING
    repository = read_all(build.RESULTS)["small"]
    row = next(line for line in claims.lines(repository) if line.startswith("| YaRN, table 1,"))
    assert papers.NO_STANDARD in row and "`rotary` at 1x − `rotary, linear` at 4x, fine-tuned, end (else it says nothing)" in row


def test_controls_are_not_ranked_and_who_is_missing_is_said(tmp_path: Path) -> None:
    def best(row: Row) -> None:
        if row["label"] in CONTROLS:
            row["last"] = 1.0

    lines = short.lines(made(tmp_path, best, RUNS))
    assert f"- **1x**: best of {len(RANKED)}: " in lines[2] and f"best of {len(RANKED) - 1} (not learned: refused): " in lines[3]
    assert not any(f"{control} 1.000" in line for control in CONTROLS for line in lines) and all(control in lines[0] for control in CONTROLS)


def test_which_runs_are_of_which_commit_and_how_many_shared_the_gpu(tmp_path: Path) -> None:
    made_up.write(tmp_path, (0, 1, 2), ("rotary", "alibi", "fire"))
    for path in (tmp_path / "small").glob("*.json"):
        run = json.loads(path.read_text())
        alone = path.name in ("fire-2.json", "alibi-0.json")
        run |= {"commit": "a" * 40, "lanes": 1} if alone else {"lanes": 3}
        run["settings"]["caps"] = {"measuring": 4.0 if alone else 12.0}
        path.write_text(json.dumps(run))
    lines = state.commits(read_all(tmp_path)["small"])
    assert cells(lines, f"`{'c' * 12}`") == ["3", "12 s", "7", "all others"]
    assert cells(lines, f"`{'a' * 12}`") == ["1", "4 s", "2", "alibi (0), fire (2)"]
    assert cells(state.commits(made(tmp_path / "one")), f"`{'c' * 12}`")[-1] == "all"


def test_kernels_of_trainings_have_the_commit_of_the_run_that_says_them(tmp_path: Path) -> None:
    found = made(tmp_path, encodings=("rotary",))
    found.of("rotary")[-1]["commit"] = "b" * 40
    assert state.paths(found)[-1] == f"- rotary (commit `{'b' * 12}`): plain words"
