# SPDX-License-Identifier: Apache-2.0
"""Tasks of remembering: facts stand in real text, a question about one of them ends the example, and the way between the two is as long as asked.

    passkey   ... <passkey> 4 0 9 1 7 <end> ...                                 <ask> <passkey> 4 0 9 1 7
    needles   ... <needle> k <is> 3 0 5 <end> ... (4 such pairs) ...            <ask> <needle> k <is> 3 0 5
    tracing   ... <set> x <is> 4 2 <end> ... <set> y <is> x <end> ...           <ask> <set> z <is> 4 2     (3 chains of 3 names, one is asked)
    copying   ... <copy> q b f ... (16 letters) <end> ...                       <ask> <copy> q b f ...
    counting  ... <mark> ... <mark> ... (1 to 9 of them) ...                    <ask> <mark> 2

In training the other needles and chains are asked for, too, before the last question; in measuring they are not.
The distance is that from the first token of the value (for tracing of its chain's first name, for counting the first mark) to the first token of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from lab.data.symbols import LETTERS, Symbols

TASKS: tuple[str, ...] = ("passkey", "needles", "tracing", "copying", "counting")
PASSKEY_DIGITS, NEEDLES, NEEDLE_DIGITS, CHAINS, NAMES, TRACED_DIGITS, COPIED, MARKS = 5, 4, 3, 3, 3, 2, 16, 9
# The share of right answers of one who knows how answers look and which of the facts could be asked, not which one was.
CHANCE = {"passkey": 10.0**-PASSKEY_DIGITS, "needles": 1 / NEEDLES, "tracing": 1 / CHAINS, "copying": float(LETTERS) ** -COPIED, "counting": 1 / MARKS}
Statement = list[int]


@dataclass
class Examples:
    """Tokens (N, length + 1), and which of the predicted ones, tokens[:, 1:], are the answer (N, length)."""

    tokens: np.ndarray
    answer: np.ndarray


@dataclass
class Plan:
    """All of an example but its text. `value` is where in the fact the distance begins."""

    fact: Statement
    value: int
    question: Statement
    answer: Statement
    after: list[Statement] = field(default_factory=list)  # in this order, between the fact and the question
    anywhere: list[list[Statement]] = field(default_factory=list)  # each list in its order, around the fact
    more: list[Statement] = field(default_factory=list)  # questions about these with their answers, before the question

    @property
    def near(self) -> int:
        """The least distance: no text between the fact and the question."""
        return len(self.fact) - self.value + sum(map(len, self.after)) + sum(map(len, self.more)) + len(self.question)

    @property
    def least(self) -> int:
        """Tokens that hold it at every distance: a statement that fits into neither side of the fact may leave room for all but one token of itself."""
        others = [len(one) for chain in self.anywhere for one in chain]
        return self.value + self.near + len(self.answer) + sum(others) + max(others, default=1) - 1

    def far(self, size: int) -> int:
        """The greatest distance in `size` tokens: the fact is the first of them."""
        return size - len(self.answer) - self.value


def _digits(symbols: Symbols, rng: np.random.Generator, count: int) -> Statement:
    return [symbols.digit + int(digit) for digit in rng.integers(0, 10, count)]


def _passkey(symbols: Symbols, rng: np.random.Generator) -> Plan:
    key, mark = _digits(symbols, rng, PASSKEY_DIGITS), symbols.word("passkey")
    return Plan([mark, *key, symbols.word("end")], 1, [symbols.word("ask"), mark], key)


def _needles(symbols: Symbols, rng: np.random.Generator) -> Plan:
    """The first pair is the one asked for; the others have other keys."""
    needle, is_, end = (symbols.word(name) for name in ("needle", "is", "end"))
    keys = [symbols.letter + int(letter) for letter in rng.choice(LETTERS, NEEDLES, replace=False)]
    pairs = [[needle, key, is_, *_digits(symbols, rng, NEEDLE_DIGITS), end] for key in keys]
    ask = symbols.word("ask")
    more = [[ask, *pair[:-1]] for pair in pairs[1:]]
    return Plan(pairs[0], 3, [ask, *pairs[0][:3]], pairs[0][3:-1], anywhere=[[pair] for pair in pairs[1:]], more=more)


def _tracing(symbols: Symbols, rng: np.random.Generator) -> Plan:
    set_, is_, end = (symbols.word(name) for name in ("set", "is", "end"))
    names = [symbols.letter + int(letter) for letter in rng.choice(LETTERS, CHAINS * NAMES, replace=False)]
    chains = []
    for chain in range(CHAINS):
        own = names[chain * NAMES : (chain + 1) * NAMES]
        values = [_digits(symbols, rng, TRACED_DIGITS), *([name] for name in own)]
        chains.append([[set_, name, is_, *value, end] for name, value in zip(own, values)])
    first, *links = chains[0]
    questions = [[symbols.word("ask"), *chain[-1][:3]] for chain in chains]
    more = [[*question, *chain[0][3:-1]] for question, chain in zip(questions[1:], chains[1:])]
    return Plan(first, 3, questions[0], first[3:-1], links, chains[1:], more)


def _copying(symbols: Symbols, rng: np.random.Generator) -> Plan:
    string, mark = [symbols.letter + int(letter) for letter in rng.integers(0, LETTERS, COPIED)], symbols.word("copy")
    return Plan([mark, *string, symbols.word("end")], 1, [symbols.word("ask"), mark], string)


def _marked(symbols: Symbols, marks: int) -> Plan:
    mark = symbols.word("mark")
    return Plan([mark], 0, [symbols.word("ask"), mark], [symbols.digit + marks], [[mark]] * (marks - 1))


def _counting(symbols: Symbols, rng: np.random.Generator) -> Plan:
    return _marked(symbols, int(rng.integers(1, MARKS + 1)))


_PLANS: dict[str, Callable[[Symbols, np.random.Generator], Plan]] = dict(zip(TASKS, (_passkey, _needles, _tracing, _copying, _counting)))
# One of the largest kind each: what they need does not depend on what is drawn.
_LARGEST = {name: _marked(Symbols(0), MARKS) if name == "counting" else plan(Symbols(0), np.random.default_rng(0)) for name, plan in _PLANS.items()}


def _largest(name: str, more: bool) -> Plan:
    if name not in _LARGEST:
        raise ValueError(f"task: {name!r} is none of {', '.join(TASKS)}")
    return _LARGEST[name] if more else replace(_LARGEST[name], more=[])


def least_size(name: str, more: bool = False) -> int:
    """Tokens that an example needs, with more questions or without: one more than its length."""
    return _largest(name, more).least


def distances(name: str, size: int, more: bool = False) -> tuple[int, int]:
    """The least and the greatest distance of an example of `size` tokens."""
    plan = _largest(name, more)
    if size < plan.least:
        raise ValueError(f"task {name}: {size} tokens (a length of {size - 1}), wanted {plan.least} or more")
    return plan.near, plan.far(size)


def _split(chain: list[Statement], before: int, after: int, rng: np.random.Generator) -> int:
    """How many of a chain go before the fact: drawn as if each chose its side by the room there, of what fits."""
    share = before / max(before + after, 1)
    lengths = [len(one) for one in chain]
    weights = np.array(
        [
            comb(len(chain), count) * share**count * (1 - share) ** (len(chain) - count) * (sum(lengths[:count]) <= before and sum(lengths[count:]) <= after)
            for count in range(len(chain) + 1)
        ]
    )
    if weights.sum() == 0:  # all of the chance may lie on what does not fit
        weights = np.array([float(sum(lengths[:count]) <= before and sum(lengths[count:]) <= after) for count in range(len(chain) + 1)])
    return int(np.searchsorted(weights.cumsum(), rng.random() * weights.sum(), side="right"))


def _place(tokens: np.ndarray, free: np.ndarray, gap: tuple[int, int], chains: list[list[Statement]], rng: np.random.Generator) -> None:
    """Statements at random places of a gap, each chain in its order."""
    owners = rng.permutation(np.repeat(np.arange(len(chains)), [len(chain) for chain in chains]))
    left = [iter(chain) for chain in chains]
    ordered = [next(left[owner]) for owner in owners]
    room = gap[1] - gap[0] - sum(map(len, ordered))
    begin = gap[0]
    for slot, one in zip(np.sort(rng.integers(0, room + 1, len(ordered))), ordered):
        _write(tokens, free, begin + int(slot), one)
        begin += len(one)


def _write(tokens: np.ndarray, free: np.ndarray, at: int, statement: Statement) -> None:
    tokens[at : at + len(statement)] = statement
    free[at : at + len(statement)] = False


def example(name: str, symbols: Symbols, text: np.ndarray, distance: int, rng: np.random.Generator, more: bool = False) -> tuple[np.ndarray, int]:
    """As many tokens as `text` has, and where among them the answer begins; it ends with them. The text goes on behind what is put into it."""
    size = len(text)
    near, far = distances(name, size, more)
    if not near <= distance <= far:
        raise ValueError(f"task {name}: distance {distance} in {size} tokens, wanted {near} to {far}")
    plan = _PLANS[name](symbols, rng)
    questions = [*(sum(plan.more, []) if more else []), *plan.question]
    tokens, free = np.empty(size, np.int64), np.ones(size, bool)
    answer = size - len(plan.answer)
    fact, question = answer - distance - plan.value, answer - len(questions)
    behind = fact + len(plan.fact)
    before, after = fact, question - behind - sum(map(len, plan.after))
    earlier, later = [], [plan.after]
    for chain in plan.anywhere:
        count = _split(chain, before, after, rng)
        earlier.append(chain[:count])
        later.append(chain[count:])
        before -= sum(map(len, chain[:count]))
        after -= sum(map(len, chain[count:]))
    _write(tokens, free, fact, plan.fact)
    _write(tokens, free, question, questions + plan.answer)
    _place(tokens, free, (0, fact), earlier, rng)
    _place(tokens, free, (behind, question), later, rng)
    tokens[free] = text[: int(free.sum())]
    return tokens, answer
