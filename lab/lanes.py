# SPDX-License-Identifier: Apache-2.0
"""Several runs side by side on one GPU: a model of this size does not fill it. Each lane is a process with the same queue; whoever claims a run first
has it. Numbers do not depend on it, times do: runs say how many lanes there were, and prices are measured apart (`lab.prices`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from lab.presets import Caps, Preset


@dataclass(frozen=True)
class Claims:
    """Which runs are taken, as files of a folder that lives as long as the lanes; without a folder there is nobody else."""

    folder: Path | None = None

    def take(self, name: str) -> bool:
        """Whether it is ours now."""
        if self.folder is None:
            return True
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True


def with_caps_for(preset: Preset, lanes: int) -> Preset:
    """What is too slow alone is too slow in a lane, and nothing else: everything takes so many times as long there, at most."""
    caps = preset.caps
    return replace(preset, caps=Caps(lanes * caps.training, lanes * caps.measuring, lanes * caps.section))


def _ended(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def run(words: Sequence[str], lanes: int) -> int:
    """`python -m lab run WORDS` in so many processes; they end with this one."""
    signal.signal(signal.SIGTERM, _ended)
    with tempfile.TemporaryDirectory(prefix="lab-claims-") as claims:
        command = [sys.executable, "-m", "lab", "run", *words, "--lanes", str(lanes), "--claims", claims]
        processes = [subprocess.Popen(command) for _ in range(lanes)]
        try:
            codes = [process.wait() for process in processes]
            return max(1, *codes) if any(codes) else 0  # one that a signal ended has a code below 0
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
            for process in processes:
                process.wait()
