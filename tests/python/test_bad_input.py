# SPDX-License-Identifier: Apache-2.0
"""Bad input through every front: an error of the right kind that says what is wanted, and nothing written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import phasor

HEAD_DIM = 24
ROPE = phasor.Rotary(head_dim=HEAD_DIM, rotary_width=16, base=1e4)
T = 5
Tensors = tuple[Any, Any]


def good(heads: int, kind: str) -> Any:
    x = np.random.default_rng(heads).standard_normal((2, T, heads, HEAD_DIM)).astype(np.float32)
    return torch.from_numpy(x) if kind == "torch" else x


# ---- The fronts: each takes q, k and positions ----


def through_operator(q: Any, k: Any, positions: Any) -> Any:
    from phasor._torch import words_of

    offset = positions if isinstance(positions, int) else 0
    return torch.ops.phasor.rotary.qk(q, k, words_of(ROPE), None if isinstance(positions, int) else positions, offset, 0)


def through_operator_(q: Any, k: Any, positions: Any) -> Any:
    from phasor._torch import words_of

    offset = positions if isinstance(positions, int) else 0
    return torch.ops.phasor.rotary_.qk(q, k, words_of(ROPE), None if isinstance(positions, int) else positions, offset, 0)


def with_gradient(q: Any, k: Any, positions: Any) -> Any:
    tensors = [x.detach().requires_grad_(x.is_floating_point()) if isinstance(x, torch.Tensor) else x for x in (q, k)]
    return ROPE(*tensors, positions)


BY_POSITIONS: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "numpy new": ("numpy", lambda q, k, p: ROPE(q, k, p)),
    "numpy in place": ("numpy", lambda q, k, p: ROPE.apply_(q, k, p)),
    "torch new": ("torch", lambda q, k, p: ROPE(q, k, p)),
    "torch in place": ("torch", lambda q, k, p: ROPE.apply_(q, k, p)),
    "torch with gradient": ("torch", with_gradient),
    "torch operator": ("torch", through_operator),
    "torch operator in place": ("torch", through_operator_),
}


def as_kind(x: Any, kind: str) -> Any:
    return torch.as_tensor(x) if kind == "torch" else np.asarray(x)


def typed(x: Any, name: str) -> Any:
    return x.to(getattr(torch, name)) if isinstance(x, torch.Tensor) else x.astype(name)


# what is bad: how q, k and positions are made of good ones, the errors allowed, what the message must name
Change = Callable[[Any, Any, Any, str], tuple[Any, Any, Any]]
BAD: dict[str, tuple[Change, tuple[type[Exception], ...], str]] = {
    "head_dim of q": (lambda q, k, p, kind: (q[..., :20], k, p), (ValueError,), "20"),
    "head_dim of k": (lambda q, k, p, kind: (q, k[..., :20], p), (ValueError,), "20"),
    "tokens of k": (lambda q, k, p, kind: (q, k[:, :4], p), (ValueError,), "4"),
    "batch of k": (lambda q, k, p, kind: (q, k[:1], p), (ValueError,), "1"),
    "one axis": (lambda q, k, p, kind: (q[0, 0, 0], k, p), (ValueError,), "axes"),
    "five axes": (lambda q, k, p, kind: (q[None], k, p), (ValueError,), "axes"),
    "integers": (lambda q, k, p, kind: (typed(q, "int32"), k, p), (TypeError,), "int32"),
    "another dtype of k": (lambda q, k, p, kind: (q, typed(k, "float64"), p), (ValueError, TypeError), "k"),
    "too few positions": (lambda q, k, p, kind: (q, k, as_kind([1, 2, 3], kind)), (ValueError,), "positions"),
    "too many rows of positions": (lambda q, k, p, kind: (q, k, as_kind([[0] * T] * 3, kind)), (ValueError,), "positions"),
    "positions of two axes": (lambda q, k, p, kind: (q, k, as_kind([[[0] * T]] * 2, kind)), (ValueError,), "axes|positions"),
    "positions of four axes": (lambda q, k, p, kind: (q, k, as_kind([[[[0] * T]]], kind)), (ValueError,), "positions"),
    "positions of no axis": (lambda q, k, p, kind: (q, k, as_kind(3, kind)), (ValueError,), "positions"),
    "float32 positions": (lambda q, k, p, kind: (q, k, typed(as_kind([0.0] * T, kind), "float32")), (TypeError,), "float32"),
    "int16 positions": (lambda q, k, p, kind: (q, k, typed(as_kind([0] * T, kind), "int16")), (TypeError,), "int16"),
    "channels apart": (lambda q, k, p, kind: (as_kind(np.repeat(np.asarray(q), 2, -1), kind)[..., ::2], k, p), (ValueError,), "stride"),
    "the same memory twice": (lambda q, k, p, kind: (q, q[:, :, :3], p), (ValueError, RuntimeError), "memory|overlap|share"),
}
READS_ONLY = {"the same memory twice"}  # fine where nothing is written


@pytest.mark.parametrize("front", BY_POSITIONS)
@pytest.mark.parametrize("what", BAD)
def test_bad_tensors_and_positions_are_refused_by_every_front(what: str, front: str) -> None:
    kind, call = BY_POSITIONS[front]
    change, errors, named = BAD[what]
    if what in READS_ONLY and "in place" not in front:
        call(*change(good(7, kind), good(3, kind), 0, kind))
        return
    q, k = good(7, kind), good(3, kind)
    bad = change(q, k, as_kind(np.arange(T), kind), kind)
    with pytest.raises(errors, match=named) as caught:
        call(*bad)
    assert re.search(r": .*(want|may|has)", str(caught.value))  # where: what is, what is wanted
    assert np.array_equal(np.asarray(q), np.asarray(good(7, kind)))
    assert np.array_equal(np.asarray(k), np.asarray(good(3, kind)))


@pytest.mark.parametrize("positions", [True, "5", 2**63, -(2**63) - 1, 1.5, object(), {"a": 1}])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_positions_that_are_none_are_refused(positions: Any, kind: str) -> None:
    for call in (ROPE, ROPE.apply_):
        q = good(7, kind)
        with pytest.raises((TypeError, ValueError)):
            call(q, positions=positions)
        assert np.array_equal(np.asarray(q), np.asarray(good(7, kind)))


POSITIONS_SAID: dict[str, tuple[Any, type[Exception], str]] = {
    "a large int": (2**63, ValueError, "fit in 64 bits"),
    "a very negative int": (-(2**63) - 1, ValueError, "fit in 64 bits"),
    "a large entry": ([0, 2**63, 1, 2, 3], ValueError, f"{2**63} does not fit in 64 bits"),
    "a larger entry": ([0, -(2**70), 1, 2, 3], ValueError, f"-{2**70} does not fit in 64 bits"),
    "text": ("abcde", TypeError, "positions: is str, wanted"),
    "bytes": (b"abcde", TypeError, "positions: is bytes, wanted"),
}


@pytest.mark.parametrize("what", POSITIONS_SAID)
@pytest.mark.parametrize("kind", ["numpy", "torch", "tables"])
def test_bad_positions_are_named(what: str, kind: str) -> None:
    positions, error, message = POSITIONS_SAID[what]
    with pytest.raises(error, match=message):
        ROPE.cos_sin(positions) if kind == "tables" else ROPE(good(7, kind), positions=positions)


# ---- Tables ----

BAD_TABLES: dict[str, tuple[Callable[[Any, Any], Tensors], tuple[type[Exception], ...]]] = {
    "too few rows": (lambda c, s: (c[:3], s[:3]), (ValueError,)),
    "too few pairs": (lambda c, s: (c[:, :5], s[:, :5]), (ValueError,)),
    "sine of another shape": (lambda c, s: (c, s[:4]), (ValueError,)),
    "integers": (lambda c, s: (typed(c, "int64"), typed(s, "int64")), (TypeError,)),
    "float64 tables of float32 tensors": (lambda c, s: (typed(c, "float64"), typed(s, "float64")), (ValueError, TypeError)),
    "batch of three": (lambda c, s: (c[None].repeat(3, 1, 1) if isinstance(c, torch.Tensor) else np.stack([c] * 3), s), (ValueError,)),
    "no cosine": (lambda c, s: (None, s), (TypeError,)),
    "text": (lambda c, s: (c, "sin"), (TypeError,)),
}


@pytest.mark.parametrize("front", [phasor.apply_rotary, phasor.apply_rotary_])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("what", BAD_TABLES)
def test_bad_tables_are_refused_by_every_front(what: str, kind: str, front: Any) -> None:
    change, errors = BAD_TABLES[what]
    q, k = good(7, kind), good(3, kind)
    cos, sin = ROPE.cos_sin(as_kind(np.arange(T), kind))
    with pytest.raises(errors):
        front(q, k, *change(cos, sin), rotary_width=16)
    assert np.array_equal(np.asarray(q), np.asarray(good(7, kind)))


@pytest.mark.parametrize(
    "layout",
    [
        {"pairing": "thirds"},
        {"rotary_width": 7},
        {"rotary_width": 99},
        {"sense": "widdershins"},
        {"numerics": "fast"},
        {"rotary_offset": 20, "rotary_width": 16},
        {"segments": 3},
    ],
)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_bad_layouts_of_tables_are_refused(layout: dict[str, Any], kind: str) -> None:
    cos, sin = ROPE.cos_sin(as_kind(np.arange(T), kind))
    with pytest.raises(ValueError):
        phasor.apply_rotary(good(7, kind), None, cos, sin, **{"rotary_width": 16, **layout})


def test_unknown_keywords_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        phasor.apply_rotary(good(7, "numpy"), None, *ROPE.cos_sin(np.arange(T)), width=16)
    with pytest.raises(TypeError):
        phasor.Rotary(head_dim=8, theta=1e4)  # type: ignore[call-arg]


# ---- Directions, keys that move, specs ----


@pytest.mark.parametrize("words", [{"direction": "back"}, {"direction": "inverse", "inverse": True}])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_bad_directions_are_refused(words: dict[str, Any], kind: str) -> None:
    for call in (ROPE, ROPE.apply_):
        with pytest.raises(ValueError, match="direction"):
            call(good(7, kind), **words)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_keys_move_only_between_encodings_that_fit(kind: str) -> None:
    k = good(3, kind)
    with pytest.raises(ValueError):
        ROPE.rerotate_(k, 0, 1, source=phasor.Rotary(head_dim=HEAD_DIM))  # another rotary width
    with pytest.raises((ValueError, NotImplementedError)):
        ROPE.rerotate_(k, 0, 1, source=phasor.Rotary(head_dim=HEAD_DIM, rotary_width=16, numerics="hf"))
    with pytest.raises(ValueError):
        ROPE.rerotate_(k, as_kind([1, 2], kind), 1)
    assert np.array_equal(np.asarray(k), np.asarray(good(3, kind)))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"head_dim": 0}, ValueError),
        ({"head_dim": -8}, ValueError),
        ({"head_dim": 7}, ValueError),
        ({"head_dim": 8, "base": -1.0}, ValueError),
        ({"head_dim": 8, "base": float("nan")}, ValueError),
        ({"head_dim": 8, "rotary_width": 10}, ValueError),
        ({"head_dim": 8, "pairing": "Half"}, ValueError),
        ({"head_dim": 8, "numerics": "exactly"}, ValueError),
        ({"head_dim": "8"}, TypeError),
        ({"head_dim": 8, "base": "big"}, TypeError),
        ({"head_dim": 8, "scaling": 4.0}, TypeError),
        ({"head_dim": 8, "pairing": 1}, (TypeError, ValueError)),
        ({"head_dim": 8.5}, TypeError),
        ({"head_dim": 2**70}, (ValueError, TypeError)),
        ({"head_dim": 8, "scaling": phasor.YarnScaling(factor=0.0, original_length=10)}, ValueError),
        ({"head_dim": 8, "scaling": phasor.GivenFactors((1.0,))}, ValueError),
        ({"head_dim": 8, "scaling": phasor.NtkMixedScaling(factor=2.0), "numerics": "hf"}, NotImplementedError),
    ],
)
def test_bad_specs_are_refused_with_the_librarys_words(fields: dict[str, Any], error: Any) -> None:
    with pytest.raises(error) as caught:
        phasor.Rotary(**fields)
    assert len(str(caught.value)) > 10


def test_tables_at_no_position_are_refused() -> None:
    with pytest.raises(ValueError):
        ROPE.cos_sin(None)
    with pytest.raises(TypeError):
        ROPE.cos_sin(np.arange(3), dtype=np.int32)
    with pytest.raises(TypeError):
        ROPE.cos_sin(np.arange(3, dtype=np.float32))


def test_an_array_beside_a_tensor_is_refused() -> None:
    q, k = np.ones((3, 2, 8), np.float32), torch.ones(3, 1, 8)
    rope = phasor.Rotary(head_dim=8)
    cos, sin = rope.cos_sin(np.arange(3))
    fronts = [lambda: rope(q, k), lambda: rope.apply_(q, k), lambda: phasor.apply_rotary(q, k, cos, sin), lambda: phasor.apply_rotary_(q, k, cos, sin)]
    for front in fronts:
        with pytest.raises(TypeError, match="q is ndarray and k is a PyTorch tensor"):
            front()
    assert (q == 1).all() and (k == 1).all()
