# SPDX-License-Identifier: Apache-2.0
"""The core with CUDA kernels, where the distribution phasor-cuda13 is installed: it takes the place of the one without.

That distribution holds one file, the same extension module built with CUDA: two wheels cannot share a name and a tag. It is taken if its
version is ours; if it cannot be, the core without CUDA does its work, and the first call with memory on a GPU says why.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

VERSION = "0.1.0"  # of phasor, known before any core is loaded
BESIDE = "phasor_cuda13"
_NAME = "phasor._core"


def _core_file(folder: Path) -> Path | None:
    """The extension module in a folder that this Python can load."""
    files = (folder / f"_core{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((file for file in files if file.exists()), None)


def _load(file: Path) -> None:
    """Loads the module under the name of our own core."""
    spec = importlib.util.spec_from_file_location(_NAME, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_NAME] = module
    sys.modules["phasor"]._core = module  # type: ignore[attr-defined]


def take() -> str:
    """Takes the core beside us if there is one; why not, if it is there and cannot be taken."""
    found = importlib.util.find_spec(BESIDE)
    if found is None or found.origin is None:
        return ""
    beside = importlib.import_module(BESIDE)
    if beside.VERSION != VERSION:
        return f"phasor-cuda13 is of version {beside.VERSION} and phasor of {VERSION}, wanted one version of both"
    file = _core_file(Path(found.origin).parent)
    if file is None:
        return f"phasor-cuda13 has no module for this Python in {Path(found.origin).parent}"
    try:
        _load(file)
    except ImportError as error:
        return f"phasor-cuda13 cannot be loaded: {error}"
    return ""
