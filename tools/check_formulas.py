#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a formula (a call of sin, cos, exp, pow or sqrt) appears outside src/math, src/plan and src/analysis."""
import re
import sys
from pathlib import Path

FOLDERS = ["src/spec", "src/job", "src/cpu", "src/ops", "c", "figures", "cli", "python", "web"]
C_LIKE = {".hpp", ".cpp", ".inl", ".cu", ".cuh", ".h", ".c", ".js", ".mjs", ".ts", ".html"}
FORMULA = re.compile(r"\b(sin|cos|exp|pow|sqrt)f?\(")
# Strings come first so that a comment marker inside one is not taken for a comment; they stay, comments go.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>//[^\n]*|/\*.*?\*/|<!--.*?-->)', re.DOTALL)
PYTHON_TOKEN = re.compile(r'(?P<comment>""".*?"""|\#[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)  # docstrings explain, as comments do


def without_comments(text, suffix):
    """The text with comments blanked, line numbers kept."""

    def blank(match):
        return match[0] if match["comment"] is None else re.sub(r"[^\n]", " ", match[0])

    # A digit separator (1'000) is no character literal.
    text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text) if suffix in C_LIKE else text
    return (C_TOKEN if suffix in C_LIKE else PYTHON_TOKEN).sub(blank, text)


def violations(root):
    root = Path(root)
    found = []
    for folder in FOLDERS:
        for file in sorted(f for f in (root / folder).rglob("*") if f.suffix in C_LIKE | {".py"}):
            lines = without_comments(file.read_text(encoding="utf-8"), file.suffix).splitlines()
            for number, line in enumerate(lines, 1):
                match = FORMULA.search(line)
                if match:
                    found.append(f"{file.relative_to(root)}:{number}: calls {match[0]}), wanted in src/math, src/plan or src/analysis only")
    return found


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = violations(root)
    print("\n".join(found) if found else "formulas: only where they belong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
