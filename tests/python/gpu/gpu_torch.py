# SPDX-License-Identifier: Apache-2.0
"""PyTorch's machinery on a GPU: gradients, compiled and exported programs, transforms, autocast, checkpoints, modules, DTensor and FSDP2."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import phasor
from cases import DEVICE, DTYPES, ON_GPU, SPECS, NotRun, moved, numbers, same_bits

ROPE = SPECS["half"]
YARN = SPECS["yarn"]


def gradients(call: Callable[..., Any], *tensors: Tensor) -> tuple[Any, ...]:
    """Results and gradients by every tensor, from the same gradient of the results."""
    given = [x.detach().clone().requires_grad_() for x in tensors]
    outs = call(*given)
    outs = outs if isinstance(outs, tuple) else (outs,)
    by = [numbers(*out.shape, dtype=out.dtype, seed=40 + i).to(out.device) for i, out in enumerate(outs)]
    return *outs, *torch.autograd.grad(outs, given, by)


def test_gradients_are_those_of_the_cpu() -> None:
    for rope in (ROPE, YARN, SPECS["interleaved"]):
        for dtype in DTYPES:
            q, k = numbers(2, 5, 3, rope.head_dim, dtype=dtype), numbers(2, 5, 1, rope.head_dim, dtype=dtype, seed=1)
            for direction in ("forward", "inverse", "transpose"):

                def call(q: Tensor, k: Tensor) -> Any:
                    return rope(q, k, torch.arange(7, 12, device=q.device), direction=direction)  # noqa: B023

                assert same_bits(gradients(call, *moved(q, k)), gradients(call, q, k)), (dtype, direction)


def test_gradients_of_rotations_in_place_and_by_tables() -> None:
    def in_place(q: Tensor) -> Any:
        return ROPE.apply_(q * 2, positions=torch.arange(5, device=q.device))

    def by_tables(q: Tensor) -> Any:
        cos, sin = ROPE.cos_sin(torch.arange(5, device=q.device))
        return phasor.apply_rotary(q, None, cos.to(q.dtype), sin.to(q.dtype))

    for dtype in DTYPES:
        q = numbers(2, 5, 3, 64, dtype=dtype)
        for call in (in_place, by_tables):
            assert same_bits(gradients(call, *moved(q)), gradients(call, q)), (dtype, call.__name__)


def test_gradients_by_tables() -> None:
    q, cos, sin = numbers(2, 5, 3, 16, dtype=torch.float64), *(numbers(5, 8, dtype=torch.float64, seed=i) for i in (1, 2))
    for got, wanted in zip(gradients(_tables, *moved(q, cos, sin)), gradients(_tables, q, cos, sin)):
        assert torch.allclose(got.cpu(), wanted, rtol=1e-13, atol=1e-13)


def _tables(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return phasor.apply_rotary(q, None, cos, sin)


def test_gradcheck() -> None:
    rope = phasor.Rotary(head_dim=6)
    q = moved(numbers(2, 3, 2, 6, dtype=torch.float64))[0].requires_grad_()
    at = torch.arange(3, device=DEVICE)
    assert torch.autograd.gradcheck(lambda x: rope(x, positions=at), (q,))
    assert torch.autograd.gradgradcheck(lambda x: rope(x, positions=at), (q,))


def test_learned_frequencies_and_positions() -> None:
    def run(device: str) -> tuple[Any, ...]:
        module = phasor.nn.LearnedRotary(16).to(device)
        at = (torch.arange(5, dtype=torch.float64) / 3).to(device).requires_grad_()
        out = module(numbers(2, 5, 3, 16).to(device), positions=at)
        out.square().sum().backward()
        return out, module.frequencies.grad, at.grad

    got, wanted = run(DEVICE), run("cpu")
    assert same_bits(got[0], wanted[0])
    # Of the sums over tokens and heads the order is not a contract between devices.
    assert all(torch.allclose(a.cpu(), b, rtol=1e-5, atol=1e-5) for a, b in zip(got[1:], wanted[1:]))


def test_compiled_in_one_graph() -> None:
    q, k, at = moved(numbers(2, 5, 3, 64), numbers(2, 5, 1, 64, seed=1), torch.arange(5))
    wanted = ROPE(q, k, at)

    def functional(q: Tensor, k: Tensor, at: Tensor) -> Any:
        return ROPE(q, k, at)

    def in_place(q: Tensor, k: Tensor, at: Tensor) -> Any:
        return ROPE.apply_(q * 1, k * 1, at)

    def offset(q: Tensor, k: Tensor, at: Tensor) -> Any:
        return ROPE(q, k, 0)

    for backend in ("aot_eager", "inductor") if ON_GPU else ("aot_eager",):
        for call in (functional, in_place, offset):
            torch._dynamo.reset()
            assert same_bits(torch.compile(call, fullgraph=True, backend=backend)(q, k, at), wanted), (backend, call.__name__)


def test_compiled_for_less_overhead() -> None:
    """The words of a spec are on the CPU: the operator stays outside of the CUDA graphs that this mode makes, and is right."""
    torch._dynamo.reset()
    mode = {"mode": "reduce-overhead"} if ON_GPU else {"backend": "aot_eager"}
    weight = moved(numbers(64, 64, seed=5) / 10)[0]  # results of the size of 1
    kv = torch.zeros(8, 3, 3, 64, device=DEVICE)

    def layer(q: Tensor, k: Tensor, at: Tensor, slots: Tensor) -> Any:
        q, k = ROPE((q @ weight).relu(), k.sin(), at)
        kept = phasor.prepare_attention(q, k, rotary=ROPE, positions=at, k_cache=phasor.Cache(kv), slots=slots)
        return (kept @ weight).cos(), ROPE.apply_(k * 2, positions=at)

    compiled = torch.compile(layer, fullgraph=True, **mode)
    for step in range(6):  # warm-up, recording, replays
        q, k = moved(numbers(5, 4, 64, seed=step), numbers(5, 3, 64, seed=30 + step))
        at, slots = moved(torch.arange(5) + 1000 * step, torch.randperm(24, generator=torch.Generator().manual_seed(step))[:5])
        kv.zero_()
        wanted, wanted_kv = layer(q, k, at, slots), kv.clone()
        kv.zero_()
        got = [x.clone() for x in compiled(q, k, at, slots)]
        # What surrounds the rotation may be fused; a lost or stale operator is off by the size of the numbers.
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(got, wanted)), step
        assert torch.allclose(kv, wanted_kv, rtol=1e-4, atol=1e-4) and wanted_kv.any(), step


def test_compiled_with_gradients_and_lengths_that_change() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, at: ROPE(q, positions=at), fullgraph=True, backend="aot_eager", dynamic=True)
    for tokens in (5, 9, 33):
        q, at = numbers(1, tokens, 2, 64), torch.arange(tokens)
        got = gradients(lambda x: compiled(x, at.to(x.device)), *moved(q))  # noqa: B023
        assert same_bits(got, gradients(lambda x: ROPE(x, positions=at), q))  # noqa: B023


def test_operators_pass_opcheck() -> None:
    words = phasor._torch.words_of(ROPE)
    q, k, at = moved(numbers(2, 5, 3, 64), numbers(2, 5, 1, 64, seed=1), torch.arange(5))
    torch.library.opcheck(torch.ops.phasor.rotary.default, (q.requires_grad_(), words, at, 0, 0))
    torch.library.opcheck(torch.ops.phasor.rotary.qk, (q, k, words, None, 3, 0))
    torch.library.opcheck(torch.ops.phasor.rotary_.default, (q.detach().clone(), words, at, 0, 0))
    torch.library.opcheck(torch.ops.phasor.cos_sin.default, (at, words, 1, 32, torch.float32))
    cos, sin = ROPE.cos_sin(at)
    torch.library.opcheck(torch.ops.phasor.rotary_tables.default, (q, cos, sin, phasor._torch.layouts.codes_of(phasor.TableLayout()), 0))


def test_exported() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rope = phasor.nn.Rotary(64)

        def forward(self, q: Tensor, at: Tensor) -> Tensor:
            return self.rope(q, positions=at)

    q, at = numbers(2, 5, 3, 64), torch.arange(5)
    program = torch.export.export(Model().to(DEVICE), moved(q, at))
    assert same_bits(program.module()(*moved(q, at)), phasor.Rotary(64)(q, positions=at))


def test_mapped() -> None:
    q, at = numbers(4, 2, 5, 3, 64), torch.arange(20).reshape(4, 5)
    wanted = torch.stack([ROPE(x, positions=p) for x, p in zip(q, at)])
    assert same_bits(torch.func.vmap(lambda x, p: ROPE(x, positions=p))(*moved(q, at)), wanted)
    jacobian = torch.func.vmap(torch.func.grad(lambda x: ROPE(x, positions=3).square().sum()))
    assert same_bits(jacobian(*moved(q)).cpu() != 0, jacobian(q) != 0)


def test_forward_mode() -> None:
    q, tangent = numbers(2, 5, 3, 64), numbers(2, 5, 3, 64, seed=1)
    got = torch.func.jvp(lambda x: ROPE(x, positions=3), moved(q), moved(tangent))
    assert same_bits(got, torch.func.jvp(lambda x: ROPE(x, positions=3), (q,), (tangent,)))


def test_autocast_changes_no_dtype() -> None:
    q = moved(numbers(2, 5, 3, 64))[0]
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert same_bits(ROPE(q, positions=2), ROPE(q, positions=2)) and ROPE(q).dtype == torch.float32
        product = torch.nn.functional.linear(q, torch.eye(64, device=DEVICE))
        assert ROPE(product).dtype == torch.bfloat16


def test_checkpoints() -> None:
    def run(x: Tensor) -> Tensor:
        return ROPE(x * 3, positions=torch.arange(5, device=x.device)).sin()

    q = moved(numbers(2, 5, 3, 64))[0]
    wanted = gradients(run, q)
    assert same_bits(gradients(lambda x: checkpoint(run, x, use_reentrant=False), q), wanted)
    again = q.clone().requires_grad_()
    checkpoint(run, again, use_reentrant=True).backward(numbers(*q.shape, seed=40).to(DEVICE))
    assert same_bits(again.grad, wanted[1])


def test_deterministic_algorithms_are_what_we_have() -> None:
    q = moved(numbers(2, 5, 3, 64))[0]
    torch.use_deterministic_algorithms(True)
    try:
        assert same_bits(gradients(lambda x: ROPE(x, positions=3), q), gradients(lambda x: ROPE(x, positions=3), q.clone()))
    finally:
        torch.use_deterministic_algorithms(False)


def test_modules_keep_their_spec_where_it_is_read() -> None:
    module = phasor.nn.Rotary(64, base=5e5).to(DEVICE)
    assert module.words.device.type == "cpu" and not module.state_dict()
    q = numbers(2, 5, 3, 64)
    assert same_bits(module(*moved(q)), ROPE(q))
    module = module.to_empty(device=DEVICE).half()
    assert same_bits(module(*moved(q)), ROPE(q))


def test_words_of_a_program_that_was_moved_as_a_whole() -> None:
    q = numbers(2, 5, 3, 64)
    words = phasor._torch.words_of(ROPE).to(DEVICE)
    assert same_bits(torch.ops.phasor.rotary(*moved(q), words, None, 3, 0), ROPE(q, positions=3))


def mesh() -> Any:
    """A mesh of this one process."""
    import torch.distributed as dist

    if not dist.is_available():
        raise NotRun("this PyTorch has no torch.distributed")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    if not dist.is_initialized():
        dist.init_process_group("nccl" if ON_GPU else "gloo", rank=0, world_size=1)
    return torch.distributed.device_mesh.init_device_mesh(DEVICE, (1,))


def test_dtensor() -> None:
    devices = mesh()
    from torch.distributed.tensor import Shard, distribute_tensor

    q, k = numbers(2, 6, 4, 64), numbers(2, 6, 4, 64, seed=1)
    wanted = ROPE(q, k, 3)
    for axis in (0, 1, 2):
        q_there, k_there = (distribute_tensor(x, devices, [Shard(axis)]) for x in moved(q, k))
        for at in (3, torch.arange(3, 9, device=DEVICE)):
            got = ROPE(q_there, k_there, at)
            assert same_bits([x.full_tensor() for x in got], wanted), axis


def test_fsdp2() -> None:
    devices = mesh()
    from torch.distributed.fsdp import fully_shard

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(64, 64, bias=False)
            self.rope = phasor.nn.Rotary(64)

        def forward(self, x: Tensor) -> Tensor:
            return self.rope(self.linear(x), positions=torch.arange(x.shape[1], device=x.device))

    torch.manual_seed(0)
    plain = Model().to(DEVICE)
    sharded = Model().to(DEVICE)
    sharded.load_state_dict(plain.state_dict())
    fully_shard(sharded, mesh=devices)
    x = moved(numbers(2, 5, 3, 64))[0]
    for model in (plain, sharded):
        model(x).square().sum().backward()
    assert same_bits(sharded.linear.weight.grad.full_tensor(), plain.linear.weight.grad)
    assert same_bits(sharded(x), plain(x))
