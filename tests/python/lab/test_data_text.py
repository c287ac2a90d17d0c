# SPDX-License-Identifier: Apache-2.0
"""From packages to documents: what is read, what becomes training text, what is left out because held-out text has it, too."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab import progress  # noqa: E402
from lab.data import build, overlap, packages, sources, tokens  # noqa: E402
from lab.data.sources import Document, Source  # noqa: E402


def package(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    """A .deb of some files."""
    root = folder / f"root-{name}"
    control = f"Package: {name}\nVersion: 1.2-3\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: files\n"
    for path, data in {**files, "DEBIAN/control": control.encode()}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    deb = folder / f"{name}_1.2-3_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(root), str(deb)], check=True, capture_output=True)
    return deb


def archive(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def test_a_package_s_files_are_read_as_text(tmp_path: Path) -> None:
    files = {
        "usr/share/doc/a.txt.gz": gzip.compress(b"one\r\ntwo\n"),
        "usr/share/doc/b.html": b"<html><head><title>no</title></head><body><h1>A  head</h1><p>some <b>words</b>\nhere<pre>a\n  b</pre></body></html>",
        "usr/src/linux.tar.xz": archive({"linux/fs/x/y.c": b"int x;\n", "linux/z.bad": b"\xff\n"}),
    }
    found = {path.removeprefix("./"): read() for path, read in packages.members(package(tmp_path, "some", files))}
    assert found == {
        "usr/share/doc/a.txt": "one\ntwo\n",
        "usr/share/doc/b.html": "A head\n\nsome words here\na\n  b\n",
        "linux/fs/x/y.c": "int x;\n",
        "linux/z.bad": "\N{REPLACEMENT CHARACTER}\n",
    }


def test_packages_come_in_the_versions_of_a_store_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def output(command: list[str], otherwise: str, folder: Path | None = None) -> str:
        asked.append(command[-1])
        if command[0] == "apt-get":
            assert folder is not None
            (folder / (command[-1].replace("=", "_").replace(":", "%3a") + ("" if "=" in command[-1] else "_3") + "_all.deb")).touch()
        return "some\n  Depends: other\n"

    monkeypatch.setattr(packages, "_output", output)
    assert packages.resolved("some", tmp_path).name == "some_3_all.deb"
    assert packages.resolved("some", tmp_path, {"some": "1:2-4"}).name == "some_1%3a2-4_all.deb"
    assert packages.resolved("some", tmp_path, {"some": "1:2-4"}).name == "some_1%3a2-4_all.deb"  # it is there
    assert asked == ["some", "some", "some", "some=1:2-4", "some"]
    with pytest.raises(ValueError, match=r"package some: 2 files some_\*\.deb in .*, wanted one"):
        packages.resolved("some", tmp_path)


def test_documents_are_folders_and_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"usr/doc/{folder}/{number}.txt": f"{folder} {number}\n".encode() for folder in "xyz" for number in (2, 1)}
    deb = package(tmp_path, "some", files)
    monkeypatch.setattr(sources, "resolved", lambda name, scratch, of: deb)
    monkeypatch.setattr(sources, "SOURCES", (Source("some", r"doc/(?P<group>.)/.*txt", "prose", 1, held=("y",), validation=("z",)),))
    found, versions = sources.documents(tmp_path)
    assert versions == {"some": "1.2-3"}
    assert [(one.name, one.part, [text for _, text in one.pieces]) for one in found] == [
        ("some: x", "train", ["x 1\n", "x 2\n"]),
        ("some: y", "held", ["y 1\n", "y 2\n"]),
        ("some: z", "validation", ["z 1\n", "z 2\n"]),
    ]
    monkeypatch.setattr(sources, "SOURCES", (Source("some", r"doc/(?P<group>.)/.*txt", "prose", 1, held=("w",)),))
    with pytest.raises(ValueError, match=r"package some: w not found by .*; found 3 documents"):
        sources.documents(tmp_path)


def test_no_source_gives_a_document_to_two_parts() -> None:
    for source in sources.SOURCES:
        assert not set(source.held) & set(source.validation)
        assert source.kind in build.KINDS


def test_names_of_packages_that_stand_for_others() -> None:
    assert packages._versioned("linux-source", "linux-source-6.1") and packages._versioned("python3-doc", "python3.11-doc")
    assert packages._versioned("postgresql-doc", "postgresql-doc-15") and not packages._versioned("git-doc", "git-man")
    assert not packages._versioned("perl-doc", "perl-doc")


def test_training_takes_so_much_of_a_source_whatever_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SOURCES", (Source("some", "", "prose", 5), Source("other", "", "code", 100)))
    first = Document("a", "prose", "train", 0, [(f"a/{number}", "x" * 500) for number in range(30)])
    second = Document("b", "code", "train", 1, [("b/1", "y" * 700)])
    taken = build.chosen([first, second])
    assert [piece.path for piece in taken] == [piece.path for piece in build.chosen([second, first])]
    assert sum(len(piece.text) for piece in taken if piece.document is first) == 5000
    assert [piece.path for piece in taken if piece.document is second] == ["b/1"]
    assert [piece.path for piece in taken] == sorted(piece.path for piece in taken)


def test_documents_have_a_mark_before_them_and_files_have_not() -> None:
    made = build.stream([("a", np.array([1, 2])), ("a", np.array([3])), ("b", np.array([4]))], np.array([9]))
    assert made.tolist() == [9, 1, 2, 3, 9, 4]


def test_held_out_documents_are_a_mixture_from_the_first_on() -> None:
    kinds = ["code"] * 3 + ["prose"] * 2 + ["documentation"]
    held = [(Document(str(number), kind, "held", 0), np.zeros(1)) for number, kind in enumerate(kinds)]
    assert [one.kind for one, _ in build.in_turn(held)] == ["prose", "documentation", "code", "prose", "code", "code"]


def test_shared_runs_are_found_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    held, train = rng.integers(0, 8192, 5000), rng.integers(0, 8192, 20_000)
    assert overlap.shared(train, overlap.known([held])) == 0
    train[777:1277] = held[4000:4500]
    pairs = {tuple(held[at : at + 50]) for at in range(5000 - 49)}
    wanted = np.mean([tuple(train[at : at + 50]) in pairs for at in range(20_000 - 49)])
    assert overlap.shared(train, overlap.known([held])) == wanted > 0.02
    assert overlap.shared(train[:49], overlap.known([held])) == 0


def test_tokens_are_of_bytes_and_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "VOCABULARY", 300)
    texts = [f"the {word} of the \t{number}\n" for number, word in enumerate(("house", "hour", "home") * 20)]
    made = tokens.learned(texts)
    assert made.to_str() == tokens.learned(texts).to_str()
    for text in (*texts, "naïve \x00 漢字 \n\n"):
        (ids,) = tokens.encoded(made, [text])
        assert made.decode(ids.tolist(), skip_special_tokens=False) == text
    monkeypatch.setattr(tokens, "VOCABULARY", 5000)
    with pytest.raises(ValueError, match=r"tokens: the text gives \d+ of them, wanted 5000"):
        tokens.learned(texts)


def test_a_whole_build_repeats_and_leaves_out_what_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, rng.integers(2, 9))) for _ in range(400)]
    texts = {name: " ".join(rng.choice(words, 1500)) for name in ("t/1", "t/2", "h/1", "h/2", "v/1")}
    texts["t/copy"] = texts["h/1"][500:4500]
    deb = package(tmp_path, "some", {f"doc/{name}.txt": text.encode() for name, text in texts.items()})
    monkeypatch.setattr(sources, "resolved", lambda name, scratch, of: deb)
    one = Source("some", r"doc/(?P<group>.)/.*txt", "prose", 99, held=("h",), validation=("v",))
    for module in (sources, build):
        monkeypatch.setattr(module, "SOURCES", (one,))
    monkeypatch.setattr(tokens, "VOCABULARY", 400)
    monkeypatch.setattr(build, "HELD_TOKENS", 2001)
    monkeypatch.setattr(build, "LANGUAGE_TRAIN", (2, 65))
    monkeypatch.setattr(build, "LANGUAGE_HELD", (2, 65))
    shown: list[tuple[float, str]] = []
    monkeypatch.setattr(progress.Progress, "show", lambda bar, done, what: shown.append((done / bar.total, what)))
    for folder in ("first", "second"):
        shown.clear()
        build.main(["--out", str(tmp_path / folder), "--packages", str(tmp_path)])
    first, second = (build.Store.open(tmp_path / folder) for folder in ("first", "second"))
    assert [what for _, what in shown] == ["packages: some", *list(build.STAGES)[1:], "done"]
    shares = [share for share, _ in shown]
    assert shares[0] == 0 and shares[-1] == 1 and all(one < other for one, other in zip(shares, shares[1:]))
    assert first.hash == second.hash
    assert first.manifest["dropped"] == {"files": 1, "of": 3}
    assert first.long_documents(2000, 1).shape == (1, 2001)
    assert [line["in_training"] for line in first.manifest["held"]] == [0.0]
    assert (first.parts.train == first.symbols.word("document")).sum() == 1
    like = ["--packages", str(tmp_path), "--like", str(tmp_path / "first" / "manifest.json")]
    build.main(["--out", str(tmp_path / "third"), *like])
    assert build.Store.open(tmp_path / "third").hash == first.hash
    monkeypatch.setattr(build, "HELD_TOKENS", 1901)  # as another tokenizer or other text would
    monkeypatch.setattr(build.tokenizers, "__version__", "0.0")
    with pytest.raises(SystemExit, match=r"is not the store of .*first/manifest.json: hash \w{12}, wanted \w{12}; made with tokenizers 0.0, wanted .*; other files: held.bin"):
        build.main(["--out", str(tmp_path / "fourth"), *like, "--record"])
