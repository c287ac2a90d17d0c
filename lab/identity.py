# SPDX-License-Identifier: Apache-2.0
"""Is an encoding what its label says? One layer of a tiny model is computed with it and by the label's formula; where they differ, nothing is trained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lab.encodings import TRAINED, Encoding
from lab.encodings.rotary import Rotated
from lab.formulas.case import Case
from lab.formulas.changed import CHANGED
from lab.formulas.trained import FORMULAS
from lab.presets import Shape

TINY = Shape(width=32, heads=2, layers=4, length=32)
TOKENS = (32, 48)  # as in training, and beyond it
OFF = 2e-4  # of the largest value: float32 against float64
ROUNDED_APART = 0.02  # of numbers in bfloat16, where a tie may fall otherwise
ROUNDED = {"rotary": "exact", "rotary bf16 tables": "bf16"}


class NotItsLabel(ValueError):
    """An encoding that does not do what its label says."""


def _randomised(encoding: Encoding) -> Encoding:
    """Numbers in the place of what is learned: a table of zeros would not show."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in encoding.parameters():
            drawn = torch.rand(parameter.shape, generator=generator)
            parameter.copy_(2 * drawn - 1 if parameter.ndim >= 2 else 0.2 + 0.8 * drawn)
    return encoding


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape)


def _case(encoding: Encoding, tokens: int, layer: int, factor: float, known: Encoding) -> Case:
    weights = [_numbers(TINY.width, TINY.width, n) for n in (1, 2, 3)]
    wq, wk, wv = (weight[..., -1] / TINY.width**0.5 for weight in weights)
    learned = {name: value.double().numpy() for name, value in known.state_dict().items()}
    scaling = encoding.module.rope.scaling if isinstance(encoding, Rotated) else None
    factors = tuple(getattr(scaling, "long_factors", ()))
    return Case(_numbers(tokens, TINY.width), wq, wk, wv, TINY.heads, TINY.length, layer, learned, factor, factors)


@torch.no_grad()
def _computed(encoding: Encoding, case: Case) -> np.ndarray:
    x = encoding.add(torch.from_numpy(case.x).float()[None])
    q, k, v = ((x @ torch.from_numpy(weight).float().T).unflatten(-1, (case.heads, -1)) for weight in (case.wq, case.wk, case.wv))
    return encoding.attend(q, k, v, case.layer)[0].double().numpy()


def _hold(label: str, formula: Callable[[Case], np.ndarray], encoding: Encoding, case: Case) -> None:
    where = f"{label}: layer {case.layer} of {len(case.x)} tokens"
    try:
        wanted = formula(case)
    except (KeyError, ValueError, IndexError) as missing:
        raise NotItsLabel(f"{where}: the encoding has not what its label needs: {missing}") from None
    try:
        found = _computed(encoding, case)
    except ValueError as refused:
        raise NotItsLabel(f"{where}: the library refuses it: {refused}") from None
    apart = np.abs(found - wanted).max() / np.abs(wanted).max()
    if not apart <= OFF:
        raise NotItsLabel(f"{where}: its scores are not those of the label's formula: outputs are {apart:.2g} off, wanted {OFF:g} or less")


def check(label: str, make: Callable[[Shape], Encoding] | None = None) -> None:
    """Refuses a trained label whose encoding (by `make`, in tests another one's) is not its formula."""
    encoding = _randomised((make or TRAINED[label])(TINY))
    for tokens in TOKENS[: 1 if label == "learned" else None]:
        for layer in range(TINY.layers):
            _hold(label, FORMULAS[label], encoding, _case(encoding, tokens, layer, 1.0, encoding))
    if label in ROUNDED:
        _hold_rounding(label, encoding)


def check_changed(how: str, encoding: Encoding, factor: float) -> None:
    """The same of a change of a trained rotary model, at `factor` times the length."""
    case = _case(encoding, round(TINY.length * factor), 0, factor, encoding)
    _hold(f"rotary, {how}", CHANGED[how], encoding, case)


def check_hierarchical(encoding: Encoding, table: Encoding, tokens: int) -> None:
    """An extension of a learned table against that table's formula."""
    _hold("hierarchical", FORMULAS["hierarchical"], encoding, _case(encoding, tokens, 0, 1.0, table))


# ---- How rotary rounds in 16 bits: exact phases and one rounding, or angles in float32 and tables and products in bfloat16 ----


def _exactly(x: Tensor, other: Tensor, at: np.ndarray) -> Tensor:
    speeds = 10000.0 ** (-2 * np.arange(x.shape[-1] // 2) / x.shape[-1])
    angle = torch.from_numpy(np.tile(at[:, None] * speeds, 2))[:, None]
    return (x.double() * angle.cos() + other.double() * angle.sin()).to(torch.bfloat16)


def _by_tables(x: Tensor, other: Tensor, at: np.ndarray) -> Tensor:
    width = x.shape[-1]
    speeds = 1.0 / 10000.0 ** (torch.arange(0, width, 2).float() / width)
    angle = (torch.from_numpy(at).float()[:, None] * speeds).repeat(1, 2)[:, None]
    return x * angle.cos().to(x.dtype) + other * angle.sin().to(x.dtype)


@torch.no_grad()
def _hold_rounding(label: str, encoding: Encoding) -> None:
    at = np.arange(TINY.length)
    x = torch.from_numpy(_numbers(TINY.length, TINY.heads, TINY.head_dim)).to(torch.bfloat16)
    first, second = x.chunk(2, dim=-1)
    wanted = (_exactly if ROUNDED[label] == "exact" else _by_tables)(x, torch.cat([-second, first], dim=-1), at)
    found, _ = encoding.rotate(x[None], x[None], 0)
    apart = (found[0] != wanted).double().mean().item()
    if apart > ROUNDED_APART:
        raise NotItsLabel(f"{label}: {apart:.0%} of its numbers in bfloat16 are not rounded as the label says, wanted {ROUNDED_APART:.0%} at most")
