# SPDX-License-Identifier: Apache-2.0
"""The pages of encodings come from one template, miss nothing that the library has, and their tools do what they say. Needs nothing that is built."""
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
