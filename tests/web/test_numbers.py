# SPDX-License-Identifier: Apache-2.0
"""Every panel opened, dragged and read back: numbers of encodings are bitwise those of the native tool, those of attention and analysis within rounding."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import ROOT

MILLION = 1_000_000


def curves(figure, panel=0):
    return [(curve["x"], curve["y"]) for curve in figure["panels"][panel]["curves"]]


@pytest.mark.short
def test_decay_is_the_tools_bit_for_bit(playground, tool):
    playground.open("decay")
    playground.drag("farthest distance", [0.2, 0.5, 0.4])
    playground.slide("farthest distance", 1500)
    playground.slide("base of the plain curve", 250000)
    wanted = tool("plot", "decay", "--model", "llama3.1", "--against", "base=250000", "--against", "model=qwen2.5", "--distances", "0:1501:2")
    found = playground.figure("decay")
    assert curves(found) == curves(wanted)
    assert found["panels"][0]["x"] == wanted["panels"][0]["x"]


@pytest.mark.short
def test_clocks_of_every_pair_are_the_tools(playground, tool):
    playground.open("pairs")
    playground.drag("position in the text", [0.1, 0.9, 0.6])
    playground.slide("position in the text", 1234567)
    (hands,) = playground.figure("clocks")["panels"][0]["curves"]
    assert len(hands["x"]) == 64
    for first in range(0, 64, 12):
        chosen = list(range(first, min(first + 12, 64)))
        wanted = tool("plot", "clocks", "--model", "llama3.1", "--pairs", ",".join(map(str, chosen)), "--positions", "1234567")
        for pair, panel in zip(chosen, wanted["panels"], strict=True):
            assert [hands["x"][pair]] == panel["curves"][0]["x"]
            assert [hands["y"][pair]] == panel["curves"][0]["y"]


@pytest.mark.short
def test_four_forms_are_the_same_point(playground):
    playground.open("pairs", "&position=777&pair=3")
    points = playground.page.eval_on_selector_all(".form .point", "all => all.map(p => JSON.parse(p.dataset.point))")
    assert len(points) == 4
    for point in points[1:]:
        assert point == pytest.approx(points[0], abs=1e-6)
    assert math.hypot(*points[0]) == pytest.approx(1, abs=1e-6)


@pytest.mark.short
def test_scalings_are_the_tools_bit_for_bit(playground, tool):
    playground.open("scalings", "&model=llama2")
    playground.drag("wanted length / trained length", [0.05, 0.3, 0.2])
    playground.slide("wanted length / trained length", 6)
    wanted = tool("plot", "scaling", "--model", "llama2", "--trained-length", "4096", "--wanted-length", "24576")
    found = playground.figure("scaling")
    assert curves(found) == curves(wanted)
    assert [curve["name"] for curve in found["panels"][0]["curves"]] == [curve["name"] for curve in wanted["panels"][0]["curves"]]


def test_seen_pairs_are_those_of_the_plan(playground, core):
    playground.open("scalings", "&model=llama2&wanted=8")
    cells = playground.figure("seen")["panels"][0]["cells"]
    plan = core({"method": "plan", "spec": {"head_dim": 128, "base": 10000}, "trained_length": 4096, "wanted_length": 32768})
    possible = [one for one in plan["scalings"] if "error" not in one]
    assert cells["rows"] == [one["name"] for one in possible]
    for row, one in enumerate(possible):
        assert sum(cells["values"][64 * row : 64 * row + 64]) == one["unseen_pairs"]


@pytest.mark.short
def test_errors_are_the_tools_bit_for_bit(playground, tool):
    playground.open("precision")
    wanted = tool("plot", "error", "--model", "llama3.1")
    found = playground.figure("error")
    assert curves(found) == curves(wanted)
    playground.drag("position in the text", [0.9, 0.4])
    playground.slide("position in the text", MILLION)
    by_pair = {curve["name"]: curve["y"] for curve in playground.figure("error-pairs")["panels"][0]["curves"]}
    at = wanted["panels"][0]["curves"][0]["x"].index(float(MILLION))
    for curve in wanted["panels"][0]["curves"]:
        assert max(by_pair[curve["name"]]) == curve["y"][at], curve["name"]


@pytest.mark.short
def test_first_page_shows_the_error_of_the_tool(playground, tool):
    playground.open("start")
    playground.slide("position in the text", MILLION)
    here = playground.figure("hero-error")["panels"][0]["curves"][2]
    wanted = tool("plot", "error", "--model", "llama3.1", "--positions", str(MILLION))["panels"][0]["curves"][1]
    assert (here["x"], here["y"]) == (wanted["x"], wanted["y"])
    text = playground.page.inner_text(".says")
    assert "1,000,000" in text and f"{100 * wanted['y'][0]:.3g}%" in text.replace(" %", "%")


@pytest.mark.short
def test_bias_is_the_tools_bit_for_bit(playground, tool):
    playground.open("attention", "&scheme=alibi&content=zero")
    playground.drag("head", [0.2, 0.8])
    playground.slide("head", 2)
    playground.slide("tokens", 40)
    wanted = tool("plot", "bias", "--scheme", "alibi", "--heads", "8", "--show", "2", "--length", "40")
    found = playground.figure("bias")
    assert found["panels"][0]["cells"]["values"] == wanted["panels"][0]["cells"]["values"]
    weights = playground.figure("attention")["panels"][0]["cells"]["values"]
    for query in (0, 7, 39):  # softmax of the slope times the distance, by hand: slope 2^-(head + 1) of 8 heads
        scores = [math.exp(-(2.0**-3) * (query - key)) for key in range(query + 1)]
        for key, score in enumerate(scores):
            assert weights[40 * query + key] == pytest.approx(score / sum(scores), rel=1e-5)
        assert all(weights[40 * query + key] == 0 for key in range(query + 1, 40))


def test_weights_of_every_scheme_sum_to_one(playground):
    playground.open("attention", "&tokens=24")
    for scheme in playground.page.eval_on_selector_all("#panels select >> nth=0 >> option", "all => all.map(o => o.value)"):
        playground.select("scheme", scheme)
        assert playground.problem() == "", scheme
        weights = playground.figure("attention")["panels"][0]["cells"]["values"]
        for query in range(24):
            assert sum(weights[24 * query : 24 * query + 24]) == pytest.approx(1, abs=1e-5), scheme


def test_maps_of_distances_are_the_formulas(playground):
    playground.open("attention", "&scheme=rerope&tokens=30&span=8")
    values = playground.figure("distances")["panels"][0]["cells"]["values"]
    assert [values[30 * 29 + key] for key in range(30)] == [min(29 - key, 8) for key in range(30)]
    playground.select("scheme", "self_extend")
    values = playground.figure("distances")["panels"][0]["cells"]["values"]
    far = [29 // 4 + 8 - 8 // 4 - key // 4 if 29 - key >= 8 else 29 - key for key in range(30)]
    assert [values[30 * 29 + key] for key in range(30)] == far


def test_image_scores_are_the_definition(playground, core):
    playground.open("image", "&rows=5&columns=7&image=0")
    playground.drag("rows", [0.9, 0.3])
    playground.slide("rows", 4)
    specs = core({"method": "image.specs"})["specs"]
    spec, tokens = specs[0]["spec"], {**specs[0]["tokens"], "parts": [{"text": 3}, {"image": {"rows": 4, "columns": 7}}, {"text": 3}]}
    placed = core({"method": "image.positions", "tokens": tokens})
    query = next(i for i, token in enumerate(placed["token"]) if token["kind"] == "image" and (token["row"], token["column"]) == (2, 3))
    pairs = core({"method": "pairs", "spec": spec})
    frequencies, axis_of = pairs["frequencies"]["data"], pairs["axis_of_pair"]
    count = len(placed["token"])
    at = [placed["positions"]["data"][axis * count : axis * count + count] for axis in range(3)]
    shown = playground.figure("image-score")["panels"][0]["cells"]["values"]
    for i, token in enumerate(placed["token"]):
        if token["kind"] == "image":
            score = sum(math.cos((at[a][query] - at[a][i]) * f) for f, a in zip(frequencies, axis_of, strict=True)) / len(frequencies)
            assert shown[7 * token["row"] + token["column"]] == pytest.approx(score, abs=1e-9)
    parts = [panel["cells"]["values"] for panel in playground.figure("image-axes")["panels"]]
    for cell, value in enumerate(shown):
        assert sum(part[cell] for part in parts) == pytest.approx(value, abs=1e-12)


def test_picking_a_patch_makes_it_the_query(playground):
    playground.open("image", "&rows=4&columns=4")
    place = playground.page.locator('[data-figure="image-score"] .field')
    box = place.bounding_box()
    place.click(position={"x": box["width"] * 0.9, "y": box["height"] * 0.1})
    playground.settle()
    values = playground.figure("image-score")["panels"][0]["cells"]["values"]
    assert values[3] == 1 and max(value for i, value in enumerate(values) if i != 3) < 1


@pytest.mark.short
def test_sinusoid_and_similarity_are_the_tools(playground, tool):
    playground.open("added")
    playground.drag("channels", [0.9, 0.3])
    playground.slide("channels", 32)
    playground.slide("positions", 50)
    found = playground.figure("sinusoid")["panels"][0]["cells"]
    wanted = tool("plot", "sinusoid", "--head-dim", "32", "--positions", "0:50")["panels"][0]["cells"]
    assert found["values"] == pytest.approx(wanted["values"], abs=2e-7)  # float32 rows of the encoding, float64 of the tool
    alike = playground.figure("sinusoid-similarity")["panels"][0]["cells"]["values"]
    matrix = tool("plot", "similarity", "--head-dim", "32", "--positions", "0:50")["panels"][0]["cells"]["values"]
    assert alike == pytest.approx(matrix, abs=1e-6)


def test_shift_operator_moves_every_row(playground):
    playground.open("added", "&width=16&shift=5")
    matrix = playground.figure("shift-operator")["panels"][0]["cells"]["values"]
    rows = playground.figure("sinusoid")["panels"][0]["cells"]["values"]
    for position in (0, 3, 40):
        moved = [sum(matrix[16 * i + j] * rows[16 * position + j] for j in range(16)) for i in range(16)]
        assert moved == pytest.approx(rows[16 * (position + 5) : 16 * (position + 6)], abs=1e-6)


@pytest.mark.short
def test_cache_moved_keys_are_right_and_stale_ones_are_not(playground):
    playground.open("cache")
    playground.drag("dropped", [0.05, 0.2])
    stale, moved = (curve["y"] for curve in playground.figure("cache-errors")["panels"][0]["curves"])
    assert max(stale) > 0.1 and max(moved) < 1e-5
    for event in ("dynamic", "longrope"):
        playground.select("what happens", event)
        assert playground.problem() == "", event
        stale, moved = (curve["y"] for curve in playground.figure("cache-errors")["panels"][0]["curves"])
        assert max(moved) < 1e-5 < max(stale), event


@pytest.mark.short
def test_compare_says_what_the_tool_says(playground, tool):
    playground.open("compare")
    wanted = tool("diff", "llama3.1", "llama2")["differences"]
    for key, matters in (("what_matters", True), ("what_does_not", False)):
        rows = playground.page.eval_on_selector_all(
            f'[data-differences="{key}"] tbody tr', "all => all.map(r => Array.from(r.children, c => c.textContent))"
        )
        assert rows == [[one["where"], one["left"], one["right"], one["why"]] for one in wanted if one["matters"] is matters]
    playground.select("right", "llama3.1")
    assert "the same" in playground.page.inner_text(".says")


@pytest.mark.short
def test_lab_shows_the_recorded_table(playground):
    playground.open("lab")
    shown = {curve["name"]: curve["y"] for curve in playground.figure("lab")["panels"][0]["curves"]}
    recorded = json.loads(Path(ROOT / "docs/lab/summary.json").read_text())["language"]["labels"]
    for name in ("alibi", "rotary", "rotary, yarn"):
        assert shown[name] == [loss for loss in recorded[name]["loss"] if loss is not None]
    playground.page.get_by_label("sandwich", exact=True).check()
    assert "sandwich" in [curve["name"] for curve in playground.figure("lab")["panels"][0]["curves"]]


@pytest.mark.short
def test_take_along_is_what_the_tool_exports(playground, tool):
    playground.open("take")
    codes = {name: playground.page.inner_text(f'[data-code="{name}"] pre') for name in ("python", "cpp", "cli", "hf_config", "json")}
    assert "500000" in codes["python"] and "Llama3Scaling" in codes["cpp"] and "phasor" in codes["cli"]

    mine, theirs = json.loads(codes["hf_config"]), tool("export", "llama3.1", "--to", "hf")
    assert mine["rope_parameters"] == theirs["rope_parameters"]
