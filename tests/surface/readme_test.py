#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's examples are files of examples/, character for character, without their two heading comments. Argument: the repository."""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
snippets = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(encoding="ascii"), re.DOTALL)
for number, name in enumerate(("rotate.cpp", "read_model.cpp")):
    example = (root / "examples" / name).read_text(encoding="ascii")
    body = "".join(example.splitlines(keepends=True)[2:])
    assert snippets[number] == body, f"README.md shows\n{snippets[number]}\nexamples/{name} has\n{body}"
