# SPDX-License-Identifier: Apache-2.0
"""The windows that a seed trains on: made ahead, by several processes, once for all encodings of the seed, and kept on the device."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lab.data.store import Store
from lab.device import to_device

PART = 50  # steps that a process makes at once; fewer are made without
TUNE_STEP = 1_000_000  # steps of a fine-tune are numbered from here: no window of training comes again

@dataclass(frozen=True)
class Source:
    """A store by its folder, which other processes can open too; without one, the quick store."""

    folder: str | None = None

    @property
    def store(self) -> Store:
        return _opened(self)


@lru_cache(maxsize=2)
def _opened(source: Source) -> Store:
    return Store.quick() if source.folder is None else Store.open(Path(source.folder))


@dataclass(frozen=True)
class Windows:
    """Which windows: `steps` batches of `rows` windows from the step `first` on."""

    seed: int
    first: int
    steps: int
    rows: int
    length: int


def _some(task: tuple[Source, Windows]) -> np.ndarray:
    source, asked = task
    batches = [source.store.batch(asked.seed, asked.first + step, asked.rows, asked.length) for step in range(asked.steps)]
    return np.stack(batches).astype(np.int32)


def made(source: Source, asked: Windows, pool: ProcessPoolExecutor | None = None) -> np.ndarray:
    """(steps, rows, length + 1), int32; with a pool in parts, by its processes."""
    if pool is None:
        return _some((source, asked))
    parts = [replace(asked, first=asked.first + begin, steps=min(PART, asked.steps - begin)) for begin in range(0, asked.steps, PART)]
    return np.concatenate(list(pool.map(_some, [(source, part) for part in parts])))


def pool_of(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))  # a fork of PyTorch's threads would hang


class Batches:
    """The last windows that were asked for stay on the device: all encodings of a seed train on the same."""

    def __init__(self, source: Source, device: torch.device, processes: int = 1) -> None:
        self.source, self.device = source, device
        self._pool = pool_of(processes) if processes > 1 else None
        self._kept: dict[Windows, Tensor] = {}

    def of(self, asked: Windows) -> Tensor:
        """(steps, rows, length + 1) of int32 on the device."""
        if asked not in self._kept:
            self._kept = {one: kept for one, kept in self._kept.items() if one.seed == asked.seed}
            self._kept[asked] = to_device(made(self.source, asked, self._pool if asked.steps > PART else None), self.device)
        return self._kept[asked]
