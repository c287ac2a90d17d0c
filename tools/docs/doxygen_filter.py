#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A header as Doxygen wants it: comments behind and before fields, which are plain in the sources, become Doxygen's. Argument: the file."""
import html
import re
import sys
from pathlib import Path

BEHIND = re.compile(r"^(\s.*(?:[;,{}]|\w))\s+// (?!NOLINT)(.*)$")
LINE = re.compile(r"^(\s*)// (?!----|NOLINT|SPDX)(.*)$")
C_BEHIND = re.compile(r"^(\s.*(?:[;,]|\w))\s+/\* (.*\*/)$")


def code(text):
    """`x` as Doxygen's code."""
    return re.sub(r"`([^`]+)`", lambda m: f"<tt>{html.escape(m[1], quote=False)}</tt>", text)


def cpp_line(line, inside):
    """`inside`: in the body of a struct, where a comment on a line of its own is about the field that follows."""
    line = re.sub(r"\s*// NOLINT.*$", "", line)
    if "///" in line:
        return line
    if match := BEHIND.match(line):
        return f"{match[1]}  ///< {match[2]}"
    if inside and (match := LINE.match(line)):
        return f"{match[1]}/// {match[2]}"
    return line


def c_text(text):
    """`/* ... */` before a declaration and behind a field; not the head of the file, nor the titles of sections.
    A struct and the typedef of its name are one thing, which Sphinx would show twice."""
    lines = [C_BEHIND.sub(r"\1 /**< \2", line) for line in text.split("\n")]
    text = re.sub(r"^typedef (struct (\w+) \{.*?^\}) \2;", r"\1;", "\n".join(lines), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\s*)/\* (?!----|SPDX)", r"\1/** ", text, flags=re.MULTILINE)
    return re.sub(r"/\*\*.*?\*/", lambda m: code(m[0]), text, flags=re.DOTALL)


def filtered(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h":
        return c_text(text)
    text = re.sub(r" = \[\] \{\n.*?\n\}\(\);", ";", text, flags=re.DOTALL)  # values by lambdas, which Sphinx cannot read
    text = text.split("// ---- Fields, as fields.hpp")[0]  # lists of fields, for the serialised form alone
    out, depth = [], 0
    for line in text.split("\n"):
        out.append(cpp_line(line, depth > 1))  # one brace is the namespace's
        bare = re.sub(r"//.*$", "", line)
        depth += bare.count("{") - bare.count("}")
    # Every header opens the namespace again, which Sphinx would call declared twice: names are shown without it.
    text = re.sub(r"^namespace (?:plan|detail) \{\n(?:(?:struct|class) \w+;\n)+\}.*\n", "", "\n".join(out), flags=re.MULTILINE)
    text = re.sub(r"///.*$", lambda m: code(m[0]), text, flags=re.MULTILINE)
    return re.sub(r"^(?:namespace phasor \{|\}  // namespace phasor)$", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1])))
