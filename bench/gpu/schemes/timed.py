# SPDX-License-Identifier: Apache-2.0
"""How a group of jobs becomes rows: each is checked, those that are right are timed by turns, and targets are ratios of their times."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from schemes.contenders import Job, NotHere
from schemes.problem import distance_between
from schemes.rows import Figure, Row
from schemes.timing import gave_up, times_by_turns, words_of


@dataclass(frozen=True)
class Target:
    """The time of one job over another's, and what it may be; without a limit it is only printed."""

    words: str
    job: str
    over: str
    limit: float | None = None
    at_least: bool = False


@dataclass(frozen=True)
class Line:
    """What a row is made of: a job of ours, its targets, and which jobs are its peers."""

    name: str
    job: str
    targets: tuple[Target, ...] = ()
    peers: dict[str, str] = field(default_factory=dict)


@dataclass
class Group:
    name: str
    jobs: dict[str, Callable[[], Job]]
    lines: list[Line]
    operations: float = math.nan


def prepared(name: str, make: Callable[[], Job]) -> tuple[Job | None, float, str]:
    """A job whose results are right; else why not."""
    try:
        job = make()
        off = distance_between(job.results(), job.wanted())
        return (job, off, "") if off < job.most else (None, off, f"its results are off by {off:.1e}, at most {job.most:.0e} is right")
    except NotHere as why:
        return None, math.nan, f"not here: {why}"
    except Exception as error:  # noqa: BLE001  whatever one contender does must not lose the others' rows
        if gave_up(error):
            raise
        return None, math.nan, words_of(error)


def forget() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def rows_of(group: Group, rounds: int, device: str) -> list[Row]:
    """Every job is checked, then all that are right are timed by turns."""
    jobs, offs, errors = {}, {}, {}
    for name, make in group.jobs.items():
        job, offs[name], errors[name] = prepared(name, make)
        if job is not None:
            jobs[name] = job
        forget()
    times, left_out = times_by_turns({name: job.run for name, job in jobs.items()}, rounds, device)
    ms = {name: time / jobs[name].calls for name, time in times.items()}
    errors |= left_out
    return [row_of(group, line, jobs, ms, offs, errors) for line in group.lines]


def row_of(group: Group, line: Line, jobs: dict[str, Job], ms: dict[str, float], offs: dict[str, float], errors: dict[str, str]) -> Row:
    row = Row(group.name, line.name, error=errors.get(line.job, ""), off=offs.get(line.job, math.nan))
    if line.job in jobs:
        row.kernel = jobs[line.job].kernel
    if line.job not in ms:
        return row
    row.ms = ms[line.job]
    row.tflops = group.operations / row.ms / 1e9
    for target in line.targets:
        if target.job in ms and target.over in ms:
            row.figures.append(Figure(target.words, ms[target.job] / ms[target.over], target.limit, target.at_least))
        else:
            missing = target.job if target.job not in ms else target.over
            row.error += f"{'; ' if row.error else ''}no '{target.words}': {missing}: {errors.get(missing, 'no such job')}"
    row.peers = {peer: ms[job] / row.ms if job in ms else errors.get(job, "no such job") for peer, job in line.peers.items()}
    return row
