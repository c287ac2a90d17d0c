# SPDX-License-Identifier: Apache-2.0
"""The pages of encodings come from one template, miss nothing that the library has, and their tools do what they say. Needs nothing that is built."""
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "docs"))
import check_site  # noqa: E402
import doxygen_filter  # noqa: E402
import encodings_pages  # noqa: E402
import performance  # noqa: E402
import performance_plots  # noqa: E402
import record_benchmarks  # noqa: E402
import stage  # noqa: E402

DOCS = ROOT / "docs"
ENTRIES = encodings_pages.encodings(DOCS)
PAGES = encodings_pages.pages(DOCS)
# Alternatives that are no encodings of their own.
NOT_ENCODINGS = {"Unscaled", "GivenFactors", "GivenFrequencies"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_page_has_every_part_in_order(entry):
    for language, folder in (("en", "encodings"), ("zh", "zh/encodings")):
        text = PAGES[f"{folder}/{entry['name']}.md"]
        wanted = [heading for heading in encodings_pages.HEADINGS[language].values() if heading]
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == wanted
        assert "None" not in text.split("```")[0]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_papers_have_author_title_year_and_a_number_of_that_year(entry):
    assert entry["papers"]
    for paper in entry["papers"]:
        found = re.fullmatch(r"(?P<authors>[^:]+): .+[.?？] (?P<year>20\d\d), (?:arXiv:(?P<number>(?P<short>\d\d)(?:0[1-9]|1[0-2])\.\d{4,5})|.*\(no paper\))(?: \(.*\))?", paper)
        assert found or paper.endswith("(no paper is known to us)"), paper
        if found and found["number"]:
            assert found["year"] == "20" + found["short"], paper
            assert len(found["number"]) == (10 if found["short"] >= "15" else 9), paper


def alternatives_of(header, name):
    text = (ROOT / "include" / "phasor" / header).read_text(encoding="utf-8")
    found = re.search(rf"using {name} = std::variant<([^>]*)>", text)
    return set(re.findall(r"\w+", found[1])) - NOT_ENCODINGS


@pytest.mark.parametrize("header, name", [("rotary.hpp", "Scaling"), ("bias.hpp", "BiasSpec"), ("position_maps.hpp", "PositionMap")])
def test_every_encoding_of_the_headers_is_on_a_page(header, name):
    text = "".join(PAGES.values())
    assert [one for one in sorted(alternatives_of(header, name)) if one not in text] == []


def test_links_that_leave_the_folder_are_shown_as_paths():
    page = DOCS / "design" / "x.md"
    assert stage.linked("[a](../python.md)", page) == "[a](../python.md)"
    assert stage.linked("[a](../../README.md)", page) == "a (`README.md`)"


def test_comments_behind_fields_become_doxygens(tmp_path):
    header = tmp_path / "a.hpp"
    header.write_text("namespace n {\n// ---- Title ----\nstruct A {\n  int x = 0;  // how many\n  // of y\n  int y = 0;\n};\n}  // namespace n\n")
    text = doxygen_filter.filtered(header)
    assert "int x = 0;  ///< how many" in text
    assert "  /// of y" in text
    assert "\n// ---- Title" in text
    header = tmp_path / "a.h"
    header.write_text("/* ---- Title ---- */\n/* A thing. */\ntypedef struct a {\n  int x; /* 0: none */\n} a;\n")
    text = doxygen_filter.filtered(header)
    assert "int x; /**< 0: none */" in text
    assert "/** A thing. */" in text
    assert text.startswith("/* ---- Title")
    assert "typedef" not in text and text.endswith("};\n")


def test_what_is_loaded_from_elsewhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<script src="https://example.org/a.js"></script><a href="b.html">b</a><a href="https://example.org">e</a>')
    wrong = check_site.check(tmp_path)[1]
    assert wrong == ["a.html: loads https://example.org/a.js", "a.html: b.html leads nowhere"]


def test_tables_of_performance_are_found():
    assert "AVX-512" in performance.cpu()
    assert "cuDNN" in performance.gpu()


def test_every_recorded_benchmark_says_machine_commit_and_day():
    folders = performance_plots.machines()
    assert folders
    for folder in folders:
        for file in folder.glob("*.json"):
            context = json.loads(file.read_text(encoding="utf-8"))["context"]
            assert context["machine"] and re.fullmatch(r"[0-9a-f]{7,}", context["commit"]) and re.fullmatch(r"20\d\d-\d\d-\d\d", context["date"])
            assert context["commit"] in performance.recorded()


def test_a_recorded_benchmark_holds_the_medians_of_its_repetitions(tmp_path):
    runs = [{"run_name": "memcpy/L2", "run_type": "iteration", "real_time": ns, "bytes_per_second": 1e12 / ns} for ns in (300.0, 100.0, 200.12345)]
    file = tmp_path / "bench_a.json"
    file.write_text(json.dumps({"context": {"date": "2026-01-02T03:04", "target": "avx2", "version": "0.1.0"}, "benchmarks": runs}))
    kept = json.loads(record_benchmarks.compact(file, {"machine": "m", "commit": "c"}))
    assert kept["context"] == {"machine": "m", "commit": "c", "date": "2026-01-02", "target": "avx2", "version": "0.1.0"}
    assert kept["benchmarks"] == [{"run_name": "memcpy/L2", "real_time": 200.1, "bytes_per_second": 4.997e9}]


def test_plots_show_what_the_tables_say(tmp_path):
    tokens, times = performance_plots.gpu_rotation()
    assert tokens[0] == 1 and all(len(values) == len(tokens) for values in times.values())
    shapes, speeds = performance_plots.gpu_attention()
    assert all(len(values) == len(shapes) and min(values) > 100 for values in speeds.values())
    folder = performance_plots.machines()[0]
    shares = performance_plots.rotation_shares(folder)["DRAM"]
    name = f"{folder.name}-rotation"
    for theme, (ink, _) in performance_plots.THEMES.items():
        performance_plots.draw(performance_plots.plots()[name], theme, tmp_path / f"{theme}.svg")
        drawn = (tmp_path / f"{theme}.svg").read_text(encoding="utf-8")
        assert all(f">{share:.2f}<" in drawn for share in shares) and ink in drawn
