# SPDX-License-Identifier: Apache-2.0
"""Which id means what: the tokens of text come first, then those of the generated language, then the symbols of the tasks; the rest is room."""

from __future__ import annotations

from dataclasses import dataclass

from lab.data import language

DIGITS, LETTERS, ROUND = 10, 26, 64
WORDS = ("document", "ask", "is", "end", "passkey", "needle", "set", "copy", "mark")


@dataclass(frozen=True)
class Symbols:
    """The ids of a store, all from the number of its text tokens."""

    text: int

    @property
    def language(self) -> int:
        """The first token of the generated language."""
        return self.text

    @property
    def digit(self) -> int:
        """0; the other digits follow."""
        return self.language + language.VOCABULARY

    @property
    def letter(self) -> int:
        """a; the other letters follow. Names of keys and variables, and what is copied."""
        return self.digit + DIGITS

    def word(self, name: str) -> int:
        """One of WORDS. Text has none of them but "document", which stands before each of its documents."""
        return self.letter + LETTERS + WORDS.index(name)

    @property
    def vocabulary(self) -> int:
        """All of them, made up to a multiple of 64, which matrix products like."""
        used = self.letter + LETTERS + len(WORDS)
        return -(-used // ROUND) * ROUND

    def name(self, token: int) -> str:
        """A symbol of a task in words, for readers and messages; text is its number."""
        if self.digit <= token < self.letter:
            return str(token - self.digit)
        if self.letter <= token < self.letter + LETTERS:
            return chr(ord("a") + token - self.letter)
        if self.letter + LETTERS <= token < self.letter + LETTERS + len(WORDS):
            return f"<{WORDS[token - self.letter - LETTERS]}>"
        return f"#{token}"
