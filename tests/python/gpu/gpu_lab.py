# SPDX-License-Identifier: Apache-2.0
"""The lab's training step as a CUDA graph: the bits of a step that is launched, resumed or not, and words where it cannot be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from cases import needs_gpu, same_bits

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

STEPS, ROWS, VOCABULARY = 6, 16, 192


@contextmanager
def repeatable() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def trainer_of(name: str, eager: bool = False):  # noqa: ANN201  the lab is imported where it is used
    from lab.model import begun
    from lab.presets import Shape
    from lab.training.step import Plan
    from lab.training.trainer import Trainer

    shape = Shape(width=128, heads=2, layers=4, length=256)
    plan = Plan(STEPS, rate=1e-3, warmup=3, decay=0.1, dtype="bfloat16", cap=1e6)
    return Trainer(begun(name, 0, shape, VOCABULARY).to("cuda"), plan, torch.device("cuda"), eager)


def windows() -> Tensor:
    """More tokens than PyTorch adds gradients of rows for without sorting them, 3072."""
    made = torch.randint(VOCABULARY, (STEPS, ROWS, 257), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    return made.cuda()


def stepped(trainer, some: Tensor):  # noqa: ANN001, ANN201
    for tokens in some:
        trainer.step(tokens)
    torch.cuda.synchronize()
    return trainer


def same(one, other) -> bool:  # noqa: ANN001
    return same_bits(one.losses, other.losses) and same_bits(list(one.model.state_dict().values()), list(other.model.state_dict().values()))


def test_a_replayed_step_has_the_bits_of_a_launched_one() -> None:
    needs_gpu()
    from lab.encodings import TRAINED

    wrong = []
    with repeatable():
        for name in TRAINED:
            launched, replayed = stepped(trainer_of(name, eager=True), windows()), stepped(trainer_of(name), windows())
            assert launched.not_captured == "asked for"
            if replayed.not_captured is not None:
                wrong.append(f"{name} is not captured: {replayed.not_captured}")
            elif not same(launched, replayed):
                wrong.append(f"{name}: losses are {(launched.losses - replayed.losses).abs().max().item():.2g} apart")
    assert not wrong, "; ".join(wrong)


def test_a_resumed_training_has_the_bits_of_a_whole_one() -> None:
    needs_gpu()
    with repeatable():
        whole, first = stepped(trainer_of("t5"), windows()), stepped(trainer_of("t5"), windows()[:3])
        second = trainer_of("t5")
        second.take(first.state())
        assert same(stepped(second, windows()[3:]), whole)


def waiting(trainer) -> None:  # noqa: ANN001
    """Its encoding reads a number from the device at every step."""
    plain = trainer.model.encoding.add

    def add(x: Tensor) -> Tensor:
        return plain(x) + 0 * float(x.detach()[0, 0, 0])

    trainer.model.encoding.add = add


def test_a_step_that_waits_is_launched_and_says_so() -> None:
    needs_gpu()
    with repeatable():
        launched, waits = stepped(trainer_of("none", eager=True), windows()), trainer_of("none")
        waiting(waits)
        stepped(waits, windows())
        assert "synchroniz" in (waits.not_captured or ""), waits.not_captured
        assert same(launched, waits)


def test_after_a_capture_that_broke_off_others_are_captured() -> None:
    """What CUDA forbids, found in the capture alone: calls that PyTorch does not know to wait are like this."""
    needs_gpu()
    from lab.training.captured import Graphs

    with repeatable():
        broken = trainer_of("none")
        waiting(broken)
        plain = broken.graphs
        assert isinstance(plain, Graphs)
        plain.warm = lambda work: [work() for _ in range(3)] and None  # type: ignore[method-assign]
        stepped(broken, windows())
        assert broken.not_captured and torch.cuda.current_stream() == torch.cuda.default_stream(), broken.not_captured
        launched, next_one = stepped(trainer_of("none", eager=True), windows()), stepped(trainer_of("none"), windows())
        assert next_one.not_captured is None, next_one.not_captured
        assert same(launched, broken) and same(launched, next_one)
