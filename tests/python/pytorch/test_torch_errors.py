# SPDX-License-Identifier: Apache-2.0
"""Bad tensors through every front for PyTorch: functional, in place, with gradients, watched, and the operators themselves."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor
import phasor.nn
from phasor._torch import words_of

ROPE = phasor.Rotary(8)
WORDS = words_of(ROPE)


def under_a_mode(call):
    """By the operator: a device context is a mode."""

    def watched(q, k, positions):
        with torch.device("cpu"):
            return call(q, k, positions)

    return watched


def operator(q, k, positions):
    tensor = positions if isinstance(positions, torch.Tensor) else None
    offset = positions if isinstance(positions, int) else 0
    return (
        torch.ops.phasor.rotary.qk(q, k, WORDS, tensor, offset, 0)
        if k is not None
        else torch.ops.phasor.rotary(q, WORDS, tensor, offset, 0)
    )


def operator_(q, k, positions):
    tensor = positions if isinstance(positions, torch.Tensor) else None
    if k is not None:
        return torch.ops.phasor.rotary_.qk(q, k, WORDS, tensor, 0, 0)
    return torch.ops.phasor.rotary_(q, WORDS, tensor, 0, 0)


def learning(q, k, positions):
    floats = q.is_floating_point() and q.layout is torch.strided
    return ROPE((q.detach().requires_grad_() if floats else q), k, positions)


def learning_(q, k, positions):
    if q.dtype == torch.float32 and q.layout is torch.strided and not q.is_nested:
        base = torch.cat((q, q), -1).requires_grad_() * 1
        q = base[..., : q.shape[-1]] if q.stride(-1) == 1 else base[..., ::2]
    return ROPE.apply_(q, k, positions)


FRONTS = {
    "functional": ROPE,
    "in_place": ROPE.apply_,
    "learning": learning,
    "learning_in_place": learning_,
    "watched": under_a_mode(ROPE),
    "watched_in_place": under_a_mode(ROPE.apply_),
    "operator": operator,
    "operator_in_place": operator_,
}


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.randn(2, 3, 8), torch.randn(1, 3, 8)], layout=torch.jagged)


def quantised(shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.randn(shape), 0.1, 0, torch.qint8)


X = torch.randn(2, 5, 3, 8)
CASES = {
    "width": (torch.randn(2, 5, 3, 6), None, None, ValueError, "head_dim 6, the spec wants 8"),
    "one axis": (torch.randn(8), None, None, ValueError, "1 axes"),
    "five axes": (torch.randn(1, 2, 5, 3, 8), None, None, ValueError, "5 axes"),
    "int": (torch.ones(5, 3, 8, dtype=torch.int32), None, None, TypeError, "int32"),
    "bool": (torch.ones(5, 3, 8, dtype=torch.bool), None, None, TypeError, "bool"),
    "complex": (torch.ones(5, 3, 8, dtype=torch.complex64), None, None, TypeError, "complex64"),
    "float8": (torch.ones(5, 3, 8).to(torch.float8_e4m3fn), None, None, TypeError, "float8"),
    "last axis": (torch.randn(2, 5, 3, 16)[..., ::2], None, None, ValueError, "stride 2 on its last axis"),
    "sparse": (X.to_sparse(), None, None, NotImplementedError, "sparse_coo"),
    "nested": (nested(), None, None, NotImplementedError, "nested"),
    "quantised": (quantised((5, 3, 8)), None, None, NotImplementedError, "quantised"),
    "two dtypes": (X, torch.randn(2, 5, 1, 8).double(), None, ValueError, "float64"),
    "two lengths": (X, torch.randn(2, 4, 1, 8), None, ValueError, "k"),
    "two batches": (X, torch.randn(1, 5, 1, 8), None, ValueError, "k"),
    "too few positions": (X, None, torch.arange(4), ValueError, "4"),
    "positions of another batch": (X, None, torch.zeros(3, 5, dtype=torch.int64), ValueError, "3"),
    "positions of axes": (X, None, torch.zeros(2, 2, 5, dtype=torch.int64), ValueError, "axes"),
    "positions of four axes": (X, None, torch.zeros(1, 1, 2, 5, dtype=torch.int64), ValueError, "4 axes"),
    "float32 positions": (X, None, torch.arange(5.0), TypeError, "float"),
    "int16 positions": (X, None, torch.arange(5, dtype=torch.int16), TypeError, "int16"),
    "sparse positions": (X, None, torch.arange(5).to_sparse(), NotImplementedError, "positions"),
    "meta positions": (X, None, torch.arange(5, device="meta"), (ValueError, NotImplementedError), "positions"),
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("case", CASES)
def test_bad_tensors_are_refused_with_words(case, front):
    q, k, positions, kind, words = CASES[case]
    plain = q.layout is torch.strided and not q.is_nested and not q.is_quantized
    before = q.to(torch.complex64) if plain else None
    with pytest.raises(kind, match=words) as error:
        FRONTS[front](q, k, positions)
    assert len(str(error.value)) < 300  # a sentence, not PyTorch's stack
    assert before is None or torch.equal(q.to(torch.complex64), before)  # nothing was written


@pytest.mark.parametrize("front", ["functional", "in_place", "watched"])
def test_a_partner_of_another_library_is_refused(front):
    with pytest.raises(TypeError, match="k"):
        FRONTS[front](torch.randn(5, 3, 8), torch.randn(5, 1, 8).tolist(), None)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    "cos, sin, kind, words",
    [
        (torch.ones(5, 3), torch.ones(5, 3), ValueError, "3"),
        (torch.ones(4, 4), torch.ones(4, 4), ValueError, "4"),
        (torch.ones(5, 4), torch.ones(5, 8), ValueError, "sin"),
        (torch.ones(5, 4, dtype=torch.int64), torch.ones(5, 4), TypeError, "cos"),
        (torch.ones(5, 4).to_sparse(), torch.ones(5, 4), NotImplementedError, "cos"),
        (torch.ones(4), torch.ones(4), ValueError, "cos"),
        (torch.ones(5, 4).double(), torch.ones(5, 4).double(), ValueError, "float64|f64"),
    ],
)
def test_bad_tables_are_refused_with_words(cos, sin, kind, words, watched):
    for call in (phasor.apply_rotary, phasor.apply_rotary_):
        with pytest.raises(kind, match=words) as error:
            if watched:
                with torch.device("cpu"):
                    call(torch.randn(2, 5, 3, 8), None, cos, sin)
            else:
                call(torch.randn(2, 5, 3, 8), None, cos, sin)
        assert len(str(error.value)) < 300


def test_other_devices_are_named():
    with FakeTensorMode():  # tensors of a device without the device
        for front, call in FRONTS.items():
            q = torch.empty(5, 3, 8, device="cuda")
            if front not in ("learning", "learning_in_place", "operator", "operator_in_place"):
                with pytest.raises(NotImplementedError, match="q is on cuda:0, and this phasor has no CUDA kernels; wanted the package phasor-cuda13"):
                    call(q, None, None)


def test_an_offset_beyond_64_bits_is_refused():
    for front in ("functional", "in_place", "watched", "watched_in_place"):
        with pytest.raises(ValueError, match="64 bits"):
            FRONTS[front](torch.randn(5, 3, 8), None, 2**70)


def test_integers_have_no_gradient():
    with pytest.raises(RuntimeError, match="floating point"):  # PyTorch's own words
        ROPE(torch.randn(5, 3, 8), positions=torch.arange(5).requires_grad_())


def test_positions_and_an_offset_contradict_each_other():
    with pytest.raises(ValueError, match="only one of them"):
        torch.ops.phasor.rotary(torch.randn(5, 3, 8), WORDS, torch.arange(5), 3, 0)


def test_words_of_nobody_are_refused():
    q = torch.randn(5, 3, 8)
    with pytest.raises(ValueError, match="the length is 99 bytes and 2 integers follow"):
        torch.ops.phasor.rotary(q, torch.tensor([99, 1, 2]), None, 0, 0)
    with pytest.raises(TypeError, match="int64"):
        torch.ops.phasor.rotary(q, WORDS.double(), None, 0, 0)
    with pytest.raises(ValueError):
        torch.ops.phasor.rotary(q, WORDS[:-3].clone(), None, 0, 0)


def test_a_wrong_layout_or_direction_is_refused():
    q, table = torch.randn(5, 3, 8), torch.ones(5, 4)
    with pytest.raises(ValueError, match="7"):
        torch.ops.phasor.rotary_tables(q, table, table, [0, 0], 0)
    with pytest.raises(ValueError, match="pairing"):
        phasor.apply_rotary(q, None, table, table, pairing="diagonal")
    with pytest.raises(ValueError, match="direction"):
        torch.ops.phasor.rotary(q, WORDS, None, 0, 9)


def test_q_and_k_that_share_memory_are_refused():
    x = torch.randn(5, 6, 8)
    with pytest.raises(ValueError):
        ROPE.apply_(x[:, :4], x[:, 3:])


TABLE = torch.ones(3, 4)
ALIBI, SINUSOIDAL = phasor.nn.AlibiBias(2).text, phasor.nn.Sinusoidal(8).text


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    "call, words",
    [
        (lambda q: torch.ops.phasor.rotary_tables(q, TABLE.to(q.device), TABLE.to(q.device), [0, 0, 9, -1, 0, 0, 1], 0), "pairing of the layout is 9"),
        (lambda q: torch.ops.phasor.rotary_tables(q, TABLE.to(q.device), TABLE.to(q.device), [0, 0, -1, -1, 0, 0, 1], 0), "pairing of the layout is -1"),
        (lambda q: torch.ops.phasor.rotary_tables(q, TABLE.to(q.device), TABLE.to(q.device), [0, 0, 0, -2, 0, 0, 1], 0), "output_pairing of the layout is -2"),
        (lambda q: torch.ops.phasor.rotary_tables(q, TABLE.to(q.device), TABLE.to(q.device), [0, 0, 0, -1, 0, 0, 1], 3), "direction is 3"),
        (lambda q: torch.ops.phasor.rotary(q, WORDS, None, 0, 7), "direction is 7"),
        (lambda q: torch.ops.phasor.rotary(q, WORDS, None, 0, -1), "direction is -1"),
        (lambda q: torch.ops.phasor.learned_rotary(q, WORDS, None, None, 0, 7), "direction is 7"),
        (lambda q: torch.ops.phasor.add_sinusoidal(q[:, 0], "{}", None, 0, None), "phasor is missing, wanted 1"),
        (lambda q: torch.ops.phasor.add_sinusoidal(q[:, 0], "no JSON", None, 0, None), "syntax error"),
        (lambda q: torch.ops.phasor.add_sinusoidal(q[:, 0], ALIBI, None, 0, None), 'type is "Alibi", wanted SinusoidalSpec'),
        (lambda q: torch.ops.phasor.bias(*2 * (torch.arange(3, device=q.device),), SINUSOIDAL, torch.float32), 'type is "SinusoidalSpec", wanted Alibi'),
        (lambda q: phasor.nn.AlibiBias(2)(-3), "-3 queries"),
    ],
)
def test_codes_and_texts_of_operators_are_refused_with_words(call, words, device):
    with pytest.raises(ValueError, match=words):
        call(torch.ones(3, 2, 8, device=device))
