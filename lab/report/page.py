# SPDX-License-Identifier: Apache-2.0
"""The page: what stands between its markers is made here, what stands around them is written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

BEGIN = re.compile(r"^<!-- made by python -m lab report: (?P<name>[a-z0-9 ]+(?:: [a-z ]+)?) -->$", re.MULTILINE)
END = "<!-- end -->"


def filled(text: str, sections: Mapping[str, Callable[[], list[str]]]) -> str:
    """The page with every section made again. One that nobody makes is an error, and so is one that is missing, of the folder that is shown or of one by
    its name ("second: retrieval")."""
    names = [match["name"] for match in BEGIN.finditer(text)]
    for name in names:
        if name not in sections or names.count(name) > 1:
            raise ValueError(f"docs/lab.md: the section {name!r} stands there {names.count(name)} times, wanted once each of {', '.join(sections)}")
    there = {name.split(": ")[-1] for name in names}
    missing = [name for name in sections if name.split(": ")[-1] not in there]
    if missing:
        raise ValueError(f"docs/lab.md: no marker '<!-- made by python -m lab report: {missing[0]} -->'")
    made, at = [], 0
    for match in BEGIN.finditer(text):
        end = text.find(END, match.end())
        if end < 0 or BEGIN.search(text, match.end(), end):
            raise ValueError(f"docs/lab.md: the section {match['name']!r} has no {END} of its own")
        lines = "\n".join(sections[match["name"]]()).strip("\n")
        made += [text[at : match.end()], "\n\n", lines, "\n\n"]
        at = end
    return "".join([*made, text[at:]])


def outside(text: str) -> str:
    """What is written by hand: the page without what is between markers, and without blocks of commands."""
    pieces, at = [], 0
    for match in BEGIN.finditer(text):
        pieces.append(text[at : match.start()])
        at = text.index(END, match.end()) + len(END)
    return re.sub(r"^```.*?^```", "", "".join([*pieces, text[at:]]), flags=re.MULTILINE | re.DOTALL)
