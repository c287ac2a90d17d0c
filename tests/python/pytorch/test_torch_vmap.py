# SPDX-License-Identifier: Apache-2.0
"""vmap of the operators on tokens and positions: the values of a loop of calls, in one call where rows allow it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import phasor
import phasor.nn
from phasor._torch import words_of

ops = torch.ops.phasor
TEXT = phasor.nn.Sinusoidal(6).text
ALIBI = phasor.nn.AlibiBias(3).text
WORDS = words_of(phasor.Rotary(8))
TABLE = torch.randn(20, 6)
MIXED = torch.rand(2, 3, 4)


@pytest.fixture(autouse=True)
def no_slow_loop() -> Iterator[None]:
    """PyTorch's own loop, for operators without a rule, is an error."""
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(True)


def whole(*shape):
    return torch.randint(0, 9, shape)


def number(value):
    return torch.tensor(value)


CASES = [
    # what one call is, its tensors with the mapped axis, and where that is
    (lambda x: ops.add_sinusoidal(x, TEXT, None, 3, None), (torch.randn(4, 5, 6),), (0,)),
    (lambda x: ops.add_sinusoidal(x, TEXT, None, 3, number(0.5)), (torch.randn(2, 5, 6, 4),), (3,)),
    (lambda x, p: ops.add_sinusoidal(x, TEXT, p, 0, None), (torch.randn(2, 4, 5, 6), whole(2, 5)), (1, None)),
    (lambda x, p: ops.add_sinusoidal(x, TEXT, p, 0, None), (torch.randn(2, 5, 6), whole(4, 5)), (None, 0)),
    (lambda x, p: ops.add_sinusoidal(x, TEXT, p, 0, None), (torch.randn(4, 2, 5, 6), whole(5, 4)), (0, 1)),
    (lambda x, a: ops.add_sinusoidal(x, TEXT, None, 0, a), (torch.randn(5, 6), torch.randn(4)), (None, 0)),
    (lambda x, p: ops.lookup_add(x, TABLE, p, 0, 2, None), (torch.randn(4, 2, 5, 6), whole(4, 2, 5)), (0, 0)),
    (lambda x, t: ops.lookup_add(x, t, None, 0, 2, None), (torch.randn(4, 5, 6), torch.randn(20, 4, 6)), (0, 1)),
    (lambda x, p: ops.learned_rotary(x, WORDS, None, p, 0, 0), (torch.randn(4, 5, 3, 8), whole(4, 5)), (0, 0)),
    (lambda x: ops.learned_rotary(x, WORDS, None, None, 7, 1), (torch.randn(4, 5, 8),), (0,)),
    (lambda x, f: ops.learned_rotary(x, WORDS, f, None, 7, 2), (torch.randn(2, 5, 3, 4, 8), torch.rand(4, 4)), (3, 0)),
    (lambda x, p: ops.learned_rotary(x, WORDS, MIXED, p, 0, 0), (torch.randn(4, 2, 5, 3, 8), whole(2, 2, 5, 4)), (0, 3)),
    (lambda p: ops.sinusoidal(p, TEXT, torch.float32), (whole(4, 5),), (0,)),
    (lambda p: ops.sinusoidal(p, TEXT, torch.float64), (whole(2, 5, 4),), (2,)),
    (lambda p: ops.sinusoidal(p, TEXT, torch.float64), (whole(1, 4, 2, 5),), (1,)),
    (lambda p: ops.cos_sin(p, WORDS, 1, 4, torch.float32), (whole(4, 5),), (0,)),
    (lambda p: ops.cos_sin(p, WORDS, 1, 4, torch.float32), (whole(4, 2, 5),), (0,)),
    (lambda q, k: ops.bias(q, k, ALIBI, torch.float32), (whole(4, 5), whole(7)), (0, None)),
    (lambda q, k: ops.bias(q, k, ALIBI, torch.float32), (whole(5, 4), whole(4, 7)), (1, 0)),
    (lambda q, k: ops.bias(q, k, ALIBI, torch.float32), (whole(4, 2, 5), whole(1, 7)), (0, None)),
    (lambda g: ops.sinusoidal_amplitude_gradient(g, TEXT, None, 0), (torch.randn(4, 5, 6),), (0,)),
    (lambda g: ops.lookup_gradient(g, TABLE, None, 0, 0, 1), (torch.randn(5, 6, 4),), (2,)),
    (lambda t: ops.hierarchical_table(t, 7, 0.3), (torch.randn(4, 3, 6),), (0,)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_vmap_gives_what_a_loop_gives(case):
    call, tensors, dims = CASES[case]
    got = torch.vmap(call, dims)(*tensors)
    for i in range(4):
        want = call(*(x if dim is None else x.select(dim, i).contiguous() for x, dim in zip(tensors, dims)))
        for a, b in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,)):
            assert torch.equal(a[i], b) and a.dtype == b.dtype


def test_jacobians_of_modules_need_no_slow_loop():
    sinusoidal, learned = phasor.nn.Sinusoidal(6, learned_amplitude=True), phasor.nn.LearnedRotary(8)
    x, q = torch.randn(5, 6), torch.randn(3, 2, 8)

    def encoded(amplitude):
        return torch.func.functional_call(sinusoidal, {"amplitude": amplitude}, (x,))

    def turned(frequencies):
        return torch.func.functional_call(learned, {"frequencies": frequencies}, (q,))

    one = torch.tensor(0.5)
    torch.testing.assert_close(torch.func.jacrev(encoded)(one), torch.func.jacfwd(encoded)(one))
    by_frequency = torch.func.jacrev(turned)(learned.frequencies.detach())
    want = torch.autograd.functional.jacobian(turned, learned.frequencies.detach())
    torch.testing.assert_close(by_frequency, want)
