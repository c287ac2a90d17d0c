# SPDX-License-Identifier: Apache-2.0
"""The store: batches are pure functions of what is asked, held-out text stays out, and a file that was changed is noticed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab.data import build, overlap, quick  # noqa: E402
from lab.data.language import VOCABULARY  # noqa: E402
from lab.data.store import TASKS, Store  # noqa: E402


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.quick()


def written(store: Store, folder: Path) -> Store:
    build.write(folder, store.parts, {"packages": {}}, "{}")
    return Store.open(folder)


def test_a_batch_is_a_pure_function_of_its_arguments(store: Store) -> None:
    first = store.batch(3, 7, 16, 128)
    assert first.shape == (16, 129) and first.dtype == np.int64
    store.batch(4, 1, 2, 64)
    assert np.array_equal(first, Store.quick().batch(3, 7, 16, 128))
    assert not np.array_equal(first, store.batch(3, 8, 16, 128))
    assert not np.array_equal(first, store.batch(4, 7, 16, 128))


def test_the_shares_of_the_mixture(store: Store) -> None:
    rows = np.concatenate([store.batch(0, step, 64, 64) for step in range(20)])
    symbols = store.symbols
    language = ((rows >= symbols.language) & (rows < symbols.language + VOCABULARY)).all(axis=1)
    asks = (rows == symbols.word("ask")).sum(axis=1)
    assert abs(language.mean() - 0.1) < 0.04  # 4.8 deviations
    assert abs((asks > 0).mean() - 0.3) < 0.061
    assert rows.max() < store.vocabulary and store.vocabulary % 64 == 0
    assert {0, 1, 2, 4} <= set(asks) <= set(range(7))  # one example or several in a row, some with further questions


def test_training_has_every_task_at_distances_from_near_to_far(store: Store) -> None:
    rows = np.concatenate([store.batch(1, step, 64, 256) for step in range(30)])
    for name in ("passkey", "needle", "set", "copy", "mark"):
        assert ((rows[:, :-1] == store.symbols.word("ask")) & (rows[:, 1:] == store.symbols.word(name))).sum() > 20
    gaps = []
    for row in rows:
        at = np.flatnonzero(row == store.symbols.word("copy"))
        gaps += list(at[1::2] - at[::2])
    assert min(gaps) < 30 and max(gaps) > 200


def test_long_documents_end_alike_at_every_length(store: Store) -> None:
    whole = store.long_documents(4096, 12)
    assert whole.shape == (12, 4097)
    for length in (1, 100, 4095):
        assert np.array_equal(store.long_documents(length, 5), whole[:5, -length - 1 :])
    held = len(store.parts.held)  # as many as docs/ has long pages for
    wanted = rf"long_documents: {held + 1} documents of 100 \+ 1 tokens asked for, the store has {held} of 4097"
    with pytest.raises(ValueError, match=wanted):
        store.long_documents(100, held + 1)
    with pytest.raises(ValueError, match=r"12 documents of 4097 \+ 1 tokens asked for"):
        store.long_documents(4097, 12)


def test_held_out_text_is_not_trained_on(store: Store) -> None:
    known = overlap.known([store.parts.train])
    for text in (*store.parts.held, store.parts.validation):
        assert overlap.shared(text.astype(np.int64), known) < 0.01


def test_language_is_in_the_store_s_ids_with_its_floor(store: Store) -> None:
    from lab.data.language import documents

    found = store.language(300, 4)
    same = documents(8, 2049, seed=(1_000_001,), near=quick.NEAR)
    assert np.array_equal(found.tokens - store.symbols.language, same.tokens[:4, :301])
    np.testing.assert_allclose(found.surprisal, same.surprisal[:4, :301], rtol=1e-6)
    assert np.array_equal(found.part, same.part[:4, :301])
    assert found.text(0) == same.text(0)[: len(found.text(0))]
    assert not np.array_equal(same.tokens[0, :257], store.parts.language_train[0])
    with pytest.raises(ValueError, match=r"language: 9 documents of 10 \+ 1 tokens asked for, the store has 8 of 2049"):
        store.language(10, 9)


def test_a_store_on_disk_is_the_same_and_a_changed_file_is_noticed(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    opened = written(store, folder)
    assert opened.vocabulary == store.vocabulary
    assert np.array_equal(opened.batch(0, 0, 8, 64), store.batch(0, 0, 8, 64))
    assert np.array_equal(opened.task(TASKS[0], 100, 50, 2, 0).tokens, store.task(TASKS[0], 100, 50, 2, 0).tokens)
    assert opened.hash == json.loads((folder / "manifest.json").read_text())["hash"] == written(store, tmp_path / "again").hash
    data = bytearray((folder / "held.bin").read_bytes())
    data[1000] ^= 1
    (folder / "held.bin").write_bytes(data)
    with pytest.raises(ValueError, match=rf"held.bin has {len(data)} bytes and hash [0-9a-f]{{12}}, the manifest says {len(data)} and [0-9a-f]{{12}}"):
        Store.open(folder)
    (folder / "held.bin").unlink()
    with pytest.raises(ValueError, match=r"held.bin has 0 bytes"):
        Store.open(folder)


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no manifest.json there; python -m lab data writes it"):
        Store.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match=r"format 99, wanted 1"):
        Store.open(tmp_path)


def test_the_hash_is_of_every_token(store: Store, tmp_path: Path) -> None:
    from dataclasses import replace

    other = store.parts.validation.copy()
    other[5] ^= 1
    build.write(tmp_path, replace(store.parts, validation=other), {}, "{}")
    assert Store.open(tmp_path).hash != written(store, tmp_path).hash
    assert Store.quick().hash == store.hash
