# SPDX-License-Identifier: Apache-2.0
"""All runs, in a process a core each, with their progress shown."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from lab.measure import Row, Settings, run
from lab.progress import Progress

Task = tuple[str, int, Settings]
_steps: Any = None  # of all processes together


def _share(steps: Any) -> None:
    global _steps
    _steps = steps


def _step_done() -> None:
    with _steps.get_lock():
        _steps.value += 1


def _run(task: Task) -> list[Row]:
    return run(*task, _step_done)


def run_all(tasks: list[Task], jobs: int) -> list[Row]:
    """The rows of all tasks, in the order of the tasks."""
    progress = Progress(sum(task[2].steps for task in tasks))
    rows = _one_by_one(tasks, progress) if jobs == 1 else _side_by_side(tasks, jobs, progress)
    progress.show(progress.total, f"{len(tasks)} models")
    progress.end()
    return rows


def _one_by_one(tasks: list[Task], progress: Progress) -> list[Row]:
    steps, rows = itertools.count(1), []
    for number, task in enumerate(tasks):
        # The last step is not the end: what it trained is still measured.
        rows += run(*task, lambda: progress.show(min(next(steps), progress.total - 1), f"{number} of {len(tasks)} models"))
    return rows


def _side_by_side(tasks: list[Task], jobs: int, progress: Progress) -> list[Row]:
    context = multiprocessing.get_context("spawn")  # a fork of PyTorch's threads would hang
    steps = context.Value("q", 0)
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _share, (steps,)) as pool:
        runs = [pool.submit(_run, task) for task in tasks]
        while (done := sum(one.done() for one in runs)) < len(runs):
            if any(one.done() and one.exception() for one in runs):
                pool.shutdown(wait=False, cancel_futures=True)
                break
            progress.show(min(steps.value, progress.total - 1), f"{done} of {len(tasks)} models")
            time.sleep(0.05)
        return [row for one in runs for row in one.result()]
