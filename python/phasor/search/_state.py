# SPDX-License-Identifier: Apache-2.0
"""The state file of a search: its settings and every loss so far, in order. A search that is begun again walks the same way and takes known losses from here."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

FORMAT = 1
Losses = list[tuple[list[Any], float]]  # the numbers of a candidate, its loss


def read(path: Path, settings: dict[str, Any]) -> Losses:
    """What an earlier run found; nothing where there was none."""
    if not path.exists():
        return []
    try:
        held = json.loads(path.read_text())
        version, before = held["phasor.search"], held["settings"]
        losses = [(list(numbers), float.fromhex(loss)) for numbers, loss in held["losses"]]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        raise ValueError(f"search: {path} is no state of a search, wanted one, or a path where there is no file") from None
    if version != FORMAT:
        raise ValueError(f"search: {path} is of version {version}, wanted {FORMAT}")
    _same(path, before, json.loads(json.dumps(settings)))
    return losses


def _same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """A state of other settings would mix two searches."""
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            raise ValueError(f"search: {path} is of a search with {name} {before.get(name)!r}, this one has {now.get(name)!r}; wanted the same, or another path")


def write(path: Path, settings: dict[str, Any], losses: Losses) -> None:
    """The whole file at once: who is killed leaves the file before or the file after."""
    text = json.dumps({"phasor.search": FORMAT, "settings": settings, "losses": [[numbers, loss.hex()] for numbers, loss in losses]})
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
