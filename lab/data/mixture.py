# SPDX-License-Identifier: Apache-2.0
"""What a batch is made of: text, generated language and tasks, each row drawn by a number that its seed, its step and its place give."""

from __future__ import annotations

import numpy as np

from lab.data import tasks
from lab.data.parts import Parts
from lab.data.symbols import Symbols

TEXT, LANGUAGE = 0.6, 0.1  # of the rows; the others are tasks
CUTS = 4  # a row of tasks is one example, or 2, 4 or 8 shorter ones, as often each


def batch(parts: Parts, symbols: Symbols, seed: tuple[int, int], rows: int, length: int) -> np.ndarray:
    """(rows, length + 1)."""
    if rows < 1 or length < 1:
        raise ValueError(f"batch: {rows} rows of length {length}, wanted 1 or more of each")
    rng = np.random.default_rng((20_190, *seed))
    made = np.empty((rows, length + 1), np.int64)
    for row, kind in enumerate(rng.random(rows)):
        if kind < TEXT:
            made[row] = window(parts.train, length + 1, rng)
        elif kind < TEXT + LANGUAGE:
            made[row] = _language(parts.language_train, length + 1, rng) + symbols.language
        else:
            made[row] = _tasks(parts.train, symbols, length + 1, rng)
    return made


def window(stream: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Consecutive tokens from anywhere; past the end it goes on at the beginning."""
    begin = int(rng.integers(len(stream)))
    if begin + size <= len(stream):
        return stream[begin : begin + size].astype(np.int64)
    return stream[np.arange(begin, begin + size) % len(stream)].astype(np.int64)


def _language(documents: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """From the beginning of a document, which the next one follows where it is too short."""
    first = int(rng.integers(len(documents)))
    count = -(-size // documents.shape[1])
    return documents[np.arange(first, first + count) % len(documents)].reshape(-1)[:size].astype(np.int64)


def _tasks(stream: np.ndarray, symbols: Symbols, size: int, rng: np.random.Generator) -> np.ndarray:
    """Examples one after the other, all in one piece of text. Of each every task that fits is as likely, and so is every distance that fits."""
    fitting = [cuts for cuts in (2**power for power in range(CUTS)) if size // cuts >= min(map(tasks.least_size, tasks.TASKS))]
    text = window(stream, size, rng)
    if not fitting:
        return text
    edges = np.linspace(0, size, int(rng.choice(fitting)) + 1).astype(int)
    for begin, end in zip(edges, edges[1:]):
        names = [name for name in tasks.TASKS if end - begin >= tasks.least_size(name)]
        name = names[int(rng.integers(len(names)))]
        more = bool(end - begin >= tasks.least_size(name, True))
        near, far = tasks.distances(name, end - begin, more)
        text[begin:end], _ = tasks.example(name, symbols, text[begin:end], int(rng.integers(near, far + 1)), rng, more)
    return text
