# SPDX-License-Identifier: Apache-2.0
"""Calls come in the order of the caller's stream, wait for nothing, and can be captured and replayed with other positions."""

from __future__ import annotations

import numpy as np
import torch

from cases import DTYPES, SPECS, NotRun, module_or_not_run, moved, needs_gpu, numbers, raises, same_bits
from phasor._arrays import gpu_of

ROPE = SPECS["half"]


def slow_write(to: torch.Tensor, values: torch.Tensor) -> None:
    """Writes values after the stream has worked for a while: who does not wait for it reads what was there before."""
    torch.cuda._sleep(40_000_000)  # some 20 ms
    to.copy_(values)


def test_a_call_comes_after_what_its_stream_does() -> None:
    needs_gpu()
    values = numbers(2, 64, 8, 64, dtype=torch.bfloat16)
    wanted = ROPE(values, positions=5)
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            q, at = torch.zeros_like(values, device="cuda"), torch.zeros(64, dtype=torch.int64, device="cuda")
            stream.synchronize()
            slow_write(q, values.cuda())
            slow_write(at, torch.arange(5, 69).cuda())
            out = ROPE(q, positions=at)
            ROPE.apply_(q, positions=at)
            after = q.clone()
            q.zero_()  # comes after the rotation
        stream.synchronize()
        assert same_bits(out, wanted) and same_bits(after, wanted)


def test_streams_are_ordered_by_events() -> None:
    needs_gpu()
    values = numbers(1, 32, 4, 64)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    q = torch.zeros_like(values, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        slow_write(q, values.cuda())
        ROPE.apply_(q, positions=9)
        done = first.record_event()
    with torch.cuda.stream(second):
        second.wait_event(done)
        ROPE.apply_(q, positions=9, inverse=True)
    second.synchronize()
    assert same_bits(q, ROPE(ROPE(values, positions=9), positions=9, inverse=True))


def test_a_call_does_not_wait() -> None:
    needs_gpu()
    q, at = moved(numbers(1, 16, 4, 64), torch.arange(16))
    for waiting in (False, True):  # the first time loads what a first call loads
        torch.cuda.synchronize()
        busy = torch.cuda.Event()
        torch.cuda._sleep(400_000_000 if waiting else 1)
        busy.record()
        ROPE.apply_(q, positions=at)
        ROPE(q, positions=at)
        ROPE.cos_sin(at)
    assert not busy.query(), "a call waited for the GPU"
    torch.cuda.synchronize()


def test_a_graph_is_replayed_with_other_positions() -> None:
    needs_gpu()
    for dtype in DTYPES:
        q, k = numbers(4, 1, 8, 64, dtype=dtype), numbers(4, 1, 2, 64, dtype=dtype, seed=1)
        q_in, k_in, at = *moved(q, k), torch.zeros(4, 1, dtype=torch.int64, device="cuda")
        q_there, k_there = q_in.clone(), k_in.clone()
        ROPE.apply_(q_there, k_there, at), ROPE(q_in, positions=at), ROPE.cos_sin(at)  # what a first call loads is loaded
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            q_there.copy_(q_in)
            k_there.copy_(k_in)
            ROPE.apply_(q_there, k_there, at)
            out = ROPE(q_in, positions=at)
            cos, _ = ROPE.cos_sin(at)
        for step in (0, 1, 70_000, 2**61):
            positions = torch.tensor([[step], [step + 1], [2 * step], [step + 9]])
            at.copy_(positions)
            graph.replay()
            wanted = ROPE(q, k, positions)
            assert same_bits((q_there, k_there), wanted) and same_bits(out, wanted[0]), (dtype, step)
            assert same_bits(cos, ROPE.cos_sin(positions)[0])


def test_an_offset_and_consecutive_positions_are_captured_too() -> None:
    needs_gpu()
    q = numbers(1, 6, 4, 64)
    q_in = moved(q)[0]
    for at in (11, range(11, 17), list(range(11, 17)), np.arange(11, 17)):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = ROPE(q_in, positions=at)
        graph.replay()
        assert same_bits(out, ROPE(q, positions=11))
    other = [3, 1, 4, 1, 5, 9]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), raises(ValueError, "while a CUDA graph is captured"):
        ROPE(q_in, positions=other)


def test_arrays_of_cupy() -> None:
    needs_gpu()
    cupy = module_or_not_run("cupy")
    q = numbers(2, 7, 3, 64).numpy()
    wanted = ROPE(q, positions=np.arange(4, 11))
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            there, at = cupy.asarray(q), cupy.arange(4, 11)
            out = ROPE(there, positions=at)
            assert isinstance(out, cupy.ndarray) and (cupy.asnumpy(out) == wanted).all()
            cos, _ = ROPE.cos_sin(at)
            assert isinstance(cos, cupy.ndarray) and (cupy.asnumpy(cos) == ROPE.cos_sin(np.arange(4, 11))[0]).all()
            assert ROPE.apply_(there, positions=at) is there and (cupy.asnumpy(there) == wanted).all()
    with cupy.cuda.Stream(non_blocking=True), raises(ValueError, "different streams"):
        ROPE.apply_(cupy.asarray(q), positions=torch.arange(7, device="cuda"))
    with raises(ValueError, "positions"):
        ROPE.apply_(cupy.asarray(q), positions=np.arange(7))


def test_arrays_of_jax() -> None:
    needs_gpu()
    module_or_not_run("jax")
    import jax.numpy as jnp

    q = numbers(2, 7, 3, 64).numpy()
    there = jnp.asarray(q)
    if gpu_of(there) is None:
        raise NotRun("JAX here has no GPU")
    out = ROPE(there, positions=4)
    assert type(out).__module__.startswith("jax") and (np.asarray(out) == ROPE(q, positions=4)).all()
    with raises(ValueError, "JAX, which cannot change"):
        ROPE.apply_(there, positions=4)
