#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the budgets of the code and marks what is over. Over budget needs a sentence in docs/design/building.md, so this never fails."""
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

FOLDERS = ["include", "src", "c", "figures", "cli", "python", "web", "bench", "fuzz", "examples", "lab", "tests", "tools"]
CODE = {".hpp", ".cpp", ".inl", ".cu", ".cuh", ".h", ".c"}
COUNTED = CODE | {".py", ".sh", ".js", ".html"}
CONTROL = {"if", "for", "while", "switch", "catch", "return", "alignas", "decltype", "noexcept", "requires", "constexpr", "sizeof"}
NOISE = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
NAME_AND_PAREN = re.compile(r"(~?[A-Za-z_]\w*|operator[^\w\s(]+)\s*\(")
# Between the parameters and the body: qualifiers, a return type, a constructor's initialisers.
HEAD_TAIL = re.compile(r"\s*(?:(?:const\b|noexcept\b|override\b|final\b|[A-Z][A-Z0-9_]+\b|&&?)\s*)*(?:->[^{};]+(?=\{))?")


class Function(NamedTuple):
    name: str
    line: int
    lines: int
    parameters: int


def blanked(text):
    """The text without strings, comments and preprocessor lines, everything else in its place."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def closing(text, start, pair):
    """The index of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return -1


def parameters_of(text):
    """How many parameters a list holds: commas outside of brackets."""
    depth = 0
    count = 1 if text.strip() else 0
    for c in text:
        depth += (c in "(<[{") - (c in ")>]}")
        count += c == "," and depth == 0
    return count


def body_after(text, i):
    """The index of the brace that opens the body of the function whose parameters end before i, or -1 for anything else."""
    i = HEAD_TAIL.match(text, i).end()
    if text[i : i + 1] != ":" or text[i : i + 2] == "::":
        return i if text[i : i + 1] == "{" else -1
    i += 1
    while True:  # name(value) or name{value}, then a comma or the body
        match = re.compile(r"\s*[\w:<>,\s]+?\s*([({])").match(text, i)
        if not match:
            return -1
        i = closing(text, match.start(1), "()" if match[1] == "(" else "{}") + 1
        rest = re.compile(r"\s*([,{])").match(text, i)
        if i == 0 or not rest:
            return -1
        if rest[1] == "{":
            return rest.start(1)
        i = rest.end()


def functions_of(text):
    """Every function defined in C++ text. Lambdas belong to the function around them."""
    text = blanked(text)
    found = []
    i = 0
    while match := NAME_AND_PAREN.search(text, i):
        i = match.end()
        close = closing(text, match.end() - 1, "()")
        if match[1] in CONTROL or close < 0:
            continue
        body = body_after(text, close + 1)
        if body < 0:
            continue
        end = closing(text, body, "{}")
        first = text.count("\n", 0, match.start()) + 1
        found.append(Function(match[1], first, text.count("\n", match.start(), end) + 1, parameters_of(text[match.end() : close])))
        i = end
    return found


def files_of(root):
    for folder in FOLDERS:
        yield from sorted(f for f in (root / folder).rglob("*") if f.suffix in COUNTED)


def text_of(file):
    return file.read_text(encoding="utf-8")


def line(what, value, limit, note=""):
    return f"  {'OVER ' if value > limit else 'ok   '} {what:<24} {value:>5} of {limit:<5} {note}".rstrip()


def size_lines(root, files):
    sizes = sorted(((len(text_of(f).splitlines()), f) for f in files), reverse=True)
    out = [line("file, lines", n, 400, f.relative_to(root)) for i, (n, f) in enumerate(sizes) if i < 3 or n > 400]
    functions = [(g, f) for f in files if f.suffix in CODE for g in functions_of(text_of(f))]
    functions.sort(key=lambda p: -p[0].lines)
    out += [line("function, lines", g.lines, 60, f"{g.name} {f.relative_to(root)}:{g.line}") for i, (g, f) in enumerate(functions) if i < 3 or g.lines > 60]
    if functions:
        # The median is over the library: tests are long by nature.
        library = [g.lines for g, f in functions if "tests" not in f.relative_to(root).parts] or [0]
        out.append(line("function, median lines", round(statistics.median(library)), 10, f"over {len(library)} functions"))
        functions.sort(key=lambda p: -p[0].parameters)
        out += [line("parameters", g.parameters, 5, f"{g.name} {f.relative_to(root)}:{g.line}") for i, (g, f) in enumerate(functions) if i < 1 or g.parameters > 5]
    headers = [(n, f) for n, f in sizes if f.relative_to(root).parts[0] == "include"]
    out += [line("public header, lines", n, 320, f.relative_to(root)) for i, (n, f) in enumerate(headers) if i < 1 or n > 320]
    return out


def folder_lines(root, files):
    """The fullest folders. Recorded data is no source."""
    counts = Counter(f.parent for f in files if f.relative_to(root).parts[:2] != ("tests", "golden"))
    return [line("folder, source files", n, 20, folder.relative_to(root)) for i, (folder, n) in enumerate(counts.most_common()) if i < 1 or n > 20]


def count_lines(root, files):
    library = [text_of(f) for f in files if f.suffix in CODE and f.relative_to(root).parts[0] not in ("tests", "bench", "fuzz")]
    cmake = "".join(text_of(f) for f in [root / "CMakeLists.txt", *sorted((root / "cmake").glob("*.cmake"))] if f.exists())
    macros = {m for t in library for m in re.findall(r"^\s*#\s*define\s+(PHASOR_\w+)", t, re.MULTILINE)}
    macros |= set(re.findall(r"DEFINITIONS[^)]*?\b(PHASOR_\w+)=", cmake))
    variables = {v for t in library for v in re.findall(r'getenv\(\s*"(\w+)"', t)}
    # A cached setting is an option by another name.
    tests = "".join(text_of(f) for f in sorted((root / "tests").rglob("*.cmake")))
    options = re.findall(r"^\s*(?:option\(|set\((?=PHASOR_\w+[^)]*\bCACHE\b))(\w+)", cmake + tests, re.MULTILINE)
    return [
        line("macros", len(macros), 6, " ".join(sorted(macros))),
        line("environment variables", len(variables), 1, " ".join(sorted(variables))),
        line("CMake options", len(options), 8, " ".join(options)),
    ]


def report(root):
    files = list(files_of(Path(root)))
    return ["budgets:", *size_lines(Path(root), files), *folder_lines(Path(root), files), *count_lines(Path(root), files)]


if __name__ == "__main__":
    print("\n".join(report(Path(__file__).parents[1] if len(sys.argv) < 2 else Path(sys.argv[1]))))
