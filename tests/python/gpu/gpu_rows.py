# SPDX-License-Identifier: Apache-2.0
"""apply_rotaries on a GPU: the bits of the CPU, lists that follow a tensor, tensors that do not."""

from __future__ import annotations

import torch

import phasor
from cases import DTYPES, ON_GPU, moved, needs_gpu, numbers, raises, same_bits

ROPES = [phasor.Rotary(64), *(phasor.Rotary(64, scaling=phasor.YarnScaling(factor=f, original_length=4096)) for f in (2, 4))]
BY_TOKEN = torch.tensor([[0, 1, 2, 2, 1], [2, 2, 0, 0, 1]])


def test_rows_have_the_bits_of_the_cpu() -> None:
    positions = torch.arange(10).reshape(2, 5) + 1_000_000
    for dtype in DTYPES:
        q, k = numbers(2, 5, 3, 64, dtype=dtype), numbers(2, 5, 1, 64, dtype=dtype, seed=1)
        for spec_of in (BY_TOKEN, BY_TOKEN.int(), torch.tensor([2, 0])):
            wanted = phasor.apply_rotaries(ROPES, spec_of, q, k, positions, direction="transpose")
            there = moved(q, k, spec_of, positions)
            assert same_bits(phasor.apply_rotaries(ROPES, there[2], *there[:2], there[3], direction="transpose"), wanted)
            assert same_bits(phasor.apply_rotaries_(ROPES, there[2], *there[:2], there[3], direction="transpose"), wanted)
            assert same_bits(there[:2], wanted)


def test_lists_follow_the_tensor() -> None:
    q = numbers(2, 5, 3, 64)
    wanted = phasor.apply_rotaries(ROPES, [1, 2], q, None, range(7, 12))
    assert same_bits(phasor.apply_rotaries(ROPES, [1, 2], *moved(q), None, range(7, 12)), wanted)


def test_more_rotaries_than_a_launch_takes() -> None:
    ropes = [phasor.Rotary(64, base=10000.0 + i) for i in range(200)]
    q = numbers(200, 1, 2, 64)
    spec_of = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    wanted = phasor.apply_rotaries(ropes, spec_of, q, None, 99)
    assert same_bits(phasor.apply_rotaries(ropes, *moved(spec_of, q), None, 99), wanted)


def test_gradients_have_the_bits_of_the_cpu() -> None:
    positions = torch.arange(5) + 1_000_000
    for dtype in DTYPES:
        for direction in ("forward", "inverse", "transpose"):
            made = []
            for at in (lambda x: x, lambda x: moved(x)[0]):
                q, k = (at(numbers(2, 5, n, 64, dtype=dtype, seed=n)).requires_grad_() for n in (3, 1))
                outs = phasor.apply_rotaries(ROPES, at(BY_TOKEN), q, k, at(positions), direction=direction)
                by = [at(numbers(*out.shape, dtype=dtype, seed=9)) for out in outs]
                made.append((*outs, *torch.autograd.grad(outs, (q, k), by)))
            assert same_bits(made[1], made[0]), (dtype, direction)


def test_compiled_in_one_graph() -> None:
    def layer(q: torch.Tensor, spec_of: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q = q * 2
        phasor.apply_rotaries_(ROPES, spec_of, q, None, positions)
        return phasor.apply_rotaries(ROPES, spec_of, q, None, positions, direction="transpose") * 0.5

    given = (numbers(2, 5, 3, 64), BY_TOKEN, torch.arange(5) * 100)
    for backend in ("aot_eager", "inductor") if ON_GPU else ("aot_eager",):
        torch._dynamo.reset()
        made = []
        for run, (q, *rest) in ((layer, given), (torch.compile(layer, fullgraph=True, backend=backend), moved(*given))):
            q = q.clone().requires_grad_()
            out = run(q, *rest)
            made.append((out, *torch.autograd.grad(out.square().sum(), q)))
        assert same_bits(made[1], made[0]), backend
    words = [rope._words for rope in ROPES]
    for operator in (torch.ops.phasor.rotaries.default, torch.ops.phasor.rotaries_.default):
        torch.library.opcheck(operator, (*moved(given[0]), words, *moved(*given[1:]), 0, 0))


def test_indices_elsewhere_are_refused() -> None:
    needs_gpu()
    q = moved(numbers(2, 5, 3, 64))[0]
    with raises(ValueError, "spec_of on cpu and q on cuda:0, wanted one device"):
        phasor.apply_rotaries_(ROPES, torch.tensor([0, 1]), q)


def test_a_captured_call_reads_the_indices_that_are_there_then() -> None:
    needs_gpu()
    q, spec_of = moved(numbers(2, 5, 3, 64), torch.tensor([0, 1]))
    phasor.apply_rotaries(ROPES, spec_of, q)  # kernels are loaded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = phasor.apply_rotaries(ROPES, spec_of, q)
    spec_of.copy_(torch.tensor([2, 0]))
    graph.replay()
    assert same_bits(out, phasor.apply_rotaries(ROPES, torch.tensor([2, 0]), q.cpu()))


def test_a_gradient_that_takes_amplitudes_back_is_captured() -> None:
    needs_gpu()
    q, by, spec_of = moved(numbers(2, 5, 3, 64), numbers(2, 5, 3, 64, seed=3), torch.tensor([0, 1]))
    q.requires_grad_()

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(phasor.apply_rotaries(ROPES, spec_of, q, direction="inverse"), q, by)[0]

    gradient()  # kernels are loaded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = gradient()
    spec_of.copy_(torch.tensor([2, 0]))
    graph.replay()
    assert same_bits(out, gradient())
