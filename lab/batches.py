# SPDX-License-Identifier: Apache-2.0
"""The windows that a seed trains on: made ahead, by several processes, once for all encodings of the seed, and kept on the device."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lab.data.store import Store
from lab.device import to_device

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


def made(source: Source, asked: Windows, processes: int = 1) -> np.ndarray:
    """(steps, rows, length + 1), int32."""
    if processes == 1:
        return _some((source, asked))
    share = -(-asked.steps // (4 * processes))
    parts = [
        Windows(asked.seed, asked.first + begin, min(share, asked.steps - begin), asked.rows, asked.length)
        for begin in range(0, asked.steps, share)
    ]
    context = multiprocessing.get_context("spawn")  # a fork of PyTorch's threads would hang
    with ProcessPoolExecutor(min(processes, len(parts)), context) as pool:
        return np.concatenate(list(pool.map(_some, [(source, part) for part in parts])))


class Batches:
    """The last windows that were asked for stay on the device: all encodings of a seed train on the same."""

    def __init__(self, source: Source, device: torch.device, processes: int = 1) -> None:
        self.source, self.device, self.processes = source, device, processes
        self._kept: dict[Windows, Tensor] = {}

    def of(self, asked: Windows) -> Tensor:
        """(steps, rows, length + 1) of int32 on the device."""
        if asked not in self._kept:
            self._kept = {one: kept for one, kept in self._kept.items() if one.seed == asked.seed}
            self._kept[asked] = to_device(made(self.source, asked, self.processes), self.device)
        return self._kept[asked]
