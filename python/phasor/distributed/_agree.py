# SPDX-License-Identifier: Apache-2.0
"""Before tensors move ranks compare hashes of what they were asked for, so that every rank gives the same error, and none waits for another.

A rank whose own arguments are wrong still takes part, and sends its error in the place of its arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from phasor.distributed._exchange import all_gathered
from phasor.distributed._group import Group

__all__ = ["Facts", "agree"]

Facts = dict[str, str]  # what must be the same on every rank, by name
_KINDS: dict[str, type[Exception]] = {kind.__name__: kind for kind in (ValueError, TypeError, NotImplementedError)}
_HASH = 4  # words


def _texts(group: Group, text: bytes, lengths: list[int]) -> list[str]:
    row = torch.zeros(max(lengths), dtype=torch.uint8)
    row[: len(text)] = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
    return [bytes(x[:n].tolist()).decode() for x, n in zip(all_gathered(group, row), lengths)]


def _raise_first_error(group: Group, texts: list[str], failed: list[bool]) -> None:
    for rank, text in enumerate(texts):
        if failed[rank]:
            kind, message = text.split("\n", 1)
            raise _KINDS.get(kind, RuntimeError)(f"{group.where}: rank {rank}: {message.removeprefix(group.where + ': ')}")


def _raise_difference(group: Group, texts: list[str]) -> None:
    read = [dict(line.split("\t", 1) for line in text.split("\n")) for text in texts]
    for name in dict.fromkeys(name for facts in read for name in facts):
        for rank, facts in enumerate(read[1:], 1):
            first, here = read[0].get(name, "none"), facts.get(name, "none")
            if first != here:
                raise ValueError(f"{group.where}: rank 0 has {name} {first}, rank {rank} has {here}, wanted the same on every rank")


def agree(group: Group, made: Callable[[], tuple[Facts, list[int], Any]], counted: int) -> tuple[list[list[int]], Any]:
    """`made` checks the arguments of this rank and gives what all must have alike, `counted` numbers that ranks may have of their own, and anything.

    Returns the numbers of every rank, and that.
    """
    rest: Any = None
    error: Exception | None = None
    numbers = [0] * counted
    try:
        facts, numbers, rest = made()
        text = "\n".join(f"{name}\t{value}" for name, value in facts.items()).encode()
    except (ValueError, TypeError, NotImplementedError, RuntimeError, IndexError) as caught:
        error = caught
        text = f"{type(caught).__name__}\n{caught}".encode()
    words = np.frombuffer(hashlib.sha256(text).digest(), np.int64)
    row = torch.tensor([int(error is not None), len(text), *words.tolist(), *numbers], dtype=torch.int64)
    rows = all_gathered(group, row).tolist()
    failed, lengths = [bool(x[0]) for x in rows], [x[1] for x in rows]
    if any(failed) or any(x[2 : 2 + _HASH] != rows[0][2 : 2 + _HASH] for x in rows):
        texts = _texts(group, text, lengths)
        try:
            _raise_first_error(group, texts, failed)
        except Exception as told:
            raise told from error
        _raise_difference(group, texts)
    return [x[2 + _HASH :] for x in rows], rest
