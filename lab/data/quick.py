# SPDX-License-Identifier: Apache-2.0
"""The parts of a store made of this repository's own pages, a token a byte: for tests and a first look."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.data.parts import Parts, language_arrays
from lab.data.symbols import Symbols

PAGES = Path(__file__).resolve().parents[2] / "docs"
BYTES, HELD_TOKENS, NEAR = 256, 4097, 32


def pages() -> list[bytes]:
    """In order of their paths. The lab's own page, which tells of its results, is not among them."""
    found = [path for folder in (PAGES, PAGES / "design") for path in sorted(folder.glob("*.md")) if path.name != "lab.md"]
    if len(found) < 20:
        raise FileNotFoundError(f"Store.quick: {len(found)} pages in {PAGES.name}/ of the repository, wanted 20 or more: run it from a whole checkout")
    return [path.read_bytes() for path in found]


def parts() -> Parts:
    """Every second page that is long enough is held out; every tenth of the others is for tasks at evaluation."""
    long = [page for page in pages() if len(page) >= HELD_TOKENS][::2]
    rest = [page for page in pages() if page not in long]
    held = np.stack([np.frombuffer(page, np.uint8)[-HELD_TOKENS:] for page in long]).astype("<u2")
    train = _joined([page for number, page in enumerate(rest) if number % 10])
    return Parts(BYTES, train, _joined(rest[::10]), held, **language_arrays((128, 257), (8, 2049), NEAR))


def _joined(documents: list[bytes]) -> np.ndarray:
    mark = np.array([Symbols(BYTES).word("document")], "<u2")
    return np.concatenate([piece for one in documents for piece in (mark, np.frombuffer(one, np.uint8).astype("<u2"))])
