# SPDX-License-Identifier: Apache-2.0
"""Times of several calls, taken by turns, so that a chip that grows warm slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from random import Random
from typing import Any

import torch

Call = Callable[[], Any]
CALLS, ENOUGH_MS = 3, 60.0  # of a turn; fewer where they take longer in all


def gave_up(error: BaseException) -> bool:
    """After a fault in a kernel every call of this process fails, so nothing is to be gone on with."""
    text = str(error)
    return "CUDA error" in text and "out of memory" not in text


def words_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:300]


def turn_on_gpu(call: Call, calls: int) -> float:
    """Milliseconds of one of so many calls, which the GPU has in its queue before it begins with the first."""
    call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def turn_on_cpu(call: Call, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) * 1e3 / calls


def times_by_turns(jobs: dict[str, Call], rounds: int, device: str = "cuda") -> tuple[dict[str, float], dict[str, str]]:
    """Milliseconds of a call, the median of all rounds; and why one was left out. The first round is not counted. Every round has an order of its
    own: the chip is limited by its power, and what ran before decides how fast the next one may."""
    turn = turn_on_gpu if device == "cuda" else turn_on_cpu
    times: dict[str, list[float]] = {name: [] for name in jobs}
    errors: dict[str, str] = {}
    random, order = Random(1), list(jobs)
    for n in range(rounds + 1):
        random.shuffle(order)
        for name in [name for name in order if name not in errors]:
            last = times[name][-1] if times[name] else 0.0
            try:
                times[name].append(turn(jobs[name], max(1, min(CALLS, int(ENOUGH_MS / last))) if last > 0 else CALLS if n else 1))
            except Exception as error:  # noqa: BLE001  the others' times must not be lost
                if gave_up(error):
                    raise
                errors[name] = words_of(error)
    return {name: statistics.median(list_[1:]) for name, list_ in times.items() if name not in errors}, errors
