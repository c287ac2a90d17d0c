#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Patches a tiny model of every architecture of the installed transformers and writes what came of it into docs/hf.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from hf_zoo.table import DOCUMENT, outcomes, table, with_table  # noqa: E402


def main() -> None:
    made = table(outcomes())
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(), made))
    print(made.splitlines()[0])


main()
