# SPDX-License-Identifier: Apache-2.0
"""Training: the same windows in the same order for every encoding of a seed, the same bits each time, killed and resumed or not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lab import device as places
from lab.model import Model
from lab.training import captured
from lab.training.checkpoint import Checkpoint
from lab.training.step import Plan, Step

PROBED = 12  # steps after which it is known how long all of them take; the first ones, which load kernels, do not count
POINTS = 60  # of the curve


class TooSlow(Exception):
    """A training that would take more time than its cap."""


class Trainer:
    """A model, its steps, and the loss of every one, which stays on the device: nothing waits for it."""

    def __init__(self, model: Model, plan: Plan, device: torch.device, eager: bool = False) -> None:
        self.model, self.plan, self.device = model, plan, device
        self.losses = torch.zeros(plan.steps, device=device)
        self.done = 0
        self.one = Step(model, plan, device)
        self.graphs = captured.graphs_of(device, eager)
        self._work: captured.Work | None = None
        self.not_captured: str | None = None  # why, once a step was made

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        return self.one.optimizer

    def step(self, tokens: Tensor) -> None:
        """One step on windows (rows, length + 1). The first one captures it, where that can be."""
        self.one.give(tokens, self.plan.rate_at(self.done))
        if self._work is None:
            self._work, self.not_captured = captured.made(self.one, self.graphs)
        self._work()
        self.losses[self.done] = self.one.loss
        self.done += 1

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "losses": self.losses, "done": self.done}

    def take(self, state: dict[str, Any]) -> None:
        """A state that was written; its optimiser's tensors lie elsewhere, so a graph is captured anew."""
        self._work = None
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses.copy_(state["losses"])
        self.done = state["done"]

    def release(self) -> None:
        """Gives back the memory of the graph and of gradients."""
        self._work = None
        self.optimizer.zero_grad(set_to_none=True)


def trained(
    trainer: Trainer, windows: Tensor, checkpoint: Checkpoint | None = None, step_done: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Trains to the end, and says what it took: the part `trained` of a result."""
    device, plan = trainer.device, trainer.plan
    held = None if checkpoint is None else checkpoint.read(device)
    before = 0.0
    if held is not None:
        trainer.take(held)
        before = held["seconds"]
    trainer.model.train()
    places.forget_peak(device)
    clock = _Clock(trainer, before)
    for step in range(trainer.done, plan.steps):
        trainer.step(windows[step])
        clock.stepped()
        step_done(trainer.done)
        if checkpoint is not None and trainer.done < plan.steps and checkpoint.due(trainer.done):
            checkpoint.write({**trainer.state(), "seconds": clock.seconds()})
    found = _summary(trainer, clock, windows.shape[1] * (windows.shape[2] - 1))
    trainer.release()
    return found


class _Clock:
    """Seconds of a training, and of a step once kernels are loaded; who is too slow is stopped early."""

    def __init__(self, trainer: Trainer, before: float) -> None:
        self.trainer, self.before, self.steps = trainer, before, 0
        self.begun, self.settled = time.monotonic(), (0, time.monotonic())

    def seconds(self) -> float:
        places.waited(self.trainer.device)
        return self.before + time.monotonic() - self.begun

    def a_step(self) -> float:
        places.waited(self.trainer.device)
        return (time.monotonic() - self.settled[1]) / max(1, self.steps - self.settled[0])

    def stepped(self) -> None:
        self.steps += 1
        if self.steps == PROBED // 2:
            places.waited(self.trainer.device)
            self.settled = (self.steps, time.monotonic())
        if self.steps == PROBED:
            plan, one = self.trainer.plan, self.a_step()
            if one * plan.steps > plan.cap:
                raise TooSlow(f"time: a step takes {one:.2f} s, {plan.steps} of them {one * plan.steps:.0f} s, the cap is {plan.cap:g} s")


def _summary(trainer: Trainer, clock: _Clock, tokens_a_step: int) -> dict[str, Any]:
    a_step, seconds = clock.a_step(), clock.seconds()
    losses = trainer.losses.double().cpu().tolist()
    width = max(1, len(losses) // POINTS)
    curve = [[begin + width, sum(losses[begin : begin + width]) / width] for begin in range(0, len(losses) - width + 1, width)]
    last = losses[-max(1, len(losses) // 20) :]
    return {
        "tokens": tokens_a_step * len(losses),
        "steps": len(losses),
        "seconds": seconds,
        "tokens_per_second": tokens_a_step / a_step,
        "peak_bytes": places.peak_bytes(trainer.device),
        "captured": trainer.not_captured is None,
        "reason": trainer.not_captured,
        "curve": curve,
        "final_loss": sum(last) / len(last),
    }
