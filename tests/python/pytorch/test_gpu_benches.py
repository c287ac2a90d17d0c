# SPDX-License-Identifier: Apache-2.0
"""What bench/gpu times on a GPU, tiny and on the CPU: every contender of every row gives what the formula gives, and what fails loses no other row.

It shows nothing about speed, nor about what only a GPU has: the backends of PyTorch's attention, FlexAttention compiled and its gradients, graphs.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench/gpu"
sys.path.append(str(BENCH))

import attention_targets  # noqa: E402
import table  # noqa: E402
import training  # noqa: E402
from schemes import contenders, groups, timed  # noqa: E402
from schemes.problem import Problem, drawn, written_out  # noqa: E402
from schemes.rows import Figure, Row, line_of, row_from  # noqa: E402
from schemes.schemes import PLAIN, SHAW, T5, TRANSFORMER_XL, by_shift  # noqa: E402
from schemes.timing import gave_up, times_by_turns  # noqa: E402

GROUPS = attention_targets.groups_of("cpu", 1)


@pytest.mark.parametrize("name", list(GROUPS))
def test_every_contender_of_every_row_is_right(name: str) -> None:
    rows = GROUPS[name]()
    assert rows
    for row in rows:
        assert not row.error and row.ms > 0, (row.name, row.error)
        wrong = {peer: why for peer, why in row.peers.items() if isinstance(why, str) and not why.startswith("not here")}
        assert not wrong, (row.name, wrong)


def test_the_table_has_the_rows_of_the_issue() -> None:
    """Each of its lines, by the words of a group: none goes lost."""
    words = ("forward D128 full", "forward D64 causal", "backward D128 causal", "backward D64 full", "ALiBi", "Inkling D128", "rotary", "encoder", "decode", "mma D256", "memory")
    assert all(any(name.startswith(word) for name in GROUPS) for word in words)
    forward, backward = (make(groups.TINY, 128, False) for make in (groups.forward, groups.backward))
    named = [{line.name for line in group.lines} for group in (forward, backward)]
    assert named[0] == {"plain", "T5", "unclipped bias", "Shaw K", "Shaw K + V", "Transformer-XL", "DeBERTa"}
    assert named[1] == named[0] | {"unclipped bias without its gradient"}
    for line in forward.lines + backward.lines:
        assert {"cuDNN", "flash", "FlexAttention"} <= set(line.peers) and ("dense bias" in line.peers or line.name == "plain")
        assert any(target.limit is not None for target in line.targets)


def problem(scheme: Any = PLAIN) -> Problem:
    size = groups.TINY.size(64, True)
    return Problem(scheme, size, drawn(size))


def test_a_wrong_result_is_not_timed() -> None:
    right = problem(T5)
    wrong = contenders.forward_job(right, lambda: 1.1 * written_out(PLAIN, right.contents[:3], {}, right.size), contenders.OURS)
    job, off, why = timed.prepared("wrong", lambda: wrong)
    assert job is None and off > contenders.OURS and "off by" in why


def test_a_job_that_fails_loses_no_other_row() -> None:
    def fails() -> contenders.Job:
        raise RuntimeError("not today")

    given = problem(SHAW)
    jobs = {"plain": lambda: contenders.ours(problem()), "ours": lambda: contenders.ours(given), "flash": fails}
    lines = [
        timed.Line("good", "ours", (timed.Target("over plain", "ours", "plain", 1e9),), {"flash": "flash"}),
        timed.Line("half", "ours", (timed.Target("of flash", "flash", "ours", 0.6, at_least=True),)),
        timed.Line("bad", "flash"),
    ]
    good, half, bad = timed.rows_of(timed.Group("some", jobs, lines), 1, "cpu")
    assert good.figures[0].met and not good.error and "not today" in str(good.peers["flash"])
    assert half.ms > 0 and "no 'of flash': flash: RuntimeError: not today" in half.error
    assert math.isnan(bad.ms) and "not today" in bad.error and "ERROR" in line_of(bad)


def test_after_a_fault_of_the_gpu_nothing_goes_on() -> None:
    def fault() -> contenders.Job:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError):
        timed.prepared("fault", fault)
    assert gave_up(RuntimeError("CUDA error: unspecified launch failure")) and not gave_up(RuntimeError("CUDA out of memory"))


def test_what_runs_out_of_memory_while_it_is_timed_is_left_out() -> None:
    def too_much() -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    times, errors = times_by_turns({"fits": lambda: None, "too much": too_much}, 2, "cpu")
    assert set(times) == {"fits"} and set(errors) == {"too much"}


def test_figures_know_their_targets() -> None:
    assert Figure("over plain", 1.04, 1.04).met and not Figure("over plain", 1.05, 1.04).met
    assert Figure("of cuDNN", 0.97, 0.97, at_least=True).met and not Figure("of cuDNN", 0.96, 0.97, at_least=True).met
    assert Figure("MiB", 3.0).met is None
    row = Row("forward", "T5", ms=1.5, figures=[Figure("over plain", 1.05, 1.04)], peers={"flash": 2.0, "FlexAttention": "not here: x"})
    assert line_of(row) == "| forward: T5 | 1.500 | over plain 1.050 (<= 1.04: MISSED) | - | 2.00 | - | - |"
    assert line_of(row_from(json.loads(json.dumps(row.as_json())))) == line_of(row)


def test_a_row_is_read_where_its_distance_says() -> None:
    products = torch.arange(4 * 7).reshape(1, 1, 4, 7)
    want = torch.stack([torch.stack([products[0, 0, i, 3 - i + j] for j in range(4)]) for i in range(4)])
    assert torch.equal(by_shift(products)[0, 0], want)


def test_a_head_alone_is_a_head_of_all() -> None:
    given = problem(TRANSFORMER_XL)
    wide = [x.float() for x in given.contents[:3]]
    tensors = {name: x.float() for name, x in given.tensors.items()}
    assert torch.allclose(written_out(given.scheme, tuple(wide), tensors, given.size)[:, :1], given.forward["out"], atol=1e-5)


# ---- The process that starts others ----

CHILD = """
import json, sys
path, names = sys.argv[1], sys.argv[2:]
for name in names:
    if name == "bad":
        sys.exit(245)
    row = {"group": name, "name": "one", "ms": 1.0, "figures": []}
    with open(path, "a") as file:
        file.write(json.dumps({"group": name, "seconds": 1.0, "rows": [row]}) + "\\n")
"""


def run_with(monkeypatch: pytest.MonkeyPatch, folder: Path, names: list[str], seconds: float) -> tuple[list[dict[str, Any]], list[str]]:
    def child(left: list[str], path: Path, given: argparse.Namespace) -> subprocess.Popen[bytes]:
        del given
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(CHILD), str(path), *left])

    monkeypatch.setattr(attention_targets, "child", child)
    return attention_targets.all_groups(names, argparse.Namespace(json=folder / "out.json", seconds=seconds))


def test_a_process_that_ends_early_loses_one_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, left = run_with(monkeypatch, tmp_path, ["first", "bad", "last"], math.inf)
    assert [line["group"] for line in lines] == ["first", "bad", "last"] and left == []
    assert "its process ended with status 245" in lines[1]["rows"][0]["error"]
    printed = capsys.readouterr().out
    assert [word in printed for word in ("| first: one |", "| bad: all of it |", "| last: one |")] == [True] * 3


def test_no_group_is_begun_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run_with(monkeypatch, tmp_path, ["first", "last"], -1.0) == ([], ["first", "last"])


def test_the_command_from_its_words_to_its_file(tmp_path: Path) -> None:
    decoded = tmp_path / "decode.json"
    decoded.write_text(json.dumps([{"case": "decode bf16, 4 key heads", "tokens": 64 * 8192, "us": 100.0, "copy_us": 86.0}]), encoding="utf-8")
    command = [sys.executable, "-P", str(BENCH / "attention_targets.py"), str(tmp_path / "out.json"), "--device", "cpu", "--rounds", "1"]
    done = subprocess.run([*command, "--only", "rotary D64 full", "--decode-json", str(decoded)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [line["group"] for line in written["groups"]] == ["rotary D64 full", "decode kernel alone"] and not written["failed"]
    assert "of a copy's speed 0.860 (>= 0.85: met)" in done.stdout and "rows with errors; not run to their end: none" in done.stdout
    assert any("| rotary D64" in text for text in table.of_attention(written))


# ---- Encoders in training ----


@pytest.mark.parametrize("name", list(training.MODELS))
def test_encoders_learn_what_theirs_learn(name: str) -> None:
    row = training.row_of(name, training.QUICK, "cpu")
    assert "error" not in row, row["error"]
    assert row["ours"]["losses"] != row["theirs"]["losses"], "its attention was not replaced"
    assert len(table.of_training({"models": {name: row, "other": {"error": "no memory"}}})) == 4
