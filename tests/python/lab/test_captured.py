# SPDX-License-Identifier: Apache-2.0
"""A captured step is the step: what is captured equals a plain training loop, warming up leaves nothing behind, nothing moves in memory between replays,
and what cannot be captured says why. Graphs themselves need a GPU (tests/python/gpu/gpu_lab.py); here one is pretended, which calls again what it holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab.batches import Batches, Source, Windows  # noqa: E402
from lab.device import arithmetic, settled  # noqa: E402
from lab.model import Model, begun  # noqa: E402
from lab.presets import QUICK  # noqa: E402
from lab.run import Lab, run  # noqa: E402
from lab.smoke import compared  # noqa: E402
from lab.training import captured  # noqa: E402
from lab.training.step import Plan, Step  # noqa: E402
from lab.training.trainer import Trainer, trained  # noqa: E402

CPU = torch.device("cpu")
STEPS = 6
PLAN = replace(Plan.of(QUICK), steps=STEPS)
WAITS = "RuntimeError: called a synchronizing CUDA operation"


class Pretended:
    """Graphs of a CPU. A replay looks whether all that a true one would find by address is still there."""

    def __init__(self, trainer: Trainer) -> None:
        self.step, self.replays = trainer.one, 0

    def warm(self, work: Callable[[], None]) -> str | None:
        for _ in range(captured.WARM_UP):
            work()
        return None

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        before = self.addresses()

        def replay() -> None:
            assert self.addresses() == before
            self.replays += 1
            work()

        return replay

    def addresses(self) -> list[int]:
        optimizer = self.step.optimizer
        state = [value for one in optimizer.state.values() for value in one.values()]
        rates = [group["lr"] for group in optimizer.param_groups]
        return [x.data_ptr() for x in (*self.step.model.parameters(), *state, *rates, self.step.tokens, self.step.loss)]


@pytest.fixture(autouse=True)
def repeatable() -> Any:
    deterministic = torch.are_deterministic_algorithms_enabled()
    settled("cpu")
    yield
    torch.use_deterministic_algorithms(deterministic)


@pytest.fixture(scope="module")
def windows() -> Tensor:
    return Batches(Source(), CPU).of(Windows(0, 0, STEPS, QUICK.rows, QUICK.shape.length))


def model_of(name: str = "t5") -> Model:
    return begun(name, 0, QUICK.shape, Source().store.vocabulary)


def trainer_of(name: str = "t5", pretended: bool = False) -> Trainer:
    trainer = Trainer(model_of(name), PLAN, CPU)
    if pretended:
        trainer.graphs = Pretended(trainer)
    return trainer


def same(one: Model, other: Model) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_a_step_is_what_a_plain_loop_does(windows: Tensor, dtype: str) -> None:
    plan = replace(PLAN, dtype=dtype)
    model, losses = model_of(), []
    own = {id(one) for one in model.encoding.parameters()}
    others = [one for one in model.parameters() if id(one) not in own]
    kinds = (([one for one in others if one.ndim >= 2], plan.decay, 1), ([one for one in others if one.ndim < 2], 0.0, 1), (list(model.encoding.parameters()), 0.0, 10))
    optimizer = torch.optim.AdamW([{"params": some, "weight_decay": decay} for some, decay, _ in kinds], betas=(0.9, 0.95))
    for number, tokens in enumerate(windows):
        for group, (_, _, factor) in zip(optimizer.param_groups, kinds, strict=True):
            group["lr"] = torch.tensor(plan.rate_at(number) * factor).item()  # in float32
        optimizer.zero_grad()
        with arithmetic(CPU, dtype):
            loss = model.loss(tokens.long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    trainer = Trainer(model_of(), plan, CPU)
    for tokens in windows:
        trainer.step(tokens)
    assert trainer.losses.tolist() == losses and same(trainer.model, model)


def test_warming_up_leaves_nothing_behind(windows: Tensor) -> None:
    step = Step(model_of(), PLAN, CPU)
    step.give(windows[0], PLAN.rate_at(0))
    for number in range(2):  # before AdamW has any state, and after
        undo, before = captured.Undo(step), Undone(step)
        for _ in range(captured.WARM_UP):
            step.work()
        assert Undone(step).numbers != before.numbers
        undo.back()
        assert Undone(step).numbers == before.numbers, number
        assert all(one.grad is None for one in step.model.parameters())
        step.work()


class Undone:
    """All numbers of a step; a state of zeros is as good as none."""

    def __init__(self, step: Step) -> None:
        state = {f"{number} {name}": value for number, one in enumerate(step.optimizer.state.values()) for name, value in one.items() if value.any()}
        self.numbers = {name: value.tolist() for name, value in {**step.model.state_dict(), **state}.items()}


@pytest.mark.parametrize("name", ("rotary", "t5", "fire", "cope"))
def test_replays_are_the_same_steps(windows: Tensor, name: str) -> None:
    eager, replayed = trainer_of(name), trainer_of(name, pretended=True)
    results = [trained(one, windows) for one in (eager, replayed)]
    assert replayed.graphs.replays == STEPS
    assert torch.equal(eager.losses, replayed.losses) and same(eager.model, replayed.model)
    assert (results[0]["captured"], results[0]["reason"]) == (False, "a CPU has no graphs")
    assert (results[1]["captured"], results[1]["reason"]) == (True, None)
    assert all(one.grad is None for one in replayed.model.parameters())


def test_resumed_it_is_captured_again_with_the_same_bits(windows: Tensor, tmp_path: Path) -> None:
    whole = trainer_of(pretended=True)
    trained(whole, windows)
    first = trainer_of(pretended=True)
    for tokens in windows[:3]:
        first.step(tokens)
    torch.save(first.state(), tmp_path / "state.pt")
    second = trainer_of(pretended=True)
    second.step(windows[0])  # even one that has a graph of other memory
    second.take(torch.load(tmp_path / "state.pt", weights_only=True))
    for tokens in windows[3:]:
        second.step(tokens)
    assert torch.equal(second.losses, whole.losses) and same(second.model, whole.model)
    assert second.graphs.replays == 1 + STEPS - 3


# ---- What cannot be captured ----


def failing(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def warm(self: Pretended, work: Callable[[], None]) -> str | None:
        work()
        return WAITS

    def record(self: Pretended, work: Callable[[], None]) -> Callable[[], None]:
        raise ValueError("attention: prefix is on the CPU while a CUDA graph is captured\nand more")

    monkeypatch.setattr(Pretended, where, warm if where == "warm" else record)


@pytest.mark.parametrize("where, words", (("warm", WAITS), ("record", "ValueError: attention: prefix is on the CPU while a CUDA graph is captured")))
def test_what_cannot_be_captured_is_launched_and_says_why(monkeypatch: pytest.MonkeyPatch, windows: Tensor, where: str, words: str) -> None:
    failing(monkeypatch, where)
    eager, refused = trainer_of(), trainer_of(pretended=True)
    trained(eager, windows)
    found = trained(refused, windows)
    assert (found["captured"], found["reason"]) == (False, words)
    assert torch.equal(eager.losses, refused.losses) and same(eager.model, refused.model)


def test_a_step_that_fails_by_itself_is_no_matter_of_captures(monkeypatch: pytest.MonkeyPatch, windows: Tensor) -> None:
    trainer = trainer_of(pretended=True)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}

    def wrong(*_: Any) -> Tensor:
        raise ValueError("no such luck")

    monkeypatch.setattr(trainer.model, "loss", wrong)
    with pytest.raises(ValueError, match="no such luck"):
        trainer.step(windows[0])
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items()) and trainer.done == 0


def test_a_result_says_how_its_steps_were_made(tmp_path: Path) -> None:
    lab = Lab(replace(QUICK, steps=2), Batches(Source(), CPU), CPU, tmp_path, eager=True)
    found = run(lab, "none", 0)["trained"]
    assert (found["captured"], found["reason"]) == (False, "a CPU has no graphs")
    assert captured.graphs_of(torch.device("cuda"), eager=True) == "asked for"
    assert lab.checkpoint("none", 0).key != replace(lab, eager=False).checkpoint("none", 0).key


def test_smoke_holds_replayed_steps_against_launched_ones() -> None:
    launched = {"a_step": 0.03, "losses": [9.0, 8.5], "not_captured": "asked for"}
    assert compared({"losses": [9.0, 8.5], "not_captured": None}, launched) == "captured (30.00 ms launched; the same bits)"
    assert compared({"losses": [9.0, 8.501], "not_captured": None}, launched).endswith("0.001 nats apart)")
    assert compared({"losses": [9.0], "not_captured": WAITS}, launched) == f"NOT CAPTURED: {WAITS}"
    for wrong in (8.6, float("nan")):
        with pytest.raises(RuntimeError, match="wanted the same bits, or 0.005 at most"):
            compared({"losses": [9.0, wrong], "not_captured": None}, launched)
