# SPDX-License-Identifier: Apache-2.0
"""python -m phasor: the command-line tool that the wheel brings along."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path


def tool() -> Path:
    """Where pip has put it, which depends on how phasor was installed."""
    for file in importlib.metadata.distribution("phasor").files or ():
        if file.name == "phasor" and file.parent.name == "bin":
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError("phasor: this installation has no command-line tool, wanted one from a wheel")


def main() -> None:
    """The tool takes this process over, and knows which Python can draw for it."""
    program = str(tool())
    os.environ["PHASOR_PYTHON"] = sys.executable
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    try:
        main()
    except (FileNotFoundError, importlib.metadata.PackageNotFoundError) as error:
        sys.exit(f"{error}")
