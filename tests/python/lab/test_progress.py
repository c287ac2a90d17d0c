# SPDX-License-Identifier: Apache-2.0
"""The progress bar: how far, how long, how much is left; now and then outside of a terminal, over and over on one line in it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab import progress  # noqa: E402


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Time that goes on when it is told to."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_in_a_terminal_a_line_is_written_over(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    bar = progress.Progress(4)
    clock.now += 3
    bar.show(1, "alibi, seed 0")
    clock.now += 0.1
    bar.show(2, "too soon for another line")
    clock.now += 2.9
    bar.show(2, "t5, seed 0")
    bar.show(4, "all of it")  # the end is always shown
    bar.end()
    lines = told.getvalue().split("\r\x1b[K")
    assert lines[1:] == [
        f"lab: [{'#' * 10}{' ' * 30}]  25% 3 s, 9 s left  alibi, seed 0",
        f"lab: [{'#' * 20}{' ' * 20}]  50% 6 s, 6 s left  t5, seed 0",
        f"lab: [{'#' * 40}] 100% 6 s  all of it\n",
    ]


def test_elsewhere_a_line_comes_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress.Progress(1000)
    for done in range(101):
        bar.show(done, "alibi")
        clock.now += 1
    bar.end()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("] ")[1].strip() for line in lines] == [f"{done // 10}% {done} s, {done * (1000 - done) // done} s left  alibi" for done in (20, 40, 60, 80, 100)]
    assert not any("\r" in line for line in lines)


def test_before_the_first_step_nothing_is_foretold(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress.Progress(10)
    clock.now += 30
    bar.show(0, "begins")
    assert capsys.readouterr().err == f"lab: [{' ' * 40}]   0% 30 s  begins\n"


def test_parts_weigh_as_long_as_they_take(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    stages = progress.Stages({"packages": 30.0, "tokens": 10.0})
    clock.now += 10
    stages.at("packages", 0.5, "perl-doc")
    clock.now += 20
    stages.at("tokens")
    stages.end()
    lines = told.getvalue().split("\r\x1b[K")
    assert [line.split("] ")[1].strip() for line in lines[1:]] == ["38% 10 s, 17 s left  packages: perl-doc", "75% 30 s, 10 s left  tokens", "100% 30 s  done"]
    with pytest.raises(ValueError, match="'nothing' is not in list"):
        stages.at("nothing")


def test_what_else_is_told_does_not_stand_behind_the_bar(clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    bar = progress.Progress(4)
    clock.now += 1
    bar.show(1, "alibi")
    bar.clear()
    assert told.getvalue().endswith("alibi\r\x1b[K")
    bar.show(1, "alibi")  # at once, though the last one was just now
    assert told.getvalue().endswith("alibi") and told.getvalue().count("alibi") == 2
    monkeypatch.undo()
    elsewhere = progress.Progress(4)
    elsewhere.clear()
    assert capsys.readouterr().err == ""
