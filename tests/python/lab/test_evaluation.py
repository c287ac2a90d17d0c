# SPDX-License-Identifier: Apache-2.0
"""What is measured is what it says: losses by pieces, positions, tasks, profiles of rotary, decoding; and what is refused or too slow is said."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab import cost, evaluation  # noqa: E402
from lab.batches import Source  # noqa: E402
from lab.changes import Changed  # noqa: E402
from lab.data.store import TASKS, Store  # noqa: E402
from lab.encodings import TRAINED  # noqa: E402
from lab.encodings.rotary import Rotated  # noqa: E402
from lab.evaluation import Measured, on_documents, on_language, row_of  # noqa: E402
from lab.model import begun  # noqa: E402
from lab.numerics import on_profiles  # noqa: E402
from lab.presets import QUICK, Caps  # noqa: E402
from lab.retrieval import answered, distance_at, examples, on_tasks  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def store() -> Store:
    return Source().store


def of(name: str, store: Store, **changed: object) -> Measured:
    preset = replace(QUICK, **changed)
    return Measured(begun(name, 0, preset.shape, store.vocabulary), store, preset, CPU)


def test_losses_by_pieces_are_those_of_all_logits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    one = of("alibi", store)
    tokens = store.long_documents(50, 3)
    given = torch.from_numpy(tokens)
    with torch.no_grad():
        logits = one.model.logits(one.model(given[:, :-1]))
        wanted = torch.nn.functional.cross_entropy(logits.transpose(1, 2), given[:, 1:], reduction="none").numpy()
    monkeypatch.setattr(evaluation, "TOKENS_AT_ONCE", 100)
    monkeypatch.setattr(evaluation, "LOGITS_AT_ONCE", 7)
    np.testing.assert_allclose(one.losses(tokens), wanted, rtol=2e-5, atol=2e-5)


def test_a_row_has_the_mean_the_last_tokens_and_the_positions() -> None:
    losses = np.arange(2 * 1024, dtype=np.float32).reshape(2, 1024)
    row = row_of(losses)
    assert row["loss"] == losses.mean() and row["last"] == losses[:, 512:].mean() and row["documents"] == 2
    assert len(row["by_position"]) == 64 and row["by_position"][0] == losses[:, :16].mean()
    assert len(row_of(losses[:, :16])["by_position"]) == 16


def test_what_the_library_refuses_is_said_once(store: Store) -> None:
    one = of("learned", store)
    assert on_documents(one, "learned", 1, lambda: None)
    assert on_documents(one, "learned", 2, lambda: None) == [] == on_tasks(one, "learned", lambda multiple: None, (2,), (0.5,))
    (refused,) = one.refused
    assert refused == {"label": "learned", "length": 64, "message": "lookup_add: token 32 of batch row 0 is at position 32, the table has 32 rows, 0 to 31"}


def test_what_would_take_too_long_is_left_out(store: Store) -> None:
    one = of("none", store, caps=Caps(1.0, 3.0, 1000.0))
    one._pace["none"] = (32, 0.01)
    one.affordable("none", 256, 4)  # 0.64 s a document
    with pytest.raises(ValueError, match=r"^time: 4 documents of 512 tokens would take about 10.2 s, the cap is 3 s"):
        one.affordable("none", 512, 4)
    one._pace["none"] = (32, 10.0)
    assert on_documents(one, "none", 2, lambda: None) == []
    assert one.refused[0]["length"] == 64 and one.refused[0]["message"].startswith("time: ")


def test_a_section_that_took_too_long_ends_and_others_go_on(store: Store) -> None:
    one = of("none", store, caps=Caps(1.0, 1000.0, 5.0))
    one._spent["measured", "none"] = 6.0
    assert on_documents(one, "none", 1, lambda: None) == []
    assert one.refused == [{"label": "none", "length": 32, "message": "time: measured of this label took 6 s, the cap is 5 s"}]
    assert len(on_language(one, "none", 1, lambda: None)) == 1 and one._spent["language", "none"] > 0


def test_the_language_has_its_floor(store: Store) -> None:
    (row,) = on_language(of("none", store), "none", 2, lambda: None)
    documents = store.language(64, 4)
    assert row["loss"] - row["over"] == pytest.approx(documents.surprisal[:, 1:].mean(), abs=1e-3)
    assert set(row["parts"]) == set(store.language_parts)


class Knows(torch.nn.Module):
    """Says the next token of every row, but for one answer."""

    def __init__(self, tokens: np.ndarray, vocabulary: int, wrong: tuple[int, int]) -> None:
        super().__init__()
        self.told = torch.nn.functional.one_hot(torch.from_numpy(tokens[:, 1:]), vocabulary).float() * 20
        row, column = wrong
        self.told[row, column] = self.told[row, column].roll(1)

    def forward(self, tokens: torch.Tensor, encoding: object = None) -> torch.Tensor:
        return self.told

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


@pytest.mark.parametrize("name", TASKS)
def test_one_wrong_token_makes_one_wrong_answer(store: Store, name: str) -> None:
    asked = examples(store, name, 120, distance_at(store, name, 120, 0.5), 5)
    last = (2, int(np.flatnonzero(asked.answer[2])[-1]))
    one = of("none", store)
    one.model = Knows(asked.tokens, store.vocabulary, last)  # type: ignore[assignment]
    accuracy, loss = answered(one, asked, None)
    assert accuracy == 0.8
    assert loss == pytest.approx(20 / asked.answer.sum(), rel=0.01)


def test_profiles_agree_near_and_part_far_away(store: Store) -> None:
    one = of("rotary", store, dtype="bfloat16")
    rows = {(row["label"], row["length"], row["shift"]): row["loss"] for row in on_profiles(one)}
    assert len(rows) == 3 * 2 * 2
    near = [rows[label, 32, 0] for label in ("rotary, exact", "rotary, hf float32 angles", "rotary, hf bf16 tables")]
    assert max(near) - min(near) < 0.01 and near[0] != near[2]
    # A shift changes nothing of what exact phases say but the rounding of what they turn; angles of float32 are off by hundredths there.
    q, k = (torch.randn(1, 8, 2, 16, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    apart = {}
    for profile in ("exact", "hf_float32"):
        scores = []
        for first in (0, 1_000_000):
            turned = Rotated(QUICK.shape, numerics=profile, first=first).rotate(q, k, 0)
            scores.append(torch.einsum("bihd,bjhd->bhij", *turned))
        apart[profile] = (scores[0] - scores[1]).abs().max().item()
    assert apart["exact"] < 1e-5 < 1e-3 < apart["hf_float32"]


def test_searched_factors_are_no_worse_than_what_the_search_begins_with(store: Store) -> None:
    one = of("rotary", store)
    changed = Changed(one)
    found = changed.scaling("longrope", 4.0)
    assert found is changed.scaling("longrope", 4.0)
    factors = list(found.long_factors)
    assert factors == sorted(factors) and 1 <= factors[0] and factors[-1] <= 5
    apart = store.long_documents(128, len(store.parts.held))[-4:][:1]
    losses = {how: one.losses(apart, Rotated(QUICK.shape, scaling=changed.scaling(how, 4.0))).mean() for how in ("longrope", "linear", "ntk")}
    assert losses["longrope"] <= min(losses["linear"], losses["ntk"]) + 0.01  # those two begin it, with factors in steps of 0.01


@pytest.mark.parametrize("name", TRAINED)
def test_decoding_goes_on_where_the_cache_ends(name: str, store: Store) -> None:
    """A step over a cache gives the logits of the last token of the whole text."""
    preset = replace(QUICK, steps=1)
    model = begun(name, 0, preset.shape, store.vocabulary)
    tokens = torch.from_numpy(store.long_documents(19, 2))
    decoder = cost.Decoder(model, preset, CPU, 20, 2)
    with torch.no_grad():
        x = model.encoding.add(model.tokens(tokens) * preset.shape.width**0.5)
        for number, layer in enumerate(model.layers):
            q, k, v = layer.projected(x)
            turned = model.encoding.rotate(q, k, number)[1]
            for cache, value in zip(decoder.caches[number], (turned, v)):
                cache[:] = value
            x = layer(x, model.encoding, number)
        wanted = model.logits(model.norm(x))[:, -1]
        decoder.tokens = tokens[:, -1:]
        assert (decoder.step()[:, -1] - wanted).abs().max() < 1e-4
