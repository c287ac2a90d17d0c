# SPDX-License-Identifier: Apache-2.0
"""The queue: which runs there are, which are done, how long each will take, and all of them one after the other, each result written as it comes."""

from __future__ import annotations

import os
import statistics
import tarfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import results
from lab.encodings import TRAINED, file_name
from lab.lanes import Claims
from lab.presets import Preset
from lab.progress import Progress
from lab.run import Lab, run

WEIGHT = {"rotary": 3.0, "learned": 1.3}  # of a run's time, where none is known yet: all that rotary is changed to is measured with it
UNKNOWN = 40.0  # seconds of a first run of weight 1
SHARES = 1000  # the progress bar counts a run as so many steps


@dataclass(frozen=True)
class Task:
    encoding: str
    seed: int


def tasks_of(preset: Preset, only: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> list[Task]:
    """All runs of a preset, a seed of every encoding before the next seed."""
    names = TRAINED if only is None else named(only)
    return [Task(name, seed) for seed in (preset.seeds if seeds is None else seeds) for name in TRAINED if name in names]


def named(only: Sequence[str]) -> list[str]:
    """Labels, of which each may be given with dashes for its spaces: scripts split words."""
    known = {label.replace(" ", "-"): label for label in TRAINED}
    for name in only:
        if name.replace(" ", "-") not in known:
            raise ValueError(f"lab: {name!r} is no encoding, wanted some of: {', '.join(TRAINED)}")
    return [known[name.replace(" ", "-")] for name in only]


@dataclass
class Queue:
    """Runs of one preset on one store."""

    preset: Preset
    data: str  # the store's hash
    results: Path
    tasks: list[Task]
    claims: Claims = Claims()
    failed: list[Task] = field(default_factory=list)

    def path(self, task: Task) -> Path:
        return results.path_of(self.results, self.preset, task.encoding, task.seed)

    def left(self) -> list[Task]:
        return [task for task in self.tasks if not results.is_done(self.path(task), self.preset, self.data)]

    def seconds(self, task: Task, lanes: int = 1) -> float:
        """As the same encoding took with another seed; else as others took. Lanes take turns on the device."""
        known: dict[str, list[float]] = {}
        for other in tasks_of(self.preset):
            found = results.read(self.path(other)) if results.is_done(self.path(other), self.preset, self.data) else None
            if found is not None:
                known.setdefault(other.encoding, []).append(found["seconds"] * lanes / found.get("lanes", 1))
        if task.encoding in known:
            return statistics.fmean(known[task.encoding])
        weights = [statistics.fmean(seconds) / WEIGHT.get(name, 1.0) for name, seconds in known.items()]
        return WEIGHT.get(task.encoding, 1.0) * (statistics.median(weights) if weights else UNKNOWN * lanes)

    def work(self, lab: Lab, seconds: float | None = None, after: Callable[[], None] = lambda: None) -> None:
        """All that is left, or all that ends in so many seconds: a run that would not is not begun."""
        begin, left = time.monotonic(), self.left()
        progress = Progress(SHARES * max(1, len(left)))
        for number, task in enumerate(left):
            if results.is_done(self.path(task), self.preset, self.data):  # another lane did it
                continue
            needed = self.seconds(task, lab.lanes)
            remaining = float("inf") if seconds is None else seconds - (time.monotonic() - begin)
            if needed > remaining:
                print(f"lab: {task.encoding}, seed {task.seed}: would take about {needed:.0f} s, {remaining:.0f} s are left: not begun", flush=True)
                continue
            if not self.claims.take(file_name(task.encoding, task.seed)):
                continue
            self._one(lab, task, progress, number)
            after()
        progress.show(progress.total, f"{len(left)} runs")
        progress.end()

    def _one(self, lab: Lab, task: Task, progress: Progress, number: int) -> None:
        def told(what: str, share: float) -> None:
            progress.show(int(SHARES * (number + min(share, 0.999))), f"{task.encoding}, seed {task.seed}: {what}")

        try:
            found = run(lab, task.encoding, task.seed, told)
        except Exception:  # one encoding's mistake is not the end of the others
            self.failed.append(task)
            progress.clear()
            print(f"lab: {task.encoding}, seed {task.seed} failed:\n{traceback.format_exc()}", flush=True)
            return
        results.write(self.path(task), found)
        progress.clear()
        print(summary(found), flush=True)


def summary(result: dict) -> str:
    """A line about a run."""
    head = f"lab: {result['encoding']}, seed {result['seed']}: {result['seconds']:.1f} s"
    if result["trained"] is None:
        return f"{head}; left out: {result['refused'][0]['message']}"
    trained = result["trained"]
    lengths = ", ".join(f"{row['multiple']:g}x {row['last']:.3f}" for row in result["measured"] if row["label"] == result["encoding"])
    return (
        f"{head}, training {trained['seconds']:.1f} s, {trained['tokens_per_second']:.0f} tokens/s, loss {trained['final_loss']:.4f}; "
        f"last tokens: {lengths}; refused: {len(result['refused'])}"
    )


def packed(folder: Path, file: Path) -> None:
    """All results of a folder as one tar.gz, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")  # lanes may write at once
    with tarfile.open(part, "w:gz") as archive:
        for path in sorted(folder.rglob("*.json")):
            archive.add(path, path.relative_to(folder))
    os.replace(part, file)


def table(queue: Queue) -> str:
    """What is done and what is left, for a reader."""
    left = set(queue.left())
    lines = []
    for task in queue.tasks:
        state = "left" if task in left else "done"
        found = results.read(queue.path(task)) if state == "done" else None
        if found is not None and found["trained"] is None:
            state = "left out: " + found["refused"][0]["message"]
        lines.append(f"{task.encoding:20} seed {task.seed}  {state}")
    needed = sum(queue.seconds(task) for task in left)
    return "\n".join([*lines, f"{len(queue.tasks) - len(left)} done, {len(left)} left, about {needed:.0f} s"])
