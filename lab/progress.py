# SPDX-License-Identifier: Apache-2.0
"""A progress bar: a line that is written over on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time

WIDTH = 40


class Progress:
    """Of so many steps in all; they may have parts."""

    def __init__(self, total: float) -> None:
        self.total, self.begun = total, time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.pause = 0.2 if self.terminal else 20.0
        self.shown = self.begun if not self.terminal else 0.0

    def show(self, done: float, what: str) -> None:
        now = time.monotonic()
        if now - self.shown < self.pause and done < self.total:
            return
        self.shown = now
        share = done / self.total
        left = f", {(now - self.begun) * (1 - share) / share:.0f} s left" if 0 < done < self.total else ""
        line = f"lab: [{'#' * round(WIDTH * share):{WIDTH}}] {share:4.0%} {now - self.begun:.0f} s{left}  {what}"
        print(f"\r\x1b[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Before anything else is told, which would stand behind the bar otherwise."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.shown = 0.0  # and the next one is shown at once

    def end(self) -> None:
        if self.terminal:
            print(file=sys.stderr)


class Stages:
    """Progress of work whose parts take very different times: `seconds` has how long each takes, about. They weigh the bar and nothing else."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.progress = seconds, Progress(sum(seconds.values()))

    def at(self, name: str, share: float = 0.0, what: str = "") -> None:
        """This part is done by a share; those before it are done."""
        names = list(self.seconds)
        before = sum(self.seconds[one] for one in names[: names.index(name)])
        self.progress.show(before + share * self.seconds[name], f"{name}{what and ': '}{what}")

    def end(self) -> None:
        self.progress.show(self.progress.total, "done")
        self.progress.end()
