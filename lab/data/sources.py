# SPDX-License-Identifier: Apache-2.0
"""Where the text comes from: packages that any Debian machine can fetch, whose files become documents.

A document is what the files of one folder, chapter or book say, one after the other in the order of their names: single files are mostly too short. What is
held out for measuring is whole folders and whole books; nothing of theirs is trained on.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.data.packages import members, resolved

KERNEL_FOLDERS = r"(?:fs|net|kernel|security)/[^/]+|drivers/(?:md|thermal|base|block|i2c|input)|sound/core|mm|lib|block|crypto"
KERNEL_CODE = rf"^[^/]*linux-source[^/]*/(?P<group>{KERNEL_FOLDERS})/.*\.[ch]$"


@dataclass(frozen=True)
class Source:
    """Some files of a package. `pattern` is searched in their paths; its group "group" names the document that a file belongs to."""

    package: str
    pattern: str
    kind: str  # prose, documentation or code
    share: int  # of training: so many thousands of characters, or all that there is
    group: str = ""  # the document's name where the pattern has no group of its own: all files are one book
    held: tuple[str, ...] = ()  # documents to measure with
    validation: tuple[str, ...] = ()


@dataclass
class Document:
    """Pieces are files: path and text."""

    name: str
    kind: str
    part: str  # train, validation or held
    source: int  # its number in SOURCES
    pieces: list[tuple[str, str]] = field(default_factory=list)


SOURCES = (
    Source("anarchism", r"markdown/(?P<group>sec[A-J]).*\.md$", "prose", 0, held=tuple(f"sec{letter}" for letter in "ABCDEFGHIJ")),
    Source("cfi-en", r"html/(ch|otto).*\.htm$", "prose", 3000, "Copyright does not exist"),
    Source("debian-handbook", r"html/en-US/.*\.html$", "prose", 3000, "handbook"),
    Source("jargon-text", r"jargon\.txt$", "prose", 3000, "jargon"),
    Source("c++-annotations-txt", r"cplusplus\.txt$", "prose", 3000, "annotations"),
    Source("debian-policy", r"/policy\.txt$", "prose", 0, "policy", validation=("policy",)),
    Source("developers-reference", r"\.txt$", "prose", 3000, "developers"),
    Source("debian-reference-en", r"debian-reference\.en\.txt$", "prose", 3000, "reference"),
    Source("git-doc", r"/(?P<group>git-doc/RelNotes|git-doc)/.*\.txt$", "documentation", 3000),
    Source("perl-doc", r"/(?P<group>[^/]+)\.pod$", "documentation", 6000),
    Source("python3-doc", r"_sources/(?P<group>[^/]+)/.*\.txt$", "documentation", 7400, held=("c-api",), validation=("howto",)),
    Source("postgresql-doc", r"/html/.*\.html$", "documentation", 6000, "postgresql"),
    Source(
        "linux-source",
        r"(?P<group>Documentation/(?!translations)[^/]+)/.*\.rst$",
        "documentation",
        10000,
        held=tuple(f"Documentation/{name}" for name in ("RCU", "core-api", "process", "scsi", "sound", "trace", "virt")),
        validation=("Documentation/filesystems",),
    ),
    Source(
        "linux-source",
        KERNEL_CODE,
        "code",
        12500,
        held=("fs/btrfs", "net/mac80211", "kernel/trace", "security/apparmor", "drivers/md", "fs/nfsd", "net/sctp", "sound/core", "drivers/thermal"),
        validation=("lib", "kernel/time"),
    ),
)


def documents(scratch: Path, of: Mapping[str, str] | None = None, told: Callable[[float, str], None] = lambda share, package: None) -> tuple[list[Document], dict[str, str]]:
    """All documents of SOURCES, and the versions of the packages (those in `of`, where it names them). Packages are fetched into `scratch` unless they lie
    there; nothing is installed. `told` hears of each package, and which share of them is done before it."""
    found: dict[tuple[int, str], Document] = {}
    versions: dict[str, str] = {}
    packages = list(dict.fromkeys(source.package for source in SOURCES))
    for place, package in enumerate(packages):
        told(place / len(packages), package)
        deb = resolved(package, scratch, of)
        name = deb.name.split("_")[0]
        versions[name] = subprocess.run(["dpkg-deb", "-f", str(deb), "Version"], check=True, capture_output=True, text=True).stdout.strip()
        wanted = [(number, source, re.compile(source.pattern)) for number, source in enumerate(SOURCES) if source.package == package]
        for path, read in members(deb):
            for number, source, pattern in wanted:
                if match := pattern.search(path):
                    group = match.groupdict().get("group") or source.group
                    one = found.setdefault((number, group), Document(f"{name}: {group}", source.kind, _part(source, group), number))
                    one.pieces.append((path, read()))
    for one in found.values():
        one.pieces.sort()
    _check(found)
    return [found[key] for key in sorted(found)], versions


def _part(source: Source, group: str) -> str:
    return "held" if group in source.held else "validation" if group in source.validation else "train"


def _check(found: dict[tuple[int, str], Document]) -> None:
    """A package of another release may have other folders: what is asked for must be there."""
    for number, source in enumerate(SOURCES):
        groups = {group for of, group in found if of == number}
        missing = {*source.held, *source.validation} - groups
        if missing or not groups:
            wanted = ", ".join(sorted(missing)) or "no file"
            raise ValueError(f"package {source.package}: {wanted} not found by {source.pattern!r}; found {len(groups)} documents")
