# SPDX-License-Identifier: Apache-2.0
"""What the report says of prices: which kernels they are of, the price of what is changed at evaluation, and the plot of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import made_up  # noqa: E402

from lab.report import build, prices, speed_plot, style  # noqa: E402
from lab.report.labels import CONTROLS, RUNS  # noqa: E402


def test_a_file_that_names_another_commit_than_its_kernels_says_both() -> None:
    """lab/results/README.md says it of the file in the repository, which nobody edits."""
    found = prices.read(build.RESULTS, "GPU")
    assert found is not None
    note = (build.RESULTS / "README.md").read_text()
    session, kernels = found["commit"], prices.BUILT_AT[found["commit"]]
    assert re.search(rf"names {session[:7]}, .* built at {kernels[:8]}", note)
    assert f"commit `{session[:12]}`, kernels built at `{kernels}`." in prices.lines(found)[0]
    assert prices.commits({"commit": "c" * 40}) == f"commit `{'c' * 12}`"


def test_kernels_of_prices_are_told_where_the_file_has_them(tmp_path: Path) -> None:
    made_up.prices(tmp_path)
    found = prices.read(tmp_path, "GPU")
    assert found is not None and not any("explain_attention" in line for line in prices.lines(found))
    found["attention_path"] = {"rotary": "words", "alibi": "others", "rotary again": "words", "none": "words"}
    assert prices.lines(found)[-2:] == ["- none, rotary: words", "- alibi: others"]


def test_prices_of_changes_are_beside_rotary_of_the_same_round(tmp_path: Path) -> None:
    assert prices.changes(tmp_path) == ["Nothing measured yet."]
    made_up.prefill(tmp_path, "CPU")
    lines = prices.changes(tmp_path)
    assert any(line.startswith("| rotary, rerope ") and "45.0 (0.50; 0.25 to 0.50)" in line for line in lines)
    assert any("CPU, 4096 tokens" in line for line in lines) and not any("GPU" in line for line in lines)
    made_up.prefill(tmp_path, "GPU")
    assert sum("4096 tokens" in line for line in prices.changes(tmp_path)) == 1 and any("on a GPU that is made up" in line for line in prices.changes(tmp_path))
    (tmp_path / "cpu_prefill.json").write_text('{"schema": 1, "kind": "cost on a CPU"}')
    with pytest.raises(ValueError, match="of kind 'cost on a CPU', wanted 1 of 'prefill on a CPU'"):
        prices.changes(tmp_path)


def test_the_plot_shows_shares_and_leaves_out_what_was_launched(tmp_path: Path) -> None:
    made_up.prices(tmp_path)
    found = prices.read(tmp_path, "GPU")
    assert found is not None
    drawn = {name: (xs, ys) for _, name, xs, ys, _ in speed_plot.figure(found, style.THEMES["light"]).drawn}
    labels = [label for label in RUNS if label not in CONTROLS]
    xs, ys = drawn["training"]
    assert xs[labels.index("alibi")] == f"{1 / (1 + made_up.SLOPE['alibi']):.4g}" and len(xs) == len(labels) - 1  # CoPE's training is launched
    assert f"{labels.index('cope')}" not in ys and len(drawn["512 keys"][0]) == len(labels) and drawn["8192 keys"][0] == []


def test_points_of_the_plot_differ_without_colour() -> None:
    assert len(set(speed_plot.MARKERS)) == len(speed_plot.MARKERS) >= 3


def test_the_plot_in_the_repository_shows_what_its_file_gives() -> None:
    found = prices.read(build.RESULTS, "GPU")
    wanted = f"numbers {style.digest(speed_plot.figure(found, style.THEMES['light']))}"  # type: ignore[arg-type]
    for theme in style.THEMES:
        assert wanted in (build.ROOT / "docs" / "lab" / f"{speed_plot.NAME}-{theme}.svg").read_text(encoding="utf-8")
