# SPDX-License-Identifier: Apache-2.0
"""A store: all the tokens that a run trains and is measured on, read from a folder that lab.data.build wrote, or made of this repository's own pages."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.data import language, mixture, quick, tasks
from lab.data.language import Documents
from lab.data.parts import ARRAYS, Parts, hash_of
from lab.data.symbols import Symbols
from lab.data.tasks import TASKS, Examples

__all__ = ["TASKS", "Documents", "Examples", "Store"]
FORMAT = 1


@dataclass(frozen=True)
class Store:
    """Tokens of text, language and tasks, each a pure function of what is asked. `hash` is of all that they come from."""

    parts: Parts
    hash: str
    manifest: dict[str, Any]  # what the text was made of; empty for the quick one

    @property
    def symbols(self) -> Symbols:
        return Symbols(self.parts.text_vocabulary)

    @property
    def vocabulary(self) -> int:
        return self.symbols.vocabulary

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """A built store, each file checked against the manifest."""
        folder = Path(folder)
        if not (folder / "manifest.json").is_file():
            raise FileNotFoundError(f"store {folder}: no manifest.json there; python -m lab data writes it")
        manifest = json.loads((folder / "manifest.json").read_text())
        if manifest.get("format") != FORMAT:
            raise ValueError(f"store {folder}: format {manifest.get('format')}, wanted {FORMAT}; python -m lab data writes it again")
        for name, wanted in manifest["files"].items():
            data = (folder / name).read_bytes() if (folder / name).is_file() else b""
            found = hashlib.sha256(data).hexdigest()
            if found != wanted["sha256"]:
                says = f"the manifest says {wanted['bytes']} and {wanted['sha256'][:12]}"
                raise ValueError(f"store {folder}: {name} has {len(data)} bytes and hash {found[:12]}, {says}")
        arrays = {name: _read(folder, name, kind, manifest["shapes"][name]) for name, kind in ARRAYS.items()}
        return cls(Parts(manifest["text_vocabulary"], **arrays), hash_of(manifest["files"]), manifest)

    @classmethod
    def quick(cls) -> Store:
        """Bytes of the pages of this repository: no packages, seconds to make, the same each time."""
        parts = quick.parts()
        return cls(parts, hash_of({name: {"sha256": hashlib.sha256(data).hexdigest()} for name, data in parts.files().items()}), {})

    def batch(self, seed: int, step: int, rows: int, length: int) -> np.ndarray:
        """(rows, length + 1): text, language and tasks in the shares of lab.data.mixture; a pure function of the arguments."""
        return mixture.batch(self.parts, self.symbols, (seed, step), rows, length)

    def long_documents(self, length: int, count: int) -> np.ndarray:
        """(count, length + 1): held-out documents. All lengths end with the same token of each: what changes is how much stands before it."""
        held = self.parts.held
        if count > len(held) or length >= held.shape[1]:
            raise ValueError(
                f"long_documents: {count} documents of {length} + 1 tokens asked for, the store has {len(held)} of {held.shape[1]}"
            )
        return held[:count, held.shape[1] - length - 1 :].astype(np.int64)

    def language(self, length: int, count: int) -> Documents:
        """Heads of held-out documents of the generated language, (count, length + 1), in this store's ids. A recall is far from `parts.near` tokens on."""
        parts = self.parts
        if count > len(parts.language_held) or length >= parts.language_held.shape[1]:
            raise ValueError(
                f"language: {count} documents of {length} + 1 tokens asked for, "
                f"the store has {len(parts.language_held)} of {parts.language_held.shape[1]}"
            )
        tokens, surprisal, part = (array[:count, : length + 1] for array in (parts.language_held, parts.surprisal, parts.part))
        return Documents(tokens.astype(np.int64) + self.symbols.language, surprisal, part, self.symbols.language)

    def task(self, name: str, length: int, distance: int, count: int, seed: int) -> Examples:
        """Examples of a task in text that no training sees. lab.data.tasks says what they are and from where to where a distance goes."""
        tasks.distances(name, length + 1)  # says what is wrong before anything is drawn
        rng = np.random.default_rng((seed, TASKS.index(name), length, distance))
        made = Examples(np.empty((count, length + 1), np.int64), np.zeros((count, length), bool))
        for row in range(count):
            text = mixture.window(self.parts.validation, length + 1, rng)
            made.tokens[row], answer = tasks.example(name, self.symbols, text, distance, rng)
            made.answer[row, answer - 1 :] = True
        return made

    def distances(self, name: str, length: int) -> tuple[int, int]:
        """The least and the greatest distance that `task` takes at a length."""
        return tasks.distances(name, length + 1)

    @property
    def language_parts(self) -> tuple[str, ...]:
        """What the numbers of `Documents.part` stand for."""
        return language.PARTS


def _read(folder: Path, name: str, kind: str, shape: list[int]) -> np.ndarray:
    return np.fromfile(folder / f"{name}.bin", kind).reshape(shape)
