# SPDX-License-Identifier: Apache-2.0
"""Training repeats itself: killed and resumed with the same bits, the same windows for all encodings, and stopped where it would take too long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from lab import batches  # noqa: E402
from lab.batches import Batches, Source, Windows, made  # noqa: E402
from lab.device import settled  # noqa: E402
from lab.model import begun  # noqa: E402
from lab.presets import QUICK, Caps  # noqa: E402
from lab.run import Lab, run  # noqa: E402
from lab.training import trainer as training  # noqa: E402
from lab.training.checkpoint import Checkpoint  # noqa: E402
from lab.training.step import Plan  # noqa: E402
from lab.training.trainer import Trainer, trained  # noqa: E402

CPU = torch.device("cpu")
TIMES = ("seconds", "tokens_per_second", "commit", "lanes")


def numbers(value: Any) -> Any:
    """A result without what a clock says."""
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items() if key not in TIMES}
    return [numbers(one) for one in value] if isinstance(value, list) else value


def lab_run(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    places = ["--results", str(folder / "results"), "--checkpoints", str(folder / "checkpoints")]
    command = [sys.executable, "-m", "lab", "run", "--preset", "quick", "--device", "cpu", "--only", "t5", "--steps", "60", *places, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def result_in(folder: Path) -> Any:
    return json.loads((folder / "results/quick/t5-0.json").read_text())


def test_killed_and_resumed_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert lab_run(whole).wait() == 0
    first = lab_run(killed, "--checkpoint-steps", "3")
    file = killed / "checkpoints/quick-t5-0.pt"
    while not file.exists():
        assert first.poll() is None, "it ended before it wrote a checkpoint"
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    done = torch.load(file, weights_only=True)["done"]
    assert 3 <= done < 60 and not (killed / "results/quick/t5-0.json").exists()
    assert lab_run(killed).wait() == 0
    assert numbers(result_in(killed)) == numbers(result_in(whole))
    assert not file.exists()


def trainer(steps: int = 4, seed: int = 0) -> tuple[Trainer, torch.Tensor]:
    source = Source()
    plan = replace(Plan.of(QUICK), steps=steps)
    model = begun("rotary", seed, QUICK.shape, source.store.vocabulary)
    return Trainer(model, plan, CPU), Batches(source, CPU).of(Windows(seed, 0, steps, QUICK.rows, QUICK.shape.length))


def test_what_is_learned_shows_in_the_curve() -> None:
    settled("cpu")
    one, windows = trainer(40)
    found = trained(one, windows)
    assert found["steps"] == 40 and found["tokens"] == 40 * QUICK.tokens_a_step
    assert found["curve"][0][1] - found["final_loss"] > 1
    assert found["curve"][-1][0] == 40 and found["tokens_per_second"] > 0


def test_a_checkpoint_of_another_run_is_not_taken(tmp_path: Path) -> None:
    one, windows = trainer()
    file = Checkpoint(tmp_path / "a.pt", "one", steps=1)
    trained(one, windows, file)
    assert file.read(CPU)["done"] == 3
    assert Checkpoint(tmp_path / "a.pt", "another").read(CPU) is None
    again, _ = trainer()
    trained(again, windows, Checkpoint(tmp_path / "a.pt", "one"))
    assert again.done == 4 and torch.equal(again.losses, one.losses)
    assert all(torch.equal(a, b) for a, b in zip(again.model.state_dict().values(), one.model.state_dict().values()))


def test_a_slow_training_is_left_out_and_the_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "PROBED", 4)
    preset = replace(QUICK, caps=Caps(training=1e-6, measuring=1.0))
    found = run(Lab(preset, Batches(Source(), CPU), CPU), "none", 0)
    assert found["trained"] is None and found["measured"] == []
    (refused,) = found["refused"]
    assert refused["label"] == "none" and refused["message"].startswith("time: a step takes")
    assert found["cost"]["attention_path"]


def test_windows_made_by_several_processes_are_those_of_one() -> None:
    asked = Windows(5, 2, batches.PART + 7, 2, 40)
    with batches.pool_of(2) as pool:
        assert np.array_equal(made(Source(), asked, pool), made(Source(), asked))


def test_the_rate_rises_and_falls() -> None:
    plan = Plan.of(replace(QUICK, steps=100, warmup=10, rate=1.0))
    rates = [plan.rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == pytest.approx(rates[9], rel=0.05)
    assert rates[-1] == pytest.approx(0.1, rel=0.01) and all(a >= b for a, b in zip(rates[9:], rates[10:]))


def test_biases_learn_at_a_rate_of_their_own() -> None:
    trainer = Trainer(begun("t5", 0, QUICK.shape, 64), Plan.of(QUICK), CPU)
    trainer.step(torch.arange(66).reshape(2, 33) % 64)
    rates = {name: group["lr"].item() for group in trainer.optimizer.param_groups for name, one in trainer.model.named_parameters() if any(one is p for p in group["params"])}
    assert len(rates) == len(list(trainer.model.parameters()))
    assert {rate for name, rate in rates.items() if name == "encoding.table"} == {torch.tensor(10 * trainer.plan.rate_at(0)).item()}
    assert {rate for name, rate in rates.items() if name != "encoding.table"} == {torch.tensor(trainer.plan.rate_at(0)).item()}
