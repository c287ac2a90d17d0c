# SPDX-License-Identifier: Apache-2.0
"""The page's own words: every number in them is what the results or the code give, and one that is not is noticed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from lab.report import build, prose, said, said_design  # noqa: E402
from lab.report.page import outside  # noqa: E402
from lab.report.prose import Given, Said, World  # noqa: E402
from lab.report.results import read_all  # noqa: E402

PAGE = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def world() -> World:
    found = build.world_of(read_all(build.RESULTS))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def sentences(world: World) -> list[Given]:
    return prose.given(said.SAID, world)


def test_every_number_in_the_words_of_the_page_is_given(sentences: list[Given]) -> None:
    assert prose.problems(PAGE, sentences) == []


def test_a_number_that_is_another_is_noticed_wherever_it_stands(sentences: list[Given]) -> None:
    words = outside(PAGE)
    names = [match.span() for match in prose.NAMES.finditer(words)]
    places = [match for match in prose.NUMBER.finditer(words) if not any(begin <= match.start() < end for begin, end in names)]
    assert len(places) > 100
    for match in places:
        digit = words[match.end() - 1]
        other = words[: match.end() - 1] + str((int(digit) + 1) % 10) + words[match.end() :]
        assert prose.problems(other, sentences), words[max(0, match.start() - 60) : match.end() + 20]


def test_what_the_words_say_without_numbers_is_asked_too() -> None:
    one = prose.given([Said("{} is best", (lambda world: "alibi",), lambda world: False)], World({}, {}))
    assert prose.problems("alibi is best", one) == ["says 'alibi is best', which the results do not give"]
    assert prose.problems("rotary is best", one)[0] == "does not say 'alibi is best'"
    with pytest.raises(ValueError, match="'3 seeds' has a number of its own"):
        prose.given([Said("3 seeds")], World({}, {}))


def test_words_are_what_is_not_made_and_no_command() -> None:
    made = "<!-- made by python -m lab report: one -->\n\n12\n\n<!-- end -->"
    assert not re.search(r"\d", outside(f"words\n{made}\nmore\n```\nmake 3\n```\n"))
    assert prose.problems("T5 at 64x in `small1024`, bfloat16", []) == [] and len(prose.problems("T6 at 63x", [])) == 2


def test_a_problem_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "lab.md").write_text(PAGE.replace("by 0.03 to 0.07", "by 0.03 to 0.08"), encoding="utf-8")
    build.main(["--out", str(tmp_path), "--no-plots"])
    told = capsys.readouterr().out
    assert "lab.md does not say 'CoPE and Transformer-XL are worse with every seed, by 0.03 to 0.07" in told and "has the number 0.08, which nothing gives" in told


def test_the_page_of_decisions_has_the_numbers_of_now(world: World) -> None:
    text = build.DESIGN.read_text(encoding="utf-8")
    held = prose.given(said_design.SAID_DESIGN, world)
    assert prose.untrue(text, held) == []
    words = " ".join(text.split())
    for one in held:
        for match in prose.NUMBER.finditer(one.text):
            other = one.text[: match.end() - 1] + str((int(one.text[match.end() - 1]) + 1) % 10) + one.text[match.end() :]
            assert prose.untrue(words.replace(one.text, other), [one]) == [f"does not say {one.text!r}"]
    assert prose.untrue(text, [Given("Memory is what an encoding adds", False)]) == ["says 'Memory is what an encoding adds', which the results do not give"]
