# SPDX-License-Identifier: Apache-2.0
"""A progress bar on stderr, for those who ask: one line that is written over on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Shown = Callable[[int, int, float], None]  # evaluations done, at most so many, the least loss
_WIDTH = 30


class _Bar:
    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = 0.0

    def __call__(self, done: int, total: int, least: float) -> None:
        now = time.monotonic()
        if done < total and now - self._shown < (0.2 if self._terminal else 20.0):
            return
        self._shown = now
        line = f"search: [{'#' * round(_WIDTH * done / total):{_WIDTH}}] {done} of {total}, least loss {least:.6g}"
        print(f"\r\x1b[K{line}" if self._terminal else line, end="\n" if done == total or not self._terminal else "", file=sys.stderr, flush=True)


def shown_by(progress: bool | Shown) -> Shown:
    """What is called after every evaluation."""
    if callable(progress):
        return progress
    return _Bar() if progress else lambda done, total, least: None
