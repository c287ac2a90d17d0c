# SPDX-License-Identifier: Apache-2.0
"""Results on disk: one JSON file a run, written whole; which runs are done is what these files say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import phasor
from lab.encodings import file_name
from lab.presets import Preset

SCHEMA = 1
ROOT = Path(__file__).resolve().parents[1]


def path_of(results: Path, preset: Preset, encoding: str, seed: int) -> Path:
    return results / preset.name / file_name(encoding, seed)


def settings_of(preset: Preset) -> dict[str, Any]:
    """All numbers of a preset as a JSON file gives them back."""
    return json.loads(json.dumps(asdict(preset)))


def read(path: Path) -> dict[str, Any] | None:
    """A result; None where there is none. A file that is no result is an error."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise ValueError(f"{path}: schema {found['schema']}, wanted {SCHEMA}")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is no result of the lab ({error}), wanted one, or no file") from None
    return found


def is_done(path: Path, preset: Preset, data: str) -> bool:
    """Whether a run of these settings on these data is there, whatever the commit that made it."""
    found = read(path)
    return found is not None and deciding(found["settings"]) == deciding(settings_of(preset)) and found["data"] == data


def deciding(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that numbers depend on: caps only say what is left out."""
    return {key: value for key, value in settings.items() if key != "caps"}


def write(path: Path, result: dict[str, Any]) -> None:
    """The file before or the file after, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, separators=(",", ":"), allow_nan=False) + "\n")
    os.replace(part, path)


def commit() -> str:
    """Of the checkout, or what COMMIT says where there is no repository."""
    given = os.environ.get("COMMIT", "")
    if given:
        return given
    try:
        told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def versions() -> dict[str, str]:
    return {"python": sys.version.split()[0], "torch": torch.__version__, "numpy": np.__version__, "phasor": phasor.__version__}


def finite(value: Any) -> Any:
    """Numbers that are none become None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
