# SPDX-License-Identifier: Apache-2.0
"""The queue: what is done is skipped, what would not end in time is not begun, a mistake of one run does not stop the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import phasor
import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from lab import device as places  # noqa: E402
from lab import lanes, prices  # noqa: E402
from lab import queue as queues  # noqa: E402
from lab import results  # noqa: E402
from lab import smoke as smokes  # noqa: E402
from lab.__main__ import main  # noqa: E402
from lab.batches import Batches, Source  # noqa: E402
from lab.encodings import TRAINED  # noqa: E402
from lab.lanes import Claims, with_caps_for  # noqa: E402
from lab.presets import QUICK, SMALL  # noqa: E402
from lab.queue import Queue, Task, packed, table, tasks_of  # noqa: E402
from lab.report import prices as shown  # noqa: E402
from lab.run import Lab  # noqa: E402

CPU = torch.device("cpu")


def fake(encoding: str, seed: int, seconds: float = 7.0) -> dict[str, Any]:
    trained = {"seconds": 5.0, "tokens_per_second": 10.0, "final_loss": 3.0}
    return {
        "schema": 1, "encoding": encoding, "seed": seed, "settings": results.settings_of(QUICK), "data": "d", "seconds": seconds,
        "trained": trained, "measured": [], "refused": [],
    }  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """What is run, instead of running it."""
    seen: list[Task] = []

    def run(lab: Lab, encoding: str, seed: int, told: Any) -> dict[str, Any]:
        seen.append(Task(encoding, seed))
        told("trains", 0.5)
        if encoding == "alibi":
            raise RuntimeError("no such luck")
        return fake(encoding, seed)

    monkeypatch.setattr(queues, "run", run)
    return seen


def of(folder: Path, **given: Any) -> tuple[Queue, Lab]:
    return Queue(QUICK, "d", folder, tasks_of(QUICK, **given)), Lab(QUICK, Batches(Source(), CPU), CPU)


def test_a_seed_of_every_encoding_comes_before_the_next_seed() -> None:
    tasks = tasks_of(SMALL)
    assert [task.encoding for task in tasks[: len(TRAINED)]] == list(TRAINED) and {task.seed for task in tasks[: len(TRAINED)]} == {0}
    assert len(tasks) == 3 * len(TRAINED) == len(set(tasks))
    with pytest.raises(ValueError, match="'ropee' is no encoding"):
        tasks_of(SMALL, only=["ropee"])
    assert [task.encoding for task in tasks_of(QUICK, only=["rotary-3-of-4", "transformer-xl", "rotary quarter"])] == [
        "rotary 3 of 4", "transformer-xl", "rotary quarter",
    ]  # fmt: skip


def test_what_is_done_is_skipped_whatever_the_commit(tmp_path: Path, ran: list[Task]) -> None:
    queue, lab = of(tmp_path, only=["none", "t5"])
    results.write(queue.path(Task("t5", 0)), {**fake("t5", 0), "commit": "another"})
    queue.work(lab)
    assert ran == [Task("none", 0)] and queue.left() == []
    other = Queue(replace(QUICK, rate=1.0), "d", tmp_path, queue.tasks)
    assert other.left() == queue.tasks and Queue(QUICK, "e", tmp_path, queue.tasks).left() == queue.tasks


def test_a_mistake_of_one_run_does_not_stop_the_others(tmp_path: Path, ran: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    queue, lab = of(tmp_path, only=["rotary", "alibi", "t5"])
    queue.work(lab)
    assert [task.encoding for task in ran] == ["rotary", "alibi", "t5"] and queue.failed == [Task("alibi", 0)] == queue.left()
    assert "no such luck" in capsys.readouterr().out


def test_a_run_that_would_not_end_in_time_is_not_begun(tmp_path: Path, ran: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    queue, lab = of(tmp_path, only=["rotary", "none", "t5"], seeds=[0, 1])
    results.write(queue.path(Task("none", 0)), fake("none", 0, seconds=20.0))
    assert queue.seconds(Task("none", 1)) == 20.0 == queue.seconds(Task("t5", 0)) and queue.seconds(Task("rotary", 0)) == 60.0
    queue.work(lab, seconds=30.0)
    assert [task.encoding for task in ran] == ["t5", "none", "t5"]
    assert "rotary, seed 0: would take about 60 s" in capsys.readouterr().out


def test_results_are_packed_as_they_come(tmp_path: Path, ran: list[Task]) -> None:
    queue, lab = of(tmp_path / "results", only=["none", "t5"])
    seen = []

    def after() -> None:
        packed(tmp_path / "results", tmp_path / "out" / "results.tar.gz")
        with tarfile.open(tmp_path / "out/results.tar.gz") as archive:
            seen.append(archive.getnames())
            assert json.load(archive.extractfile("quick/none-0.json"))["encoding"] == "none"  # type: ignore[arg-type]

    queue.work(lab, after=after)
    assert seen == [["quick/none-0.json"], ["quick/none-0.json", "quick/t5-0.json"]]


def test_the_list_says_what_is_done_left_and_left_out(tmp_path: Path) -> None:
    queue, _ = of(tmp_path, only=["none", "t5", "cope"])
    results.write(queue.path(Task("t5", 0)), fake("t5", 0))
    slow = {**fake("cope", 0), "trained": None, "refused": [{"label": "cope", "length": 32, "message": "time: long"}]}
    results.write(queue.path(Task("cope", 0)), slow)
    lines = table(queue).splitlines()
    assert lines[0].endswith("left") and lines[1].endswith("done") and lines[2].endswith("left out: time: long")
    assert lines[3].startswith("2 done, 1 left")


def test_a_file_that_is_no_result_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="is no result of the lab"):
        results.read(path)
    path.write_text('{"schema": 2}')
    with pytest.raises(ValueError, match="schema 2, wanted 1"):
        results.read(path)
    assert results.finite({"a": [float("nan"), 1.0, (float("inf"),)]}) == {"a": [None, 1.0, [None]]}


# ---- The commands ----


def test_smoke_tells_times_and_kernels_and_goes_on_after_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(name: str) -> None:
        if name == "none":
            raise RuntimeError("no such luck")

    shown_at: list[tuple[float, str]] = []
    monkeypatch.setattr(smokes, "check", wrong)
    monkeypatch.setattr(smokes.Progress, "show", lambda bar, done, what: shown_at.append((done / bar.total, what)))
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        assert main(["smoke", "--preset", "quick", "--device", "cpu", "--only", "none", "learned"]) == 1
    finally:
        torch.use_deterministic_algorithms(deterministic)
    told = capsys.readouterr().out
    assert shown_at == [(0.0, "none"), (1 / 2.3, "learned"), (1.0, "2 encodings")]  # learned takes longer: a longer table is read, too
    assert "none                 FAILED" in told and "no such luck" in told and "1 failed: none" in told
    assert "ms/step" in told and "REFUSED ValueError: lookup_add" in told and "hierarchical           512:" in told


def test_prices_on_a_cpu_are_measured_beside_rotary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    try:
        assert main(["cost", "--preset", "quick", "--only", "learned", "--rounds", "2", "--machine", "a machine", "--out", str(tmp_path / "cpu.json")]) == 0
    finally:
        torch.set_num_threads(threads)
        phasor.set_num_threads(0)
    found = json.loads((tmp_path / "cpu.json").read_text())
    assert set(found["rounds"]) == {"rotary", "learned", "rotary again"} and found["machine"] == "a machine"
    assert set(found["attention_path"]) == set(found["rounds"]) and all("terms" in words for words in found["attention_path"].values())
    assert not any("attention_path" in one for rounds in found["rounds"].values() for one in rounds)
    for label, rounds in found["rounds"].items():
        assert len(rounds) == 2 and all(one["training"] > 0 and one["decoding"]["32"] > 0 for one in rounds)
        assert ("64" in rounds[0]["refused"]) == (label == "learned") != ("64" in rounds[0]["decoding"])
        taken = rounds[0]  # memory is asked for once
        assert taken["own_bytes"] > 2**20 and taken["decoding_bytes"]["32"] > 2**18 and "own_bytes" not in rounds[1]
        assert ("64" in taken["decoding_bytes"]) == (label != "learned")
    rows = shown.lines(shown.read(tmp_path, "CPU"))
    assert "| training, GiB |" in rows[3] and "| 64 keys, GiB |" in rows[3] and "GiB: what was taken" in rows[0]
    assert any(row.startswith("| rotary again ") for row in rows) and "on a machine" in capsys.readouterr().out
    names = [str(number) for number in range(21)]
    orders = [prices.order(names, number) for number in range(3)]
    assert all(sorted(one) == sorted(names) for one in orders) and orders[0] == prices.order(names, 0)
    pairs = [set(zip(one, one[1:])) for one in orders]
    assert all(len(one & other) < 5 for one in pairs for other in pairs if one is not other)  # who comes after whom is another in every round
    assert (shown.AGAIN, shown.SCHEMA, results.SCHEMA) == (prices.AGAIN, prices.SCHEMA, 1)


def test_memory_on_a_cpu_is_what_is_taken_and_what_was_before_is_forgotten() -> None:
    before = places.resident()
    assert before is not None  # the tests run on Linux
    held = np.ones(64 * 2**20, np.uint8)
    assert (places.most_resident() or 0) >= before + held.nbytes * 0.9
    del held
    places.forget_most_resident()
    assert (places.most_resident() or 0) < before + 32 * 2**20
    asked = replace(prices.settings_for(QUICK, CPU), keys=(65536, 64))
    taken = prices.memory_on_a_cpu("rotary", replace(QUICK, rows=1), asked, 1)["decoding_bytes"]
    caches = QUICK.shape.layers * 2 * (65536 - 64) * QUICK.shape.width * 4
    assert taken["65536"] - taken["64"] > 0.9 * caches  # which the 64 come after


def test_what_the_command_does_not_know_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["lisst"]) == 2 and "--quick" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="the preset small needs --data FOLDER"):
        main(["list"])
    assert main(["list", "--preset", "quick", "--results", str(tmp_path)]) == 0
    assert f"0 done, {len(TRAINED)} left" in capsys.readouterr().out


def test_lanes_share_a_queue_and_end_with_the_results_of_one(tmp_path: Path) -> None:
    words = ["run", "--preset", "quick", "--device", "cpu", "--only", "none", "alibi", "sinusoidal", "--steps", "3"]
    told = []
    for folder, lanes in (("one", "1"), ("two", "2")):
        places = ["--results", str(tmp_path / folder), "--checkpoints", str(tmp_path / f"{folder} checkpoints"), "--lanes", lanes]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
        told.append(subprocess.run([sys.executable, "-m", "lab", *words, *places], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout)
    files = [sorted(path.name for path in (tmp_path / folder / "quick").iterdir()) for folder in ("one", "two")]
    assert files[0] == files[1] and len(files[0]) == 3
    for name in files[0]:
        alone, shared = (json.loads((tmp_path / folder / "quick" / name).read_text()) for folder in ("one", "two"))
        assert (alone["lanes"], shared["lanes"]) == (1, 2) and alone["trained"]["curve"] == shared["trained"]["curve"]
        assert alone["measured"] == shared["measured"] and alone["retrieval"] == shared["retrieval"]
    assert all(one.count(f"lab: {name}, seed 0:") == 1 for name in ("none", "alibi", "sinusoidal") for one in told)  # nothing is run twice
    with pytest.raises(SystemExit, match="--lanes 0, wanted 1 or more"):
        main([*words, "--lanes", "0"])


def test_a_claimed_run_is_left_to_its_lane(tmp_path: Path, ran: list[Task]) -> None:
    queue, lab = of(tmp_path, only=["none", "rotary"])
    queue.claims = Claims(tmp_path)
    assert queue.claims.take("none-0.json") and not queue.claims.take("none-0.json")
    queue.work(lab)
    assert ran == [Task("rotary", 0)]
    assert queue.seconds(Task("none", 0), lanes=3) == pytest.approx(3 * queue.seconds(Task("none", 0)))


def test_a_lane_has_more_time_for_everything() -> None:
    caps = with_caps_for(SMALL, 3).caps
    assert (caps.training, caps.measuring, caps.section) == tuple(3 * one for one in (SMALL.caps.training, SMALL.caps.measuring, SMALL.caps.section))
    assert results.deciding(results.settings_of(with_caps_for(SMALL, 3))) == results.deciding(results.settings_of(SMALL))


def test_a_lane_that_a_signal_ended_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter((0, -9))

    class Ended:
        def __init__(self, command: list[str]) -> None:
            self.code = next(codes)

        def wait(self) -> int:
            return self.code

        poll = wait

    monkeypatch.setattr(lanes.subprocess, "Popen", Ended)
    monkeypatch.setattr(lanes.signal, "signal", lambda number, handler: None)
    assert lanes.run(["--preset", "quick"], 2) == 1
