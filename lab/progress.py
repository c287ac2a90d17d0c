# SPDX-License-Identifier: Apache-2.0
"""A progress bar: a line that is written over on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time

WIDTH = 40


class Progress:
    """Of so many steps in all."""

    def __init__(self, total: int) -> None:
        self.total, self.begun = total, time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.pause = 0.2 if self.terminal else 20.0
        self.shown = self.begun if not self.terminal else 0.0

    def show(self, done: int, what: str) -> None:
        now = time.monotonic()
        if now - self.shown < self.pause and done < self.total:
            return
        self.shown = now
        share = done / self.total
        left = f", {(now - self.begun) * (1 - share) / share:.0f} s left" if 0 < done < self.total else ""
        line = f"lab: [{'#' * round(WIDTH * share):{WIDTH}}] {share:4.0%} {now - self.begun:.0f} s{left}  {what}"
        print(f"\r\x1b[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.terminal:
            print(file=sys.stderr)
