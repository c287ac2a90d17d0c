# SPDX-License-Identifier: Apache-2.0
"""phasor.attention on a GPU in PyTorch's machinery: streams, graphs, compiled and exported programs, autocast, checkpoints, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import phasor
from attention_cases import B, D, H, TK, TQ, on, qkv
from cases import DEVICE, ON_GPU, NotRun, module_or_not_run, needs_gpu, numbers, raises, same_bits
from phasor._arrays import gpu_of

STARTS = (torch.tensor([0, 20, 40, TQ], dtype=torch.int32), torch.tensor([0, 60, 80, TK], dtype=torch.int32))


class Layer(torch.nn.Module):
    """Schemes with everything that learns: numbers of buckets, rows of tables, slopes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.t5, self.shaw, self.alibi = phasor.nn.T5Scheme(H), phasor.nn.ShawScheme(D, 8, 8), phasor.nn.AlibiScheme(H)
        self.rope = phasor.Rotary(D)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        scheme = [self.t5(), self.shaw(), self.alibi(), phasor.Rope(self.rope)]
        return phasor.attention(q, k, v, scheme, True, **options)


def layer(dtype: torch.dtype = torch.float32) -> tuple[Layer, list[Tensor]]:
    return Layer().to(DEVICE), on(DEVICE, qkv(dtype))


def step(module: Any, inputs: list[Tensor], **options: Any) -> list[Tensor]:
    """The output and every gradient, from a gradient that is made where the output is: nothing is copied there."""
    out = module(*inputs, **options)
    return [out, *torch.autograd.grad(out, [*inputs, *module.parameters()], out.detach().cos())]


# ---- Streams and graphs ----


def slow_write(to: Tensor, values: Tensor) -> None:
    torch.cuda._sleep(40_000_000)  # some 20 ms
    to.copy_(values)


def test_a_call_comes_after_what_its_stream_does() -> None:
    needs_gpu()
    module, given = layer()
    wanted = step(module, given)
    values = [x.detach().clone() for x in given]
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            inputs = [torch.zeros_like(x).requires_grad_() for x in given]
            stream.synchronize()
            with torch.no_grad():
                for x, to in zip(values, inputs):
                    slow_write(to, x)
            got = [x.clone() for x in step(module, inputs)]
            with torch.no_grad():
                inputs[0].zero_()  # comes after the call
        stream.synchronize()
        assert same_bits(got, wanted)


def test_a_call_does_not_wait() -> None:
    needs_gpu()
    module, inputs = layer(torch.bfloat16)
    mask, starts = torch.ones(B, TK, dtype=torch.bool, device=DEVICE), on(DEVICE, STARTS)
    for waiting in (False, True):  # the first time loads what a first call loads, and PyTorch's allocator takes memory
        torch.cuda.synchronize()
        busy = torch.cuda.Event()
        torch.cuda._sleep(800_000_000 if waiting else 1)
        busy.record()
        step(module, inputs, key_mask=mask, dropout=0.1)
        with torch.no_grad():
            module(*inputs)
            phasor.attention(inputs[0][0], inputs[1][0], inputs[2][0], cu_seqlens=starts)
            phasor.attention_weights(inputs[0], inputs[1], queries=slice(0, 4))
            part = phasor.attention(*inputs, return_lse=True)
            phasor.merge_attention([part, part])
    assert not busy.query(), "a call waited for the GPU"
    torch.cuda.synchronize()


def test_a_graph_is_replayed_with_other_inputs() -> None:
    needs_gpu()
    for dtype in (torch.float32, torch.bfloat16):
        module, inputs = layer(dtype)
        mask = torch.ones(B, TK, dtype=torch.bool, device=DEVICE)
        at = torch.zeros(B, TQ, dtype=torch.int64, device=DEVICE)
        options = {"key_mask": mask, "query_positions": at, "dropout": 0.2, "dropout_seed": 9}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                step(module, inputs, **options)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = step(module, inputs, **options)
        for again in range(3):
            with torch.no_grad():
                for n, x in enumerate((*inputs, *module.parameters())):
                    x.copy_(numbers(*x.shape, seed=100 * again + n).abs() * 0.1)
                mask.copy_(torch.rand(B, TK, generator=torch.Generator().manual_seed(again)) < 0.8)
                at.copy_(torch.randint(0, TK, (B, TQ), generator=torch.Generator().manual_seed(again)))
            graph.replay()
            assert same_bits([x.clone() for x in made], step(module, inputs, **options)), (dtype, again)


def test_a_graph_of_ragged_batches_is_replayed_with_other_lengths() -> None:
    needs_gpu()
    q, k, v = (x.detach()[0] for x in on(DEVICE, qkv(torch.bfloat16)))
    queries, keys = on(DEVICE, STARTS)
    phasor.attention(q, k, v, phasor.Alibi(), True, cu_seqlens=(queries, keys))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = phasor.attention(q, k, v, phasor.Alibi(), True, cu_seqlens=(queries, keys))
    for ends in ((1, 2), (30, 60), (0, 0), (TQ, TQ)):
        queries.copy_(torch.tensor([0, *ends, TQ]))
        keys.copy_(torch.tensor([0, ends[0] + 9, ends[1] + 20, TK]))
        graph.replay()
        assert same_bits(out, phasor.attention(q, k, v, phasor.Alibi(), True, cu_seqlens=(queries, keys))), ends


def test_what_a_graph_would_not_repeat_is_refused() -> None:
    needs_gpu()
    _, inputs = layer()
    calls: dict[str, Any] = {
        "dropout without dropout_seed": {"dropout": 0.5},
        "key_mask is on the CPU": {"key_mask": np.ones((B, TK), bool)},
        "positions: are on the CPU": {"query_positions": [5] * TQ},
    }
    for words, options in calls.items():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), raises(ValueError, f"{words}.* while a CUDA graph is captured"):
            phasor.attention(*(x.detach() for x in inputs), **options)


# ---- Compiled, exported, cast, run again ----


def test_compiled_in_one_graph() -> None:
    module, inputs = layer()
    wanted = step(module, inputs)
    for backend in ("aot_eager", "inductor") if ON_GPU else ("aot_eager",):
        torch._dynamo.reset()
        compiled = torch.compile(module, fullgraph=True, backend=backend)
        got = step(compiled, inputs)
        assert same_bits(got[0], wanted[0]), backend
        assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(got, wanted)), backend  # sums around the operator may be fused


def test_compiled_with_masks_lengths_that_change_and_dropout() -> None:
    torch._dynamo.reset()
    module, _ = layer()

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, at: Tensor) -> Tensor:
        return module(q, k, v, key_mask=mask, query_positions=at, key_positions=0, dropout=0.5)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    for tokens in (5, 33, 70):
        q, k, v = on(DEVICE, [x.detach() for x in qkv(torch.float32, (tokens, tokens + 2))])
        mask, at = torch.ones(B, tokens + 2, dtype=torch.bool, device=DEVICE), torch.arange(2, tokens + 2, device=DEVICE)
        torch.manual_seed(4)
        got = compiled(q, k, v, mask, at)
        torch.manual_seed(4)
        assert same_bits(got, attend(q, k, v, mask, at)), tokens


def test_operators_pass_opcheck() -> None:
    from phasor._attention import call_of
    from phasor._torch.attention.text import encoded

    _, (q, k, v) = layer()
    table = numbers(H, 32).to(DEVICE).requires_grad_()
    operands = (q, k, v, *encoded(call_of(H, [phasor.T5(table), phasor.Alibi()], True, None, {})))
    torch.library.opcheck(torch.ops.phasor.attention.default, operands)


def test_exported() -> None:
    module, inputs = layer()
    inputs = [x.detach() for x in inputs]
    program = torch.export.export(module, tuple(inputs))
    assert same_bits(program.module()(*inputs), module(*inputs))


def test_autocast() -> None:
    module, inputs = layer()
    with torch.autocast(DEVICE, torch.bfloat16):
        out = module(*inputs)
        double = module(*(x.detach().double() for x in inputs))
        narrow = module(*(x.detach().bfloat16() for x in inputs))  # rows are cast beside these, too
    assert out.dtype == torch.bfloat16 and double.dtype == torch.float64
    assert same_bits(out, narrow) and torch.allclose(out.double(), double, atol=0.1)
    out.float().sum().backward()
    assert inputs[0].grad.dtype == torch.float32 and module.t5.weight.grad.dtype == torch.float32


def test_checkpointed() -> None:
    module, inputs = layer()
    gradients = []
    for again in (False, True):
        torch.manual_seed(5)
        out = checkpoint(lambda *x: module(*x, dropout=0.4), *inputs, use_reentrant=False) if again else module(*inputs, dropout=0.4)
        gradients.append(torch.autograd.grad(out.sin().sum(), [*inputs, *module.parameters()]))
    assert same_bits(*gradients)


def test_deterministic() -> None:
    module, inputs = layer(torch.bfloat16)
    wanted = step(module, inputs)
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            assert same_bits(step(module, inputs), wanted)
    finally:
        torch.use_deterministic_algorithms(False)


def gradients_in_any_order(scheme: str) -> None:
    """What Hopper's kernels take: the same gradients but for the order of sums, and the same bits again where PyTorch asks for them."""

    def gradients(**options: Any) -> tuple[Tensor, ...]:
        q, k, v = (numbers(1, 700, 4, 64, dtype=torch.bfloat16, seed=i).to(DEVICE).requires_grad_() for i in range(3))
        shape, dtype = ((4, 32), torch.float32) if scheme == "t5" else ((4, 129, 64), torch.bfloat16)
        table = numbers(*shape, dtype=dtype, seed=3).to(DEVICE).requires_grad_()
        out = phasor.attention(q, k, v, phasor.T5(table) if scheme == "t5" else phasor.Shaw(table), True, **options)
        return torch.autograd.grad(out, (q, k, v, table), numbers(*out.shape, dtype=torch.bfloat16, seed=4).to(DEVICE))

    wanted = gradients()
    assert same_bits(gradients(), wanted)
    for got, want in zip(gradients(deterministic=False), wanted, strict=True):
        assert (got.float() - want.float()).norm() <= 2**-8 * want.float().norm()
    torch.use_deterministic_algorithms(True)
    try:
        assert same_bits(gradients(deterministic=False), wanted)
    finally:
        torch.use_deterministic_algorithms(False)


def test_gradients_in_any_order() -> None:
    gradients_in_any_order("t5")


def test_gradients_of_a_table_in_any_order() -> None:
    gradients_in_any_order("shaw")


def test_gradients_are_added_up_over_steps() -> None:
    module, inputs = layer()
    for _ in range(2):
        module(*inputs).sum().backward()
    one = step(module, inputs)
    out = module(*inputs)
    twice = torch.autograd.grad(out.sum(), list(module.parameters()))
    assert one[0].device == out.device and all(torch.allclose(p.grad, 2 * g, rtol=1e-5) for p, g in zip(module.parameters(), twice))


# ---- Memory ----


def peak(tokens: int, learns: bool) -> int:
    """Bytes that a call takes beside its inputs."""
    heads, dim = 2, 64
    q, k, v = (torch.randn(1, tokens, heads, dim, device=DEVICE, dtype=torch.bfloat16, requires_grad=learns) for _ in range(3))
    table = torch.randn(heads, 32, device=DEVICE, requires_grad=learns)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = phasor.attention(q, k, v, phasor.T5(table), True)
    if learns:
        out.sum().backward()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def test_memory_grows_with_the_length_alone() -> None:
    needs_gpu()
    for learns in (False, True):
        short, long = peak(4096, learns), peak(16384, learns)
        print(f"peak of T5 at 16384 tokens, 2 heads of 64, {'with' if learns else 'without'} gradients: {long / 2**20:.1f} MiB (4096: {short / 2**20:.1f})")
        assert long < 4.5 * short + 2**22 and long < 16384 * 16384  # scores of one head would take four times that


# ---- Arrays of other libraries ----


def test_arrays_of_cupy() -> None:
    needs_gpu()
    cupy = module_or_not_run("cupy")
    q, k, v = (x.detach().numpy() for x in qkv(torch.float32))
    table, slopes = numbers(H, 32).numpy(), np.full(H, 0.1, np.float32)
    want, want_lse = phasor.attention(q, k, v, [phasor.T5(table), phasor.BiasTerm(phasor.Alibi(), slopes)], True, return_lse=True)
    with cupy.cuda.Stream(non_blocking=True):
        there = [cupy.asarray(x) for x in (q, k, v)]
        scheme = [phasor.T5(cupy.asarray(table)), phasor.BiasTerm(phasor.Alibi(), cupy.asarray(slopes))]
        out, lse = phasor.attention(*there, scheme, True, return_lse=True)
        assert isinstance(out, cupy.ndarray) and np.allclose(cupy.asnumpy(out), want, atol=1e-5) and np.allclose(cupy.asnumpy(lse), want_lse, atol=1e-5)
        weights = phasor.attention_weights(there[0], there[1], causal=True)
        assert isinstance(weights, cupy.ndarray) and np.allclose(cupy.asnumpy(weights), phasor.attention_weights(q, k, causal=True), atol=1e-5)
        merged, _ = phasor.merge_attention([(out, lse), (out, lse)])
        assert isinstance(merged, cupy.ndarray) and np.allclose(cupy.asnumpy(merged), want, atol=1e-5)
        with raises(ValueError, "key_mask"):
            phasor.attention(*there, key_mask=np.ones((B, TK), bool))  # memory of the host


def test_arrays_of_jax() -> None:
    needs_gpu()
    module_or_not_run("jax")
    import jax.numpy as jnp

    q, k, v = (x.detach().numpy() for x in qkv(torch.float32))
    there = [jnp.asarray(x) for x in (q, k, v)]
    if gpu_of(there[0]) is None:
        raise NotRun("JAX here has no GPU")
    out = phasor.attention(*there, phasor.Alibi(), True)
    assert type(out).__module__.startswith("jax") and np.allclose(np.asarray(out), phasor.attention(q, k, v, phasor.Alibi(), True), atol=1e-5)
