#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the stub of the compiled core of the Python that runs this: tools/python/python_stub.py OUT."""

import subprocess
import sys
from pathlib import Path


def main() -> None:
    out = Path(sys.argv[1])
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "phasor._core", "-o", str(out)], check=True)
    # nanobind calls a Python object that the core makes `object`, which nobody could use without a cast.
    head, rest = out.read_text().split("\n", 1)
    rest = rest.replace("-> object:", "-> Any:").replace("-> object |", "-> Any |").lstrip("\n")
    out.write_text(f"{head}\n\nfrom typing import Any\n\n{rest}")


if __name__ == "__main__":
    main()
