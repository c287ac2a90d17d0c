# SPDX-License-Identifier: Apache-2.0
"""The generated language is what it says: a plain reader finds the chance of every token again."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab.data import language  # noqa: E402


def read(tokens: list[str]) -> list[float]:
    """The chance of every token given those before it, by a plain reader of one document: nothing of the writer's but its numbers."""
    chances: list[float] = []
    stack: list[str] = []
    value: dict[str, str] = {}
    at = 0

    def see(chance: float) -> str:
        nonlocal at
        chances.append(chance)
        at += 1
        return tokens[at - 1]

    while at < len(tokens):
        word, opened, closed, assigned, keyed, copied = 0.18, 0.13, 0.15, 0.18, 0.26, 0.10
        opened, closed, keyed = opened * (len(stack) < 3), closed * bool(stack), keyed * bool(value)
        all_of_them = word + opened + closed + assigned + keyed + copied
        begun = tokens[at]
        if begun in "abcdefghijkl":
            see(word / all_of_them / 12)
            two = [12, language.NAMES.index(begun)]
            while at < len(tokens) and tokens[at - 1] != "_":
                token = language.NAMES.index(tokens[at])
                see(language.MARKOV[two[0], two[1], token])
                two = [two[1], token]
        elif begun in "([{":
            stack.append(see(opened / all_of_them / 3))
        elif begun in ")]}":
            assert "([{".index(stack.pop()) == ")]}".index(see(closed / all_of_them))
        elif "=" in begun:
            key, given = see(assigned / all_of_them / 25).strip().split("=")
            value[key] = given
        elif begun in "ABCDE":
            key = see(keyed / all_of_them / len(value))
            assert at == len(tokens) or see(1.0) == value[key]
        else:
            assert see(copied / all_of_them) == "#"
            source: list[str] = []
            while at < len(tokens) and tokens[at] != "|":
                source.append(see((1.0 if len(source) < 3 else 0.75) / 12))
            assert at == len(tokens) or see(1.0 if len(source) == 8 else 0.25) == "|"
            for letter in source[: len(tokens) - at]:
                assert see(1.0) == letter
    return chances


def test_the_floor_is_the_language_s_own() -> None:
    documents = language.documents(50, 200, (3,), near=64)
    for document in range(50):
        chances = read([language.NAMES[token] for token in documents.tokens[document]])
        np.testing.assert_allclose(-np.log(chances), documents.surprisal[document], rtol=1e-12, atol=1e-12)


def test_far_recalls_are_those_whose_assignment_is_far() -> None:
    documents = language.documents(50, 200, (4,), near=64)
    seen = 0
    for tokens, parts in zip(documents.tokens, documents.part):
        names = [language.NAMES[token] for token in tokens]
        for at in np.flatnonzero((parts == language.RECALL_NEAR) | (parts == language.RECALL_FAR)):
            assigned = max(i for i in range(at) if names[i].startswith(names[at - 1] + "="))
            assert names[assigned].strip() == f"{names[at - 1]}={names[at]}"
            assert (parts[at] == language.RECALL_FAR) == (at - assigned >= 64)
            seen += 1
    assert seen > 500
