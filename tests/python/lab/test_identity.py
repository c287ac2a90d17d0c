# SPDX-License-Identifier: Apache-2.0
"""Every encoding is what its label says: forward by the formula of its paper, backward by that formula's differences; exchanged labels are refused."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
import phasor  # noqa: E402
from lab import identity  # noqa: E402
from lab.encodings import TRAINED, Encoding  # noqa: E402
from lab.encodings.additive import hierarchical  # noqa: E402
from lab.encodings.changed import MAPS, SCALINGS, rotary_changed  # noqa: E402
from lab.encodings.rotary import Rotated  # noqa: E402
from lab.formulas.case import Case  # noqa: E402
from lab.formulas.trained import FORMULAS  # noqa: E402
from lab.formulas.changed import CHANGED  # noqa: E402
from lab.identity import TINY, NotItsLabel, check, check_changed, check_hierarchical  # noqa: E402

FACTOR = 3.0


def longrope() -> Encoding:
    factors = tuple(1 + 0.25 * pair for pair in range(TINY.head_dim // 2))
    scaling = phasor.LongRopeScaling((1.0,) * len(factors), factors, TINY.length, FACTOR, choice="long_factors")
    return Rotated(TINY, scaling=scaling)


def changed(how: str) -> Encoding:
    return longrope() if how == "longrope" else rotary_changed(how, FACTOR, TINY)


@pytest.mark.parametrize("label", TRAINED)
def test_an_encoding_is_its_label_s_formula(label: str) -> None:
    check(label)


@pytest.mark.parametrize("label", TRAINED)
def test_two_labels_exchanged_are_refused(label: str) -> None:
    for other in TRAINED:
        if other != label:
            with pytest.raises(NotItsLabel, match=f"^{label}: "):
                check(label, TRAINED[other])


def test_every_label_has_a_formula() -> None:
    assert {*TRAINED, "hierarchical"} == set(FORMULAS)
    assert {*SCALINGS, *MAPS, "longrope"} == set(CHANGED)


@pytest.mark.parametrize("how", CHANGED)
def test_a_change_of_rotary_is_its_formula(how: str) -> None:
    check_changed(how, changed(how), FACTOR)


def test_two_changes_exchanged_are_refused() -> None:
    for how, other in itertools.permutations(CHANGED, 2):
        with pytest.raises(NotItsLabel, match=f"^rotary, {how}: "):
            check_changed(how, changed(other), FACTOR)
    for how in CHANGED:
        with pytest.raises(NotItsLabel, match=f"^rotary, {how}: "):
            check_changed(how, Rotated(TINY), FACTOR)


def test_a_longer_table_is_the_hierarchical_one() -> None:
    table = identity._randomised(TRAINED["learned"](TINY))
    assert hierarchical(table, TINY.length) is table
    check_hierarchical(hierarchical(table, 100), table, 100)
    with pytest.raises(NotItsLabel, match="the table has 32 rows"):
        check_hierarchical(table, table, 100)
    with pytest.raises(NotItsLabel, match="not those of the label's formula"):
        check_hierarchical(TRAINED["sinusoidal"](TINY), table, 100)


def test_at_the_trained_length_no_scaling_changes_anything() -> None:
    case = identity._case(Rotated(TINY), TINY.length, 0, 1.0, Rotated(TINY))
    plain = identity._computed(Rotated(TINY), case)
    for how in SCALINGS:
        assert np.array_equal(identity._computed(rotary_changed(how, 1.0, TINY), case), plain), how
    for how in ("leaky rerope", "self-extend"):  # these attend in two parts: the same but for rounding
        assert np.abs(identity._computed(rotary_changed(how, 1.0, TINY), case) - plain).max() < 1e-5, how


# ---- Gradients ----


def moved(case: Case, by: dict[str, np.ndarray], step: float) -> Case:
    learned = {name: value + step * by[name] if name in by else value for name, value in case.learned.items()}
    named = {name: getattr(case, name) + step * by[name] for name in ("x", "wq", "wk", "wv")}
    return replace(case, learned=learned, **named)


def slope(encoding: Encoding, case: Case, by: dict[str, np.ndarray], towards: np.ndarray) -> float:
    """How fast the outputs go along `towards` when everything goes along `by`, by the gradients of the library."""
    tensors = {name: torch.from_numpy(getattr(case, name)).float().requires_grad_() for name in ("x", "wq", "wk", "wv")}
    x = encoding.add(tensors["x"][None])
    q, k, v = ((x @ tensors[name].T).unflatten(-1, (case.heads, -1)) for name in ("wq", "wk", "wv"))
    out = encoding.attend(q, k, v, case.layer)[0]
    (out * torch.from_numpy(towards).float()).sum().backward()
    every = {**tensors, **dict(encoding.named_parameters())}
    return sum(float((one.grad.double().numpy() * by[name]).sum()) for name, one in every.items() if one.grad is not None)


@pytest.mark.parametrize("label", TRAINED)
def test_gradients_are_those_of_the_formula(label: str) -> None:
    encoding = identity._randomised(TRAINED[label](TINY))
    case = identity._case(encoding, TINY.length, 1, 1.0, encoding)
    rng = np.random.default_rng(5)
    towards = rng.standard_normal((len(case.x), case.heads, case.width))
    shapes = {name: getattr(case, name).shape for name in ("x", "wq", "wk", "wv")} | {name: one.shape for name, one in case.learned.items()}
    for group in (set(shapes), set(case.learned)):  # all of it, and what the encoding learns alone
        if not group:
            continue
        by = {name: rng.standard_normal(shape) * (name in group) for name, shape in shapes.items()}
        encoding.zero_grad()
        step = 1e-6
        ends = [(FORMULAS[label](moved(case, by, sign * step)) * towards).sum() for sign in (1, -1)]
        wanted = (ends[0] - ends[1]) / (2 * step)
        found = slope(encoding, case, by, towards)
        assert found == pytest.approx(wanted, rel=2e-3, abs=2e-3), label


# ---- Maps in passes ----


@pytest.mark.parametrize("how", MAPS)
@pytest.mark.parametrize("tokens", (5, TINY.length, 3 * TINY.length + 1))
def test_maps_in_passes_are_the_library_s_one_call(how: str, tokens: int) -> None:
    torch.manual_seed(4)
    q, k, v = (torch.randn(2, tokens, TINY.heads, TINY.head_dim) for _ in range(3))
    encoding: Any = rotary_changed(how, FACTOR, TINY)
    wanted = phasor.attention(q, k, v, phasor.Rope(phasor.Rotary(TINY.head_dim), map=encoding.map), causal=True)
    assert (encoding.attend(q, k, v, 0) - wanted).abs().max() < 2e-5


def test_xpos_before_attention_is_the_library_s_inside() -> None:
    torch.manual_seed(4)
    q, k, v = (torch.randn(2, 70, TINY.heads, TINY.head_dim) for _ in range(3))
    wanted = phasor.attention(q, k, v, phasor.Xpos(phasor.Rotary(TINY.head_dim), 0.4, float(TINY.length)), causal=True)
    assert (TRAINED["xpos"](TINY).attend(q, k, v, 0) - wanted).abs().max() < 2e-5
