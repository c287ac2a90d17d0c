#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's example is examples/rotate.cpp, character for character, without its two heading comments. Argument: the repository."""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
snippets = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(encoding="ascii"), re.DOTALL)
example = (root / "examples" / "rotate.cpp").read_text(encoding="ascii")
body = "".join(example.splitlines(keepends=True)[2:])
assert snippets and snippets[0] == body, f"README.md shows\n{snippets[:1]}\nexamples/rotate.cpp has\n{body}"
