# SPDX-License-Identifier: Apache-2.0
"""Finds the snippets of README.md and of every page of the site, those of encodings included, and makes programs of them.

The rules:
- ```cpp and ```c: with a `main` it is a program, compiled, linked and run. Without one it is a fragment, put into a function of its own;
  it may use what prelude.hpp and prelude.h beside this file declare. Lines that begin with #include go to the top.
- A `phasor::Status status` that a fragment of C++ makes must be good at its end.
- A fragment that defines functions itself (it begins with `void` or the like and ends in a brace) is put into a namespace instead.
- ```python: the blocks of a page run one after the other in one namespace, which begins with preludes/PAGE.py, where there is one.
- ```pycon: the blocks of a page are one doctest. Pages that tests/python/package/test_doctest.py runs already are left to it.
- ```console: lines that begin with `$ phasor` are run by the tool; what follows is what it prints.
- ```json: a spec, on the page whose specs tests/python/test_serialised.py reads and writes.
- ```text, ```cmake and fences without a language are no code that runs here; how many there are is counted.
- `<!-- snippet: compiled only (why) -->` on the line before a ```python block: it is compiled, not run; these are counted too.
"""
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "docs"))
import stage  # noqa: E402

RUN = {"cpp", "c", "python", "pycon", "console", "json"}
NOT_RUN = {"", "text", "cmake"}
BLOCK = re.compile(r"^(<!-- snippet: compiled only \([^)]+\) -->\n)?```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


CHECK = "if (!status.ok()) { std::puts(status.message().c_str()); std::exit(1); }\n"


class Snippet(NamedTuple):
    page: str
    line: int
    language: str
    code: str
    compiled_only: bool

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def snippets_of(page, text):
    found = []
    for match in BLOCK.finditer(text):
        if match[2].startswith("{"):  # a directive of the site
            continue
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Snippet(page, line, match[2].strip(), match[3], bool(match[1])))
    return found


def all_snippets(folder):
    """Of every page; `folder` is where the pages are laid out."""
    found = snippets_of("README.md", (ROOT / "README.md").read_text(encoding="utf-8"))
    for page in stage.stage(folder):
        found += snippets_of(str(page), (folder / page).read_text(encoding="utf-8"))
    unknown = [f"{s.place}: {s.language}" for s in found if s.language not in RUN | NOT_RUN]
    assert not unknown, f"fences of an unknown language: {unknown}"
    return found


def is_program(code):
    return re.search(r"^int main\(", code, re.MULTILINE) is not None


def is_definition(code):
    return re.match(r"\s*(?:void|[\w:]+) \w+\([^;]*\) \{\n.*\n\}\s*$", code, re.DOTALL) is not None


def fragments_file(snippets, prelude):
    """One file for all fragments of a language: each in a function or namespace of its own, with #line of its page."""
    includes, bodies = [f'#include "{prelude}"'], []
    for number, snippet in enumerate(snippets):
        lines = snippet.code.splitlines()
        includes += [line for line in lines if line.startswith("#include")]
        body = "\n".join("" if line.startswith("#include") else line for line in lines)
        where = f'#line {snippet.line + 1} "{snippet.page}"'
        if snippet.language == "cpp" and is_definition(snippet.code):
            bodies.append(f"namespace snippet_{number} {{\n{where}\n{body}\n}}")
        else:
            good = CHECK if "phasor::Status status" in body else ""
            bodies.append(f"void snippet_{number}(void);\nvoid snippet_{number}(void) {{\n{where}\n{body}\n{good}}}")
    calls = "".join(f"  snippet_{n}();\n" for n, s in enumerate(snippets) if not (s.language == "cpp" and is_definition(s.code)))
    main = "int main(void) {\n" + calls + "  return 0;\n}"
    return "\n".join(dict.fromkeys(includes)) + "\n" + "\n".join(bodies) + "\n" + main + "\n"
