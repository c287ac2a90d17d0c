# SPDX-License-Identifier: Apache-2.0
"""The generated language: a small one with near and far structure, whose true probability of every next token is known, so that its floor is exact.

A document is a row of items, drawn one after the other with the same chances at every position:
- a word: letters by a Markov chain of order two, ended by a space (near: the last two tokens, and which is which);
- a bracket opened, or the innermost open one closed by its own kind (a stack, with other items in between);
- an assignment of a value to a key, one token for each pair of them; or a key, then the value it was given last (far: by content and recency);
- `# letters | letters`, a copy (by place).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LETTERS, KINDS, DEPTH, KEYS, VALUES, COPY_MIN, COPY_MAX = 12, 3, 3, 5, 5, 3, 8
SPACE = LETTERS
OPEN = SPACE + 1
CLOSE = OPEN + KINDS
COPY, BAR = CLOSE + KINDS, CLOSE + KINDS + 1
ASSIGN = BAR + 1  # key by key
KEY = ASSIGN + KEYS * VALUES
VALUE = KEY + KEYS
VOCABULARY = VALUE + VALUES
NAMES = [*"abcdefghijkl_([{)]}#|", *(f"{key}={value} " for key in "ABCDE" for value in "12345"), *"ABCDE", *"12345"]

BETWEEN, WORD, KEYED, SOURCE, REPEAT = range(5)
WEIGHT_WORD, WEIGHT_OPEN, WEIGHT_CLOSE, WEIGHT_ASSIGN, WEIGHT_KEY, WEIGHT_COPY = 0.18, 0.13, 0.15, 0.18, 0.26, 0.10
END_OF_WORD, END_OF_SOURCE = 0.20, 0.25

# What a token is to its reader: what could be known about it, and from where.
PARTS = ("chance", "word", "close", "recall near", "recall far", "copy")
CHANCE, IN_WORD, CLOSING, RECALL_NEAR, RECALL_FAR, COPIED = range(len(PARTS))


def markov_table() -> np.ndarray:
    """P(next | the two letters before): (13, 13, 13); letter 12 before stands for the start, after for the space. Always the same."""
    rng = np.random.default_rng(7)
    table = np.zeros((LETTERS + 1, LETTERS + 1, LETTERS + 1))
    for context in np.ndindex(table.shape[:2]):
        chosen = rng.permutation(LETTERS)[:3]
        table[(*context, chosen)] = np.array([0.7, 0.2, 0.1]) * (1 - END_OF_WORD)
        table[(*context, SPACE)] = END_OF_WORD
    table[LETTERS, LETTERS] = [1 / LETTERS] * LETTERS + [0]
    return table


MARKOV = markov_table()


@dataclass
class Documents:
    """N documents: tokens (N, T), and of each token its surprisal in nats given those before it (N, T), and its part (N, T)."""

    tokens: np.ndarray
    surprisal: np.ndarray
    part: np.ndarray
    first: int = 0  # the id of the language's first token: a store has other tokens before it

    def text(self, document: int) -> str:
        return "".join(NAMES[token - self.first] for token in self.tokens[document])


class _Writer:
    """N documents being written: everything that the next token's chances depend on."""

    def __init__(self, count: int, near: int) -> None:
        self.rows = np.arange(count)
        self.near = near
        self.mode = np.full(count, BETWEEN)
        self.letters = np.full((count, 2), LETTERS)
        self.stack = np.zeros((count, DEPTH), np.int64)
        self.depth = np.zeros(count, np.int64)
        self.value = np.full((count, KEYS), -1)
        self.assigned = np.zeros((count, KEYS), np.int64)  # at which position
        self.key = np.zeros(count, np.int64)
        self.source = np.zeros((count, COPY_MAX), np.int64)
        self.length = np.zeros(count, np.int64)
        self.done = np.zeros(count, np.int64)

    def chances(self) -> np.ndarray:
        """P(next token), (N, vocabulary)."""
        p = np.zeros((len(self.rows), VOCABULARY))
        self._between(p, np.flatnonzero(self.mode == BETWEEN))
        at = np.flatnonzero(self.mode == WORD)
        p[at, : LETTERS + 1] = MARKOV[self.letters[at, 0], self.letters[at, 1]]
        at = np.flatnonzero(self.mode == KEYED)
        p[at, VALUE + self.value[at, self.key[at]]] = 1
        at = np.flatnonzero(self.mode == SOURCE)
        end = np.select([self.length[at] < COPY_MIN, self.length[at] == COPY_MAX], [0.0, 1.0], END_OF_SOURCE)
        p[at, :LETTERS] = ((1 - end) / LETTERS)[:, None]
        p[at, BAR] = end
        at = np.flatnonzero(self.mode == REPEAT)
        p[at, self.source[at, self.done[at]]] = 1
        return p

    def _between(self, p: np.ndarray, at: np.ndarray) -> None:
        p[at, :LETTERS] = WEIGHT_WORD / LETTERS
        p[at, OPEN : OPEN + KINDS] = (WEIGHT_OPEN * (self.depth[at] < DEPTH) / KINDS)[:, None]
        deep = at[self.depth[at] > 0]
        p[deep, CLOSE + self.stack[deep, self.depth[deep] - 1]] = WEIGHT_CLOSE
        p[at, ASSIGN:KEY] = WEIGHT_ASSIGN / (KEYS * VALUES)
        known = self.value[at] >= 0
        p[at, KEY:VALUE] = WEIGHT_KEY * known / known.sum(axis=1, keepdims=True).clip(1)
        p[at, COPY] = WEIGHT_COPY
        p[at] /= p[at].sum(axis=1, keepdims=True)

    def part(self, token: np.ndarray, position: int) -> np.ndarray:
        far = position - self.assigned[self.rows, self.key] >= self.near
        recalled = np.where(far, RECALL_FAR, RECALL_NEAR)
        closing = (token >= CLOSE) & (token < CLOSE + KINDS)
        modes = [self.mode == WORD, self.mode == KEYED, self.mode == REPEAT, closing]
        return np.select(modes, [IN_WORD, recalled, COPIED, CLOSING], CHANCE)

    def write(self, token: np.ndarray, position: int) -> None:
        """The state after a token."""
        mode = self.mode.copy()
        self._begin_item(token, position, np.flatnonzero(mode == BETWEEN))
        at = np.flatnonzero(mode == WORD)
        self._letter(at, token[at])
        self.mode[mode == KEYED] = BETWEEN
        at = np.flatnonzero((mode == SOURCE) & (token != BAR))
        self.source[at, self.length[at]] = token[at]
        self.length[at] += 1
        at = np.flatnonzero((mode == SOURCE) & (token == BAR))
        self.mode[at], self.done[at] = REPEAT, 0
        at = np.flatnonzero(mode == REPEAT)
        self.done[at] += 1
        self.mode[at[self.done[at] == self.length[at]]] = BETWEEN

    def _begin_item(self, token: np.ndarray, position: int, at: np.ndarray) -> None:
        of = token[at]
        begun = at[of < LETTERS]
        self.letters[begun], self.mode[begun] = LETTERS, WORD
        self._letter(begun, token[begun])
        opened = at[(of >= OPEN) & (of < OPEN + KINDS)]
        self.stack[opened, self.depth[opened]] = token[opened] - OPEN
        self.depth[opened] += 1
        self.depth[at[(of >= CLOSE) & (of < CLOSE + KINDS)]] -= 1
        given = at[(of >= ASSIGN) & (of < KEY)]
        key, value = np.divmod(token[given] - ASSIGN, VALUES)
        self.value[given, key], self.assigned[given, key] = value, position
        keyed = at[(of >= KEY) & (of < VALUE)]
        self.key[keyed], self.mode[keyed] = token[keyed] - KEY, KEYED
        copied = at[of == COPY]
        self.mode[copied], self.length[copied] = SOURCE, 0

    def _letter(self, at: np.ndarray, of: np.ndarray) -> None:
        self.letters[at, 0], self.letters[at, 1] = self.letters[at, 1], of
        self.mode[at[of == SPACE]] = BETWEEN


def documents(count: int, length: int, seed: tuple[int, ...], near: int) -> Documents:
    """Documents drawn by a seed. A recall is far when its key was given its value `near` tokens ago or more."""
    rng = np.random.default_rng(seed)
    writer = _Writer(count, near)
    shape = (count, length)
    found = Documents(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, np.int8))
    for position in range(length):
        p = writer.chances()
        edges = p.cumsum(axis=1)
        drawn = (rng.random(count) * edges[:, -1])[:, None]
        token = (edges <= drawn).sum(axis=1)  # never one of chance 0: its edge is that of the token before it
        found.tokens[:, position] = token
        found.surprisal[:, position] = -np.log(p[writer.rows, token])
        found.part[:, position] = writer.part(token, position)
        writer.write(token, position)
    return found
