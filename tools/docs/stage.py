#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays out what Sphinx reads: docs/ as it is, and the pages of encodings made from docs/encodings/*.toml by one template.
tools/docs/stage.py FOLDER. Figures and tables of numbers, which need the library, are tools/docs/figures.py and tables.py."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
import encodings_pages  # noqa: E402

COPIED = {".md", ".svg", ".png"}
# A link to a file of the repository that is no page of the site is shown as its path.
OUTSIDE = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s]+)\)")


def linked(text, page):
    """The text of a page of docs/ with links that lead out of docs/ made plain."""

    def plain(match):
        target = (page.parent / match[2].split("#")[0]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return match[0]
        return f"{match[1]} (`{target.relative_to(ROOT)}`)"

    text = OUTSIDE.sub(plain, text)
    return re.sub(r"\n\n```$", "\n```", text, flags=re.MULTILINE)  # the empty line that ends a doctest


def write(path, text):
    """Writes what changed, so that Sphinx reads again only that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != text:
        path.write_bytes(text)


def stage(folder):
    """All pages; returns the paths of those that are there now, below `folder`."""
    pages = {}
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.suffix in COPIED and file.is_file():
            text = file.read_bytes()
            if file.suffix == ".md":
                text = linked(text.decode(), file).encode()
            pages[file.relative_to(ROOT / "docs")] = text
    for name, text in encodings_pages.pages(ROOT / "docs").items():
        pages[Path(name)] = text.encode()
    for name, text in pages.items():
        write(folder / name, text)
    for old in sorted(folder.rglob("*.md")):
        if old.relative_to(folder) not in pages and old.relative_to(folder).parts[0] != "made":
            old.unlink()
    return sorted(name for name in pages if name.suffix == ".md")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    print(f"docs: {len(stage(target))} pages in {target}")
