# SPDX-License-Identifier: Apache-2.0
"""All runs, in a process a core each, with their progress shown."""

from __future__ import annotations

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
    context = multiprocessing.get_context("spawn")  # a fork of PyTorch's threads would hang
    steps = context.Value("q", 0)
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _share, (steps,)) as pool:
        runs = [pool.submit(_run, task) for task in tasks]
        while (done := sum(one.done() for one in runs)) < len(runs):
            if any(one.done() and one.exception() for one in runs):
                pool.shutdown(wait=False, cancel_futures=True)
                break
            # The last step is not the end: what it trained is still measured.
            progress.show(min(steps.value, progress.total - 1), f"{done} of {len(tasks)} models")
            time.sleep(0.05)
        rows = [row for one in runs for row in one.result()]
    progress.show(progress.total, f"{len(tasks)} models")
    progress.end()
    return rows
