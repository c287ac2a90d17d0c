# SPDX-License-Identifier: Apache-2.0
"""The model with every encoding: forward and backward in float32 and bfloat16, the same beginning for all, and the control of rotary's pairings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab import device as places  # noqa: E402
from lab.encodings import TRAINED  # noqa: E402
from lab.encodings.changed import MAPS, SCALINGS, rotary_changed  # noqa: E402
from lab.model import begun  # noqa: E402
from lab.presets import PRESETS, QUICK, Shape  # noqa: E402
from lab.training.step import Plan  # noqa: E402
from lab.training.trainer import Trainer  # noqa: E402

CPU, VOCABULARY = torch.device("cpu"), 64
SHAPE = QUICK.shape


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("name", TRAINED)
def test_every_encoding_has_a_gradient_for_all_it_learns(name: str, dtype: str) -> None:
    model = begun(name, 0, SHAPE, VOCABULARY)
    with places.arithmetic(CPU, dtype):
        loss = model.loss(tokens(2, SHAPE.length + 1))
    loss.backward()
    assert loss.dtype == torch.float32 and torch.isfinite(loss)
    for parameter in model.parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all()
    for label, parameter in model.encoding.named_parameters():
        assert parameter.grad.abs().max() > 0, label


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_every_change_reads_longer_documents(dtype: str) -> None:
    model = begun("rotary", 0, SHAPE, VOCABULARY)
    given = tokens(2, 3 * SHAPE.length)
    with torch.no_grad(), places.arithmetic(CPU, dtype):
        found = {how: model(given, rotary_changed(how, 3.0, SHAPE)) for how in (*SCALINGS, *MAPS)}
        plain = model(given)
    for how, hidden in found.items():
        assert torch.isfinite(hidden).all(), how
        assert not torch.equal(hidden, plain), how


@pytest.mark.parametrize("name", TRAINED)
def test_sixteen_bits_are_thirty_two_rounded(name: str) -> None:
    """A wrong dtype or a table left in float32 would show as another function."""
    model = begun(name, 0, SHAPE, VOCABULARY)
    given = tokens(2, SHAPE.length)
    with torch.no_grad():
        exact = model(given)
        with places.arithmetic(CPU, "bfloat16"):
            rounded = model(given).float()
    assert (exact - rounded).norm() / exact.norm() < 0.02


def test_all_of_a_seed_begin_alike() -> None:
    wanted = {name: one for name, one in begun("none", 3, SHAPE, VOCABULARY).state_dict().items()}
    for name in TRAINED:
        state = begun(name, 3, SHAPE, VOCABULARY).state_dict()
        for part, value in wanted.items():
            assert torch.equal(state[part], value) or (name == "rotary adjacent" and part.endswith("qkv.weight")), (name, part)
    assert not torch.equal(begun("none", 4, SHAPE, VOCABULARY).tokens.weight, wanted["tokens.weight"])


def test_both_pairings_train_alike() -> None:
    losses = []
    for name in ("rotary", "rotary adjacent"):
        trainer = Trainer(begun(name, 0, SHAPE, VOCABULARY), Plan.of(QUICK), CPU)
        for step in range(6):
            trainer.step(tokens(4, SHAPE.length + 1) + 0 * step)
        losses.append(trainer.losses[:6])
    assert losses[0][0] - losses[0][5] > 0.05  # it learns
    assert (losses[0] - losses[1]).abs().max() < 2e-4


@pytest.mark.parametrize("name, least, most", (("small", 28e6, 32e6), ("small1024", 28e6, 32e6), ("medium", 115e6, 130e6)))
def test_presets_have_the_sizes_that_they_say(name: str, least: float, most: float) -> None:
    shape: Shape = PRESETS[name].shape
    with torch.device("meta"):
        from lab.model import Model

        made = Model(shape, 8192 + 128)
    assert least < sum(one.numel() for one in made.parameters()) < most
    assert shape.head_dim == 64  # which fast kernels have


def test_small1024_is_small_in_longer_windows() -> None:
    small, longer = PRESETS["small"], PRESETS["small1024"]
    assert small.tokens_a_step == longer.tokens_a_step and small.steps == longer.steps == 4800
    for lengths in (lambda one: one.multiples, lambda one: one.retrieval.multiples, lambda one: one.changes.multiples):
        assert small.length(max(lengths(small))) == longer.length(max(lengths(longer))) == 32768
    assert longer.shape.length == 1024 and min(longer.multiples) == 0.5


def test_medium_sees_the_batches_of_small() -> None:
    small, greater = PRESETS["small"], PRESETS["medium"]
    assert (small.steps, small.rows, small.shape.length, small.multiples) == (greater.steps, greater.rows, greater.shape.length, greater.multiples)
    assert set(greater.changes.multiples) < set(small.changes.multiples)
