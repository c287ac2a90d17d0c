# SPDX-License-Identifier: Apache-2.0
"""torch.compile: whole graphs, no recompiling over lengths, the same bits and gradients as eager calls."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import phasor


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


def layer(rope, q, k, positions, offset):
    """Functional, in place, by tables; positions, an offset, both directions."""
    q, k = rope(q * 1, k * 1, positions)
    q = rope.apply_(q * 2, positions=offset)
    k = rope(k, positions=positions, inverse=True)
    cos, sin = rope.cos_sin(positions)
    return phasor.apply_rotary(q, k, cos, sin, pairing="interleaved")


def inputs(length):
    torch.manual_seed(length)
    q, k = torch.randn(2, length, 3, 8, requires_grad=True), torch.randn(2, length, 1, 8, requires_grad=True)
    return q, k, torch.arange(length) + 10**7, length + 5


def check(compiled, lengths):
    rope = phasor.Rotary(8, base=5e5)
    for length in lengths:
        q, k, positions, offset = inputs(length)
        want = layer(rope, q, k, positions, offset)
        got = compiled(rope, q, k, positions, offset)
        gradients = [torch.autograd.grad(sum(x.pow(3).sum() for x in outs), (q, k)) for outs in (want, got)]
        for a, b in zip((*want, *gradients[0]), (*got, *gradients[1])):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)  # what surrounds a rotation may be fused


def test_one_graph_serves_every_length():
    counter = CompileCounterWithBackend("aot_eager")
    check(torch.compile(layer, backend=counter, fullgraph=True, dynamic=True), (5, 7, 31))
    assert counter.frame_count == 1


def test_without_being_told_the_second_length_makes_it_dynamic():
    counter = CompileCounterWithBackend("aot_eager")
    check(torch.compile(layer, backend=counter, fullgraph=True), (5, 7, 9, 31, 64))
    assert counter.frame_count == 2


def test_another_spec_is_not_taken_for_the_first():
    compiled = torch.compile(lambda rope, q: rope(q), backend="aot_eager", fullgraph=True)
    q = torch.randn(5, 3, 8)
    for rope in (phasor.Rotary(8), phasor.Rotary(8, base=77), phasor.Rotary(8, pairing="interleaved")):
        assert torch.equal(compiled(rope, q), rope(q))


def test_inductor_trains_as_eager_calls_do():
    rope = phasor.Rotary(8, scaling=phasor.Llama3Scaling())
    weight = torch.randn(8, 8, requires_grad=True)

    def model(x, positions):
        q = (x @ weight).transpose(0, 1)  # (H, T, D) seen as (T, H, D)
        return rope.apply_(rope(q, positions=positions) * 1, positions=3)

    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    counts = torch._dynamo.utils.counters["stats"]
    before = counts["unique_graphs"]
    for length in (6, 9):
        x, positions = torch.randn(3, length, 8), torch.arange(length).flip(0)
        want, got = model(x, positions), compiled(x, positions)
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
        a, b = (torch.autograd.grad(out.sin().sum(), weight)[0] for out in (want, got))
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert counts["unique_graphs"] == before + 1


def test_a_rotary_made_before_pytorch_was_imported_compiles_after_one_call():
    rope = phasor.Rotary(8)
    rope._words = None  # as it is then
    q = torch.randn(5, 3, 8)
    want = torch.ops.phasor.rotary(q, torch.tensor(rope._core.words), None, 0, 0)
    with torch.device("cpu"):  # a mode: by the operator, which asks for the words
        assert torch.equal(rope(q), want)
    assert torch.equal(torch.compile(lambda x: rope(x), backend="aot_eager", fullgraph=True)(q), want)


def test_encodings_made_before_pytorch_compile_after_a_call():
    program = """
import phasor
ropes, sinusoids = [phasor.Rotary(8) for _ in range(3)], [phasor.Sinusoidal(6) for _ in range(2)]
import torch
assert all(rope._words is None for rope in ropes)
q, x = torch.randn(5, 3, 8), torch.randn(5, 6)
ropes[0](q), ropes[1].apply_(q.clone()), sinusoids[0].add(x), sinusoids[1].add_(x.clone())
for rope in ropes[:2]:
    assert torch.equal(torch.compile(lambda q: rope(q), backend="aot_eager", fullgraph=True)(q), rope(q))
for encoding in sinusoids:
    assert torch.equal(torch.compile(lambda x: encoding.add(x), backend="aot_eager", fullgraph=True)(x), encoding.add(x))
try:
    torch.compile(lambda q: ropes[2](q), backend="aot_eager", fullgraph=True)(q)
except Exception as error:
    assert "made before PyTorch was imported" in str(error), error
else:
    raise AssertionError("compiled")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
