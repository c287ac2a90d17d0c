# SPDX-License-Identifier: Apache-2.0
"""The tasks: a plain reader finds every answer again from what stands before the question, and the distance is what was asked for."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab.data import tasks  # noqa: E402
from lab.data.store import TASKS, Store  # noqa: E402

LENGTH = 200


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.quick()


def words(store: Store, tokens: np.ndarray) -> list[str]:
    """Each token in words; text is a point."""
    return [store.symbols.name(int(token)) if token >= store.symbols.digit and token != store.symbols.word("document") else "." for token in tokens]


def read(name: str, seen: list[str]) -> tuple[list[str], int]:
    """The answer to the question that `seen` ends with, and where the distance begins: by regular expressions, nothing of the writer's."""
    text = " ".join(seen)

    def place(at: int) -> int:
        return text[:at].count(" ")

    if name == "passkey":
        (found,) = re.finditer(r"<passkey> ((?:\d ){5})<end>", text)
        return found[1].split(), place(found.start(1))
    if name == "copying":
        (found,) = re.finditer(r"<copy> ((?:[a-z] ){16})<end>", text)
        return found[1].split(), place(found.start(1))
    if name == "counting":
        marks = [at for at, word in enumerate(seen[:-2]) if word == "<mark>"]
        return [str(len(marks))], marks[0]
    word, pattern = ("<needle>", r"((?:\d ){3})") if name == "needles" else ("<set>", r"((?:\d ){2}|[a-z] )")
    facts = {found[1]: found for found in re.finditer(word + r" ([a-z]) <is> " + pattern + "<end>", text)}
    assert len(facts) == (4 if name == "needles" else 9)
    key = seen[-2]
    while facts[key][2].strip().isalpha():
        assert facts[facts[key][2].strip()].start() < facts[key].start()  # a name is given before it is used
        key = facts[key][2].strip()
    return facts[key][2].split(), place(facts[key].start(2))


def question(name: str) -> str:
    return {"passkey": "<ask> <passkey>", "needles": "<ask> <needle> [a-z] <is>", "tracing": "<ask> <set> [a-z] <is>"}.get(
        name, "<ask> <copy>" if name == "copying" else "<ask> <mark>"
    )


@pytest.mark.parametrize("name", TASKS)
def test_a_plain_reader_finds_every_answer_at_the_distance(store: Store, name: str) -> None:
    near, far = store.distances(name, LENGTH)
    for distance in (near, near + 1, near + 13, (near + far) // 2, far - 13, far - 1, far):
        made = store.task(name, LENGTH, distance, 20, seed=3)
        assert made.tokens.shape == (20, LENGTH + 1) and made.answer.shape == (20, LENGTH)
        for tokens, answer in zip(made.tokens, made.answer):
            seen = words(store, tokens)
            begin = int(np.flatnonzero(answer)[0]) + 1
            assert answer[begin - 1 :].all() and not answer[: begin - 1].any()
            assert re.search(question(name) + "$", " ".join(seen[:begin]))
            found, at = read(name, seen[:begin])
            assert found == seen[begin:]
            assert begin - at == distance


@pytest.mark.parametrize(("name", "questions", "digits"), [("needles", 4, 3), ("tracing", 3, 2)])
def test_training_asks_for_every_fact(store: Store, name: str, questions: int, digits: int) -> None:
    rng = np.random.default_rng(6)
    least = tasks.least_size(name, True)
    for size in (least, least + 1, least + 40):
        near, far = tasks.distances(name, size, True)
        for distance in {near, near + 7, far}:
            tokens, answer = tasks.example(name, store.symbols, np.zeros(size, np.int64), distance, rng, more=True)
            seen = words(store, tokens)
            asked = [at for at, word in enumerate(seen) if word == "<ask>"]
            assert len(asked) == questions and answer == asked[-1] + 4
            assert len({seen[at + 2] for at in asked}) == questions
            for at in asked:
                assert read(name, seen[: at + 4])[0] == seen[at + 4 : at + 4 + digits]
            assert answer - read(name, seen[:answer])[1] == distance


@pytest.mark.parametrize("name", TASKS)
def test_the_least_length_holds_every_distance(store: Store, name: str) -> None:
    length = tasks.least_size(name) - 1
    for distance in range(store.distances(name, length)[0], store.distances(name, length)[1] + 1):
        made = store.task(name, length, distance, 10, seed=4)
        for tokens, answer in zip(made.tokens, made.answer):
            seen = words(store, tokens)
            begin = int(np.flatnonzero(answer)[0]) + 1
            assert read(name, seen[:begin])[0] == seen[begin:]


def test_what_is_not_of_the_task_is_held_out_text_in_its_order(store: Store) -> None:
    tokens = store.task("needles", LENGTH, 100, 1, seed=5).tokens[0]
    text = tokens[(tokens < 256) | (tokens == store.symbols.word("document"))]
    validation = store.parts.validation
    twice = np.concatenate([validation, validation[:LENGTH]])  # a window may go on at the beginning
    assert any(np.array_equal(twice[at : at + len(text)], text) for at in np.flatnonzero(validation == text[0]))


def test_answers_are_spread(store: Store) -> None:
    """No answer is likelier than another, and what is asked for is not always the first or the last of the facts."""
    counts = np.bincount(store.task("counting", 64, 50, 900, seed=1).tokens[:, -1] - store.symbols.digit, minlength=10)
    assert counts[0] == 0 and (abs(counts[1:] - 100) < 45).all()  # 4.7 deviations
    places = []
    for tokens in store.task("needles", LENGTH, 100, 300, seed=2).tokens:
        seen = words(store, tokens)
        keys = [seen[at + 1] for at, word in enumerate(seen[:-7]) if word == "<needle>"]
        places.append(keys.index(seen[-5]))
    assert (np.bincount(places, minlength=4) > 10).all()


def test_examples_repeat_and_seeds_differ(store: Store) -> None:
    one, same, other = (store.task("tracing", LENGTH, 90, 4, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.tokens, same.tokens) and not np.array_equal(one.tokens, other.tokens)


def test_wrong_arguments_say_what_is_wanted(store: Store) -> None:
    with pytest.raises(ValueError, match=r"task: 'passkeys' is none of passkey, needles, tracing, copying, counting"):
        store.task("passkeys", LENGTH, 50, 1, 0)
    with pytest.raises(ValueError, match=r"task passkey: distance 7 in 201 tokens, wanted 8 to 195"):
        store.task("passkey", LENGTH, 7, 1, 0)
    with pytest.raises(ValueError, match=r"task passkey: distance 196 in 201 tokens, wanted 8 to 195"):
        store.task("passkey", LENGTH, 196, 1, 0)
    with pytest.raises(ValueError, match=r"task copying: 21 tokens \(a length of 20\), wanted 36 or more"):
        store.task("copying", 20, 19, 1, 0)
