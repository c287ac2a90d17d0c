# SPDX-License-Identifier: Apache-2.0
"""Makes a store: fetches packages, makes documents of their files, learns tokens, drops what training shares with held-out text, writes all with its hash."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from lab.data import overlap, tokens
from lab.data.parts import Parts, hash_of, language_arrays
from lab.data.sources import SOURCES, Document, documents
from lab.data.store import FORMAT, Store
from lab.data.symbols import Symbols
from lab.progress import Stages

HELD_TOKENS = 64 * 1024 + 1  # of each held-out document: 64 times the greater of the lengths that models are trained at
VALIDATION_TOKENS = 150_000  # of each document at most
LANGUAGE_TRAIN, LANGUAGE_HELD, NEAR = (2048, 1025), (16, 64 * 512 + 1), 512
TOO_MUCH = 0.1  # a training file that shares more of its runs than this with held-out text is left out
RECORDS = Path(__file__).resolve().parent / "stores"
KINDS = ("prose", "documentation", "code")
Text = tuple[Document, np.ndarray]  # and its tokens
STAGES = {"packages": 60.0, "tokens are learned": 20.0, "text becomes tokens": 10.0, "long documents": 10.0, "what is shared": 25.0, "the generated language": 15.0}  # seconds, about


@dataclass
class Piece:
    """A file of training text."""

    document: Document
    path: str
    text: str
    tokens: np.ndarray


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab data", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/lab/data"), help="folder of the store (default out/lab/data)")
    parser.add_argument("--packages", type=Path, default=Path("out/lab/packages"), help="folder of the .deb files, fetched unless there")
    parser.add_argument("--like", type=Path, metavar="MANIFEST", help="packages in the versions of a store of before (lab/data/stores has those of results); an error where the store is another one all the same")
    parser.add_argument("--record", action="store_true", help="keep the manifest in lab/data/stores: the report tells from it what results are of")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    like = None if given.like is None else json.loads(given.like.read_text())
    parts, manifest, tokenizer = made(given.packages, None if like is None else like["packages"])
    write(given.out, parts, manifest, tokenizer)
    store = Store.open(given.out)
    differs = [] if like is None else differences(store.manifest, like)
    if differs:
        raise SystemExit(f"lab data: {given.out} is not the store of {given.like}: {'; '.join(differs)}. Results of the two are never averaged")
    if given.record:
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"{store.hash[:12]}.json").write_text((given.out / "manifest.json").read_text())
    size = sum(one["bytes"] for one in store.manifest["files"].values())
    print(f"{given.out}: {store.parts.train.size:,} tokens to train on, {len(store.parts.held)} long documents, {size / 1e6:.1f} MB")
    print(f"hash {store.hash}, {time.monotonic() - begun:.0f} s")


def differences(own: Mapping[str, Any], like: Mapping[str, Any]) -> list[str]:
    """What a store has otherwise than one that it was made after, in words; nothing where their hashes agree."""
    if own["hash"] == like["hash"]:
        return []
    found = [f"hash {own['hash'][:12]}, wanted {like['hash'][:12]}"]
    found += [f"{name} {own['packages'].get(name, 'missing')}, wanted {version}" for name, version in sorted(like["packages"].items()) if own["packages"].get(name) != version]
    if own["tokenizers"] != like["tokenizers"]:
        found.append(f"made with tokenizers {own['tokenizers']}, wanted {like['tokenizers']}")
    other = [name for name, one in like["files"].items() if own["files"].get(name) != one]
    return [*found, *([f"other files: {', '.join(other)}"] if other else [])]


def made(packages: Path, wanted: Mapping[str, str] | None = None) -> tuple[Parts, dict[str, Any], str]:
    """The arrays, what the manifest says of them, and the tokenizer's file."""
    stages = Stages(STAGES)
    found, versions = documents(packages, wanted, lambda share, package: stages.at("packages", share, package))
    stages.at("tokens are learned")
    pieces = chosen([one for one in found if one.part == "train"])
    tokenizer = tokens.learned(piece.text for piece in pieces)
    stages.at("text becomes tokens")
    for piece, ids in zip(pieces, tokens.encoded(tokenizer, [piece.text for piece in pieces])):
        piece.tokens = ids
    stages.at("long documents")
    held = [(one, ids) for one, ids in joined(tokenizer, found, "held", HELD_TOKENS) if len(ids) == HELD_TOKENS]
    held = in_turn(held)
    validation = joined(tokenizer, found, "validation", VALIDATION_TOKENS)
    stages.at("what is shared")
    known = overlap.known([ids for _, ids in (*held, *validation)])
    kept = [piece for piece in pieces if overlap.shared(piece.tokens, known) <= TOO_MUCH]
    mark = np.array([Symbols(tokens.VOCABULARY).word("document")], "<u2")
    train = stream([(piece.document.name, piece.tokens) for piece in kept], mark)
    about = described(held, validation, overlap.known([train]))
    stages.at("the generated language")
    parts = Parts(
        tokens.VOCABULARY,
        train,
        stream([(one.name, ids) for one, ids in validation], mark),
        np.stack([ids for _, ids in held]),
        **language_arrays(LANGUAGE_TRAIN, LANGUAGE_HELD, NEAR),
    )
    manifest = {
        "packages": versions,
        "tokenizers": tokenizers.__version__,
        **about,
        "trained": {kind: sum(len(piece.tokens) for piece in kept if piece.document.kind == kind) for kind in KINDS},
        "dropped": {"files": len(pieces) - len(kept), "of": len(pieces)},
    }
    stages.end()
    return parts, manifest, tokenizer.to_str()


def chosen(found: list[Document]) -> list[Piece]:
    """Of each source so many characters as it shall give: files in an order that their paths' hashes give, then back in the order of their documents."""
    pieces: list[Piece] = []
    for number, source in enumerate(SOURCES):
        own = [Piece(one, path, text, np.zeros(0, "<u2")) for one in found if one.source == number for path, text in one.pieces]
        left = 1000 * source.share
        for piece in sorted(own, key=lambda piece: hashlib.sha256(piece.path.encode()).digest()):
            if left > 0:
                pieces.append(piece)
                left -= len(piece.text)
    return sorted(pieces, key=lambda piece: (piece.document.source, piece.document.name, piece.path))


def joined(tokenizer: tokenizers.Tokenizer, found: list[Document], part: str, most: int) -> list[Text]:
    """The first tokens of each document of a part, its files one after the other."""
    own = [one for one in found if one.part == part]
    result = []
    for one in own:
        text = "\n".join(text for _, text in one.pieces)[: 12 * most]  # no text is as many characters a token
        result.append((one, tokens.encoded(tokenizer, [text])[0][:most]))
    return result


def in_turn(held: list[Text]) -> list[Text]:
    """One of each kind after the other, so that any number of them is a mixture."""
    ranks: dict[str, int] = {}
    keyed = []
    for one, ids in held:
        ranks[one.kind] = ranks.get(one.kind, -1) + 1
        keyed.append((ranks[one.kind], KINDS.index(one.kind), one, ids))
    return [(one, ids) for *_, one, ids in sorted(keyed, key=lambda entry: entry[:2])]


def stream(texts: list[tuple[str, np.ndarray]], mark: np.ndarray) -> np.ndarray:
    """Documents one after the other, the mark before each; files of one document follow each other without it."""
    pieces, before = [], ""
    for name, ids in texts:
        pieces += [mark, ids] if name != before else [ids]
        before = name
    return np.concatenate(pieces)


def described(held: list[Text], validation: list[Text], known: np.ndarray) -> dict[str, Any]:
    """What the documents are, and how much of each is, in runs of 50 tokens, in what is trained on."""

    def line(one: Document, ids: np.ndarray) -> dict[str, Any]:
        return {"name": one.name, "kind": one.kind, "files": len(one.pieces), "in_training": round(overlap.shared(ids, known), 5)}

    return {"held": [line(*one) for one in held], "validation": [line(*one) for one in validation]}


def write(folder: Path, parts: Parts, manifest: dict[str, Any], tokenizer: str) -> None:
    """The manifest comes last: a folder without it is no store."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").unlink(missing_ok=True)
    files = {**parts.files(), "tokenizer.json": tokenizer.encode()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    sums = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    whole = {"format": FORMAT, "hash": hash_of(sums), "text_vocabulary": parts.text_vocabulary, "shapes": parts.shapes(), **manifest, "files": sums}
    (folder / "manifest.json").write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
