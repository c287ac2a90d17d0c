# SPDX-License-Identifier: Apache-2.0
"""A training on disk: who is killed goes on from there, with the same bits."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch


@dataclass
class Checkpoint:
    """A file that is written every `seconds` or, if that is given, every `steps`; whole or not at all."""

    path: Path
    key: Any  # what the run is: a file of another one is not taken
    seconds: float = 60.0
    steps: int = 0
    _last: float = field(default_factory=time.monotonic)

    def due(self, step: int) -> bool:
        if self.steps:
            return step % self.steps == 0
        return time.monotonic() - self._last >= self.seconds

    def write(self, state: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with open(part, "wb") as file:
            torch.save({"key": self.key, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.path)
        self._last = time.monotonic()

    def read(self, device: torch.device) -> dict[str, Any] | None:
        """What was written by the same run; None where nothing was."""
        if not self.path.exists():
            return None
        state = torch.load(self.path, map_location=device, weights_only=True)
        if state["key"] != self.key:
            print(f"lab: {self.path.name} is of another run: begun anew", flush=True)
            return None
        return state

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
