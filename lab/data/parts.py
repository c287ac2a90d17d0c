# SPDX-License-Identifier: Apache-2.0
"""What a store holds in memory and on disk, and its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.data import language

DRAWN = 2  # the version of what lab.data.mixture and lab.data.tasks draw: results of different batches are never averaged
# On disk: one file each, little endian.
ARRAYS = {
    "train": "<u2",  # (tokens): documents of text one after the other, the symbol "document" before each
    "validation": "<u2",  # (tokens): the same, of other documents
    "held": "<u2",  # (documents, tokens): the long ones, all of one length
    "language_train": "u1",  # (documents, tokens): of the generated language, in its own ids
    "language_held": "u1",
    "surprisal": "<f4",  # of each token of language_held
    "part": "u1",
}


@dataclass(frozen=True)
class Parts:
    """The arrays as ARRAYS says."""

    text_vocabulary: int
    train: np.ndarray
    validation: np.ndarray
    held: np.ndarray
    language_train: np.ndarray
    language_held: np.ndarray
    surprisal: np.ndarray
    part: np.ndarray

    def files(self) -> dict[str, bytes]:
        """By name, as they lie on disk."""
        return {f"{name}.bin": np.ascontiguousarray(getattr(self, name), kind).tobytes() for name, kind in ARRAYS.items()}

    def shapes(self) -> dict[str, list[int]]:
        return {name: list(getattr(self, name).shape) for name in ARRAYS}


def language_arrays(train: tuple[int, int], held: tuple[int, int], near: int) -> dict[str, np.ndarray]:
    """Documents of the generated language (how many, how long) to train on, and others to measure with."""
    seen = language.documents(*train, seed=(1,), near=near)
    unseen = language.documents(*held, seed=(1_000_001,), near=near)
    return {
        "language_train": seen.tokens.astype("u1"),
        "language_held": unseen.tokens.astype("u1"),
        "surprisal": unseen.surprisal.astype("<f4"),
        "part": unseen.part.astype("u1"),
    }


def hash_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """One hash of all files, of their names and hashes in order, and of how batches are drawn from them."""
    lines = "".join(f"{files[name]['sha256']}  {name}\n" for name in sorted(files))
    return hashlib.sha256(f"{lines}batches {DRAWN}\n".encode()).hexdigest()
