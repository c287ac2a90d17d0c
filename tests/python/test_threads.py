# SPDX-License-Identifier: Apache-2.0
"""Threads: how many there are, that results do not depend on them, and that Python goes on while a call runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import phasor

ROPE = phasor.Rotary(head_dim=80, rotary_width=48, base=5e5, scaling=phasor.YarnScaling(factor=4, original_length=4096))
SHAPE = (2, 301, 7, 80)  # enough for several tasks


def fingerprint() -> str:
    """Of every front: in place, functional, gradient, tables, keys that move."""
    made = torch.Generator().manual_seed(1)
    x = torch.randn(SHAPE, generator=made)
    digest = hashlib.sha256()
    for dtype in (torch.float32, torch.bfloat16):
        q = x.to(dtype, copy=True).requires_grad_(True)
        out = ROPE(q, positions=10**9)
        (gradient,) = torch.autograd.grad(out, q, torch.ones_like(out))
        moved = ROPE.rerotate_(out.detach().clone(), 10**9, 12345)
        for part in (out.detach(), gradient, moved, *ROPE.cos_sin(torch.arange(301))):
            digest.update(part.contiguous().view(torch.uint8).numpy().tobytes())
    digest.update(ROPE.apply_(x.numpy().copy(), positions=3).tobytes())
    return digest.hexdigest()


def test_results_are_the_same_bits_for_any_number_of_threads() -> None:
    found = set()
    for threads in (1, 2, 3, 8):
        phasor.set_num_threads(threads)
        assert phasor.get_num_threads() == threads
        found.add(fingerprint())
    assert len(found) == 1


def test_the_number_of_threads_follows_pytorch_until_it_is_set() -> None:
    for threads in (1, 3, 2):
        torch.set_num_threads(threads)
        ROPE(torch.zeros(SHAPE))
        assert phasor.get_num_threads() == threads
    phasor.set_num_threads(5)
    assert phasor.get_num_threads() == 5
    phasor.set_num_threads(0)
    assert phasor.get_num_threads() == torch.get_num_threads()


@pytest.mark.parametrize("bad", [-1, -(2**40), 1025, 2**62])
def test_a_number_of_threads_that_cannot_be_meant_is_refused(bad: int) -> None:
    phasor.set_num_threads(1024)
    with pytest.raises(ValueError, match=f"set_num_threads: is {bad}, wanted 1 to 1024"):
        phasor.set_num_threads(bad)
    assert phasor.get_num_threads() == 1024


def test_without_pytorch_there_are_as_many_threads_as_this_process_has_cores() -> None:
    cores = sorted(os.sched_getaffinity(0))
    program = (
        "import os, sys; os.sched_setaffinity(0, eval(sys.argv[1])); import phasor; print(phasor.get_num_threads(), 'torch' in sys.modules)"
    )
    for some in (cores[:1], cores):
        done = subprocess.run([sys.executable, "-c", program, repr(some)], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(len(some)), "False"]


def test_concurrent_python_threads_share_an_encoding_and_get_the_same_bits() -> None:
    wanted = fingerprint()
    torch.set_num_threads(2)
    with ThreadPoolExecutor(6) as pool:
        assert {f.result() for f in [pool.submit(fingerprint) for _ in range(18)]} == {wanted}


def load(kind: int) -> str:
    """One piece of work of the pool, of six kinds: large enough for several tasks."""
    made = np.random.default_rng(kind)
    x = made.standard_normal((1, 300 + kind, 4, 48)).astype(np.float32)
    rope = phasor.Rotary(head_dim=48, base=1e4 + kind)
    if kind % 6 == 0:
        result = rope.apply_(x, positions=kind)
    elif kind % 6 == 1:
        result = rope(torch.from_numpy(x), positions=torch.arange(300 + kind) * 7).numpy()
    elif kind % 6 == 2:
        result = phasor.attention(x, x, x, scheme=phasor.Alibi(), causal=True)
    elif kind % 6 == 3:
        q = torch.from_numpy(x).requires_grad_()
        (result,) = torch.autograd.grad(phasor.attention(q, q, q, scheme=phasor.T5(torch.ones(4, 32))).square().sum(), q)
        result = result.numpy()
    elif kind % 6 == 4:
        result = np.stack(rope.cos_sin(np.arange(kind, kind + 2000)))
    else:
        with pytest.raises(ValueError, match="wants 48"):  # a refusal in the midst of it
            rope(x[..., :40])
        result = phasor.Sinusoidal(48).add(x[:, :, 0])
    return hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest()


def test_the_pool_under_load_gives_every_caller_its_own_bits() -> None:
    """Many threads at once, each with another work, while the number of threads changes: who finds the pool taken works alone."""
    callers, rounds = 24, 6
    wanted = [load(kind) for kind in range(callers)]
    begin, over = threading.Barrier(callers + 1), threading.Event()

    def call(kind: int) -> list[str]:
        begin.wait()
        return [load(kind) for _ in range(rounds)]

    def change() -> None:
        begin.wait()
        while not over.is_set():
            for threads in (1, 8, 3, 2):
                phasor.set_num_threads(threads)
                time.sleep(0.002)

    with ThreadPoolExecutor(callers + 1) as pool:
        changing = pool.submit(change)
        found = [pool.submit(call, kind) for kind in range(callers)]
        try:
            got = [future.result(timeout=240) for future in found]
        finally:
            over.set()
        changing.result(timeout=60)
    assert got == [[one] * rounds for one in wanted]


def test_concurrent_threads_that_make_encodings_do_not_disturb_each_other() -> None:
    def make(i: int) -> tuple[float, ...]:
        rope = phasor.Rotary(head_dim=16, base=1e4 + i % 5)
        return tuple(rope(np.ones((3, 16), np.float32)).ravel().tolist())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(make, range(100)))
    assert found == [make(i) for i in range(100)]


def test_another_python_thread_makes_progress_during_a_long_call() -> None:
    phasor.set_num_threads(1)
    x = np.zeros((1, 4096, 64, 128), np.float64)  # float64 rows are slow: a call of about a tenth of a second
    rope = phasor.Rotary(head_dim=128)
    stamps: list[float] = []
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            stamps.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    while not stamps:
        time.sleep(0.001)
    begin = time.perf_counter()
    rope.apply_(x)
    end = time.perf_counter()
    done.set()
    other.join()
    # With the GIL held there would be one stamp at most: the other thread would wait for the end of the call.
    assert end - begin > 0.02
    assert sum(begin < s < end for s in stamps) >= 5
