# SPDX-License-Identifier: Apache-2.0
"""The plots: every label is named beside its line, two themes, the same bytes each time, whatever part of the results there is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import made_up  # noqa: E402

from lab.report import build, plots, style  # noqa: E402
from lab.report.labels import RUNS  # noqa: E402
from lab.report.results import read_all  # noqa: E402


def test_every_line_has_its_name(tmp_path: Path) -> None:
    results = read_all(made_up.write(tmp_path, (0, 1), RUNS))["small"]
    made = {path.name for path in plots.draw(results, tmp_path / "plots")}
    assert made == {f"{name}-{theme}.svg" for name in build.PLOTS for theme in ("light", "dark")}
    text = (tmp_path / "plots" / "last-light.svg").read_text()
    for label in (*RUNS, "hierarchical"):
        assert re.search(rf">{re.escape(label)}</text>", text), label


def test_plots_repeat_and_need_not_all_of_the_results(tmp_path: Path) -> None:
    results = read_all(made_up.write(tmp_path, (0,), ("alibi", "learned")))["small"]
    first, second = (plots.draw(results, tmp_path / name) for name in ("first", "second"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert {path.name.split("-")[0] for path in first} == {"last", "position", "language", "retrieval"}
    lines = build.pictures(results, "lab")
    assert lines("changed") == ["Nothing measured yet."]
    assert lines("last")[0] == "{.plot .only-light}" and lines("last")[1].endswith("(lab/last-light.svg)")


def test_lines_of_a_panel_differ_without_colour() -> None:
    looks = style.styles([*map(str, range(8)), "rotary"], style.THEMES["light"])
    assert len({(str(one["linestyle"]), one["marker"]) for one in looks.values()}) == 9


def test_names_do_not_overlap() -> None:
    for wanted in ([0.5] * 6, [0.0, 0.01, 0.9, 0.91, 1.0], [1.0] * 4, [0.2]):
        placed = style.spread(wanted, 0.06, 0.0, 1.0)
        order = sorted(range(len(wanted)), key=lambda number: wanted[number])
        gaps = [placed[b] - placed[a] for a, b in zip(order, order[1:])]
        assert all(gap >= 0.06 - 1e-9 for gap in gaps) and min(placed) >= 0 and max(placed) <= 1
    assert style.spread([0.3, 0.7], 0.06, 0.0, 1.0) == pytest.approx([0.3, 0.7])
    assert style.spread([], 0.06, 0.0, 1.0) == []


def test_plots_in_the_repository_show_what_its_results_give() -> None:
    results = read_all(build.RESULTS)[build.SHOWN]
    for name, make in plots.figures(results).items():
        figure = make(style.THEMES["light"])
        wanted = f"numbers {style.digest(figure)}"
        style.pyplot.close(figure)
        for theme in style.THEMES:
            assert wanted in (build.ROOT / "docs" / "lab" / f"{name}-{theme}.svg").read_text(encoding="utf-8"), name


def test_the_numbers_of_a_plot_are_in_its_file(tmp_path: Path) -> None:
    results = read_all(made_up.write(tmp_path, (0, 1), ("alibi", "rotary")))["small"]
    (first,) = plots.draw(results, tmp_path / "first", ["last"])[:1]
    for run in results.runs:
        for row in run["measured"]:
            row["last"] += 0.01 if row["label"] == "alibi" and row["multiple"] == 8 else 0.0
    (second,) = plots.draw(results, tmp_path / "second", ["last"])[:1]
    about = [re.search(r"numbers [0-9a-f]{64}", path.read_text()) for path in (first, second)]
    assert about[0] is not None and about[1] is not None and about[0][0] != about[1][0]


def test_a_point_that_not_all_seeds_gave_is_left_out_of_retrieval(tmp_path: Path) -> None:
    results = read_all(made_up.write(tmp_path, (0, 1), ("alibi", "deberta")))["small"]
    figure = plots.by_distance(results, style.THEMES["light"])
    whole = {(title, label): xs for title, label, xs, *_ in figure.drawn}
    rows = results._rows["retrieval", "deberta"]
    rows[:] = [(seed, row) for seed, row in rows if seed == 0 or row["task"] != "copying" or row["length"] < 8192]
    fewer = {(title, label): xs for title, label, xs, *_ in plots.by_distance(results, style.THEMES["light"]).drawn}
    assert fewer["copying, others", "deberta"] == whole["copying, others", "deberta"][:-1]
    assert fewer["passkey, others", "deberta"] == whole["passkey, others", "deberta"]
