# SPDX-License-Identifier: Apache-2.0
"""Packages of the distribution, fetched and read as they lie: nothing is installed or unpacked."""

from __future__ import annotations

import gzip
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import IO

File = tuple[str, Callable[[], str]]  # a path (without .gz), and what reads its text


def resolved(package: str, scratch: Path, versions: Mapping[str, str] | None = None) -> Path:
    """The .deb of a package, or of what it stands for (linux-source stands for linux-source-6.1 in one release), fetched if it is not in `scratch`; in
    the version that `versions` has for its name, while the archive has it."""
    scratch.mkdir(parents=True, exist_ok=True)
    lines = _output(["apt-cache", "depends", package], f"package {package} is not known: apt-get update?").splitlines()
    stands_for = [name for line in lines if "Depends:" in line and _versioned(package, name := line.split()[-1])]
    name = stands_for[0] if stands_for else package
    version = (versions or {}).get(name)
    pattern = f"{name}_{'*' if version is None else version.replace(':', '%3a') + '_*'}.deb"
    found = sorted(scratch.glob(pattern))
    if not found:
        wanted = name if version is None else f"{name}={version}"
        _output(["apt-get", "download", wanted], f"package {wanted} could not be fetched", scratch)
        found = sorted(scratch.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"package {name}: {len(found)} files {pattern} in {scratch}, wanted one")
    return found[0]


def _versioned(package: str, name: str) -> bool:
    """python3.11-doc is python3-doc of a version, as linux-source-6.1 is linux-source."""
    bare = "".join(character for character in name if not character.isdigit() and character != ".").rstrip("-")
    return bare == "".join(character for character in package if not character.isdigit()) and name != package


def _output(command: list[str], otherwise: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{otherwise} ({' '.join(command)}: {done.stderr.strip()})")
    return done.stdout


def members(deb: Path) -> Iterator[File]:
    """All files of a package; those of a source package's archive in its place. A file can be read until the next one is asked for."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as outer:
            for member in outer:
                if not member.isfile():
                    continue
                if member.name.endswith(".tar.xz"):
                    with tarfile.open(fileobj=_opened(outer, member), mode="r|xz") as inner:
                        yield from ((one.name, _reader(inner, one)) for one in inner if one.isfile())
                else:
                    yield member.name.removesuffix(".gz"), _reader(outer, member)


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member)
    assert file is not None  # it is a file
    return file


def _reader(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], str]:
    def read() -> str:
        data = _opened(archive, member).read()
        text = (gzip.decompress(data) if member.name.endswith(".gz") else data).decode(errors="replace").replace("\r\n", "\n")
        return plain(text) if member.name.endswith((".html", ".htm")) else text

    return read


class _Plain(HTMLParser):
    """The words of a page, a line for each block."""

    HIDDEN = {"script", "style", "head", "nav"}
    BLOCKS = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "dt", "dd", "table", "ul", "ol", "dl", "blockquote"}

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.hidden = self.literal = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in self.HIDDEN
        self.literal += tag == "pre"
        if tag in self.BLOCKS:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in self.HIDDEN and self.hidden > 0
        self.literal -= tag == "pre" and self.literal > 0
        if tag in self.BLOCKS:
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words.append(data if self.literal else re.sub(r"\s+", " ", data))


def plain(page: str) -> str:
    """An HTML page as text."""
    parser = _Plain()
    parser.feed(page)
    lines = [line.rstrip() for line in "".join(parser.words).splitlines()]
    return "\n".join(line for number, line in enumerate(lines) if line or (number and lines[number - 1])) + "\n"
