#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Patches a tiny model of every architecture of the installed transformers and writes what came of it into docs/hf.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from hf_zoo.table import DOCUMENT, outcomes, table, with_table  # noqa: E402


def main() -> None:
    rows, before = outcomes(), DOCUMENT.read_text()
    made = table(rows, before)
    DOCUMENT.write_text(with_table(before, made))
    print(made.splitlines()[0])
    slow = [row["model_type"] for row in rows if row["too_slow"]]
    if slow:
        print("bfloat16 takes this processor too long for these, whose results are left as they were:", ", ".join(slow))


main()
