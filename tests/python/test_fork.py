# SPDX-License-Identifier: Apache-2.0
"""Processes: a fork whose parent used the threads goes on in the child, and encodings travel to spawned processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest

import phasor

pytestmark = pytest.mark.filterwarnings("ignore:.*fork")  # JAX, imported by other tests, and Python itself warn of what is tested here
ROPE = phasor.Rotary(head_dim=64, base=5e5, scaling=phasor.Llama3Scaling(factor=8))
SHAPE = (1, 257, 9, 64)


def rotated(rope: phasor.Rotary, threads: int = 2) -> bytes:
    """Large enough for several threads."""
    phasor.set_num_threads(threads)
    return rope(np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32), positions=7).tobytes()


def test_the_child_of_a_fork_rotates_as_its_parent_which_goes_on() -> None:
    before = rotated(ROPE)
    child = os.fork()
    if child == 0:  # nothing here may reach pytest
        signal.alarm(30)  # a child that hangs ends, with another status
        os._exit(0 if rotated(ROPE) == before and rotated(ROPE, 3) == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rotated(ROPE) == before


def test_a_fork_of_a_fork_rotates_too() -> None:
    before = rotated(ROPE)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        first = rotated(ROPE) == before
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(30)
            os._exit(0 if rotated(ROPE) == before else 1)
        os._exit(0 if first and os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_encodings_travel_to_other_processes(method: str) -> None:
    wanted = rotated(ROPE)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(rotated, [ROPE] * 4).get(timeout=120) == [wanted] * 4


def test_a_fork_while_another_thread_is_in_a_call_leaves_the_child_usable() -> None:
    # In a process of its own: the thread that rotates must not outlive the test.
    program = """
import os, signal, threading, numpy as np, phasor
phasor.set_num_threads(2)
rope = phasor.Rotary(head_dim=64)
x = np.ones((1, 2048, 16, 64), np.float32)
wanted = rope(x).tobytes()
stop = threading.Event()
def busy():
    while not stop.is_set():
        rope(x)
thread = threading.Thread(target=busy)
thread.start()
bad = 0
for _ in range(8):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if rope(x).tobytes() == wanted else 1)
    bad += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
stop.set()
thread.join()
print(bad)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "0"


def test_encodings_and_specs_are_pickled_and_copied() -> None:
    for value in (ROPE, ROPE.spec, ROPE.spec.scaling):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and hash(again) == hash(value)
    assert rotated(pickle.loads(pickle.dumps(ROPE))) == rotated(ROPE)
