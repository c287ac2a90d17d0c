# SPDX-License-Identifier: Apache-2.0
"""Calls come in the order of the caller's stream, wait for nothing, and can be captured and replayed with other positions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import torch

import phasor

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
    at = cupy.arange(4, 11)
    assert same_bits(ROPE(torch.from_numpy(q).cuda(), positions=at), torch.from_numpy(wanted))
    with cupy.cuda.Stream(non_blocking=True), raises(ValueError, "different streams"):
        ROPE.apply_(cupy.asarray(q), positions=torch.arange(7, device="cuda"))
    with raises(ValueError, "positions"):
        ROPE.apply_(cupy.asarray(q), positions=np.arange(7))


class Foreign:
    """An array of another library, which still writes it on a stream of its own, and says so by DLPack's protocol alone."""

    def __init__(self, values: torch.Tensor) -> None:
        self.asked: list[int] = []
        self._stream = torch.cuda.Stream()
        self._memory = torch.zeros_like(values, device="cuda")
        self._source = values.cuda()  # kept: it is read later, on a stream that the allocator does not know of
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            slow_write(self._memory, self._source)
            self._written = self._stream.record_event()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, torch.cuda.current_device()

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        assert stream is not None, "nobody said which stream is to wait"
        self.asked.append(stream)
        consumer = torch.cuda.default_stream() if stream in (0, 1) else torch.cuda.ExternalStream(stream)
        consumer.wait_event(self._written)
        return self._memory.__dlpack__(stream=-1)  # it has waited


def test_positions_and_slots_of_another_library_are_waited_for() -> None:
    needs_gpu()
    q, at, slots = numbers(1, 6, 4, 64), torch.tensor([3, 1, 4, 1, 5, 9]), torch.tensor([5, 4, 0, 2, 1, 3])
    q_there = moved(q)[0]
    wanted, wanted_cache = ROPE(q, positions=at), torch.zeros(6, 4, 64)
    phasor.prepare_attention(k=q[0], k_cache=phasor.Cache(wanted_cache, "block head inner"), slots=slots, rotary=ROPE, positions=at)
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            assert same_bits(ROPE(q_there, positions=Foreign(at)), wanted)
            foreign = Foreign(at)
            assert same_bits(ROPE.apply_(q_there.clone(), positions=foreign), wanted) and foreign.asked == [stream.cuda_stream or 1]
            cache = torch.zeros_like(wanted_cache, device="cuda")
            phasor.prepare_attention(
                k=q_there[0], k_cache=phasor.Cache(cache, "block head inner"), slots=Foreign(slots), rotary=ROPE, positions=Foreign(at)
            )
            assert same_bits(cache, wanted_cache)


def longest_silence(call: Callable[[], object]) -> float:
    """The longest time for which another thread did not get the interpreter, while calls come to a GPU that is busy for half a second."""
    gaps, stop = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            gaps[0], last = max(gaps[0], now - last), now

    call()
    torch.cuda.synchronize()
    other = threading.Thread(target=tick)
    other.start()
    torch.cuda._sleep(1_000_000_000)  # some half a second
    for _ in range(4000):  # more than a queue of launches holds: one of them waits until the GPU is ready
        call()
    stop.set()
    other.join()
    torch.cuda.synchronize()
    return gaps[0]


def test_a_call_that_waits_for_room_in_the_queue_lets_other_threads_run() -> None:
    needs_gpu()
    q, out, firsts = torch.zeros(1, 1, 4, 64, device="cuda"), torch.zeros(2, 3, dtype=torch.int64, device="cuda"), torch.tensor([5, 6], device="cuda")
    cache = phasor.Cache(torch.zeros(2, 4, 64, device="cuda"), "block head inner")
    slots = torch.zeros(1, dtype=torch.int64, device="cuda")
    calls: dict[str, Callable[[], object]] = {
        "rotation": lambda: ROPE.apply_(q, positions=3),
        "positions": lambda: phasor.positions.from_offsets(3, firsts, out=out),
        "prepare_attention": lambda: phasor.prepare_attention(k=q[0], k_cache=cache, slots=slots),
    }
    for name, call in calls.items():
        assert longest_silence(call) < 0.2, name


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
