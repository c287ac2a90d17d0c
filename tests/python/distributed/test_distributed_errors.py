# SPDX-License-Identifier: Apache-2.0
"""Bad input gives every rank the same clear error before tensors move; a rank that dies or stays away gives one within the time limit."""

from __future__ import annotations

from typing import Any

import pytest
from ranks import Ranks

ERRORS = "distributed_errors"

DISAGREEMENTS = {
    "width": "rank 0 has q (1, tokens, 4, 8) torch.float32, rank 1 has (1, tokens, 4, 6) torch.float32",
    "dtype": "rank 1 has (1, tokens, 4, 8) torch.float64",
    "causal": "rank 0 has causal True, rank 1 has False, wanted the same on every rank",
    "window": "rank 0 has window None, None, rank 1 has 3, None",
    "prefix": "rank 0 has prefix [2], rank 1 has [3]",
    "mask": "axes of mask before tokens",
    "cu_seqlens": "rank 0 has cu_seqlens [0, 3, 7], [0, 3, 7], rank 1 has [0, 4, 7], [0, 4, 7]",
    "scheme": "scheme",
    "table": "T5",
    "gradient": "requires_grad",
    "order": "rank 0 has order zigzag, zigzag, rank 1 has striped, striped",
    "wrong table": "rank 1: attention: terms[0]",
    "wrong shape": "rank 1: k has 4 axes",
    "wrong scheme": "rank 1: attention: scheme is str",
    "tokens": "in q, wanted",
    "positions": "wanted them to rise over the whole",
    "positions elsewhere": "rank 1: key_positions is",
}


@pytest.mark.parametrize("number, what", list(enumerate(DISAGREEMENTS)))
def test_ranks_that_disagree(ranks: Any, number: int, what: str) -> None:
    heard = ranks.run(ERRORS, "disagreement", 3, what, ("ring", "gather", "ulysses")[number % 3])[:3]
    assert len(set(heard)) == 1, heard
    assert DISAGREEMENTS[what] in heard[0] and "distributed.attention: " in heard[0]


def test_what_is_refused(ranks: Any) -> None:
    heard = ranks.run(ERRORS, "refused", 4)
    assert all(x == heard[0] for x in heard)
    wanted = ["NotImplementedError", "comm is 'tree'", "mesh has 2 axes", "mesh is str", "without dropout_seed", "has 5 columns, wanted 7", "q is ndarray"]
    wanted += ["no option 'winddow'", "key_positions are not given", "dim is 2", "each of 0 to 2 once", "wanted [", "cu_seqlens runs"]
    for text, found in zip(wanted, heard[0], strict=True):
        assert text in found


def test_a_rank_outside_of_the_mesh(ranks: Any) -> None:
    heard = ranks.run(ERRORS, "outside", 4)
    assert heard[:2] == ["inside"] * 2 and all("is not in the mesh" in x for x in heard[2:])


def test_no_gradient_of_the_gradient(ranks: Any) -> None:
    """Refused, rather than zeros without a word."""
    assert all("differentiate twice" in x for x in ranks.run(ERRORS, "second_gradient", 2)[:2])


@pytest.mark.parametrize("comm", ["ring", "gather", "ulysses"])
def test_a_rank_that_dies(comm: str) -> None:
    """The others hear of it, and none waits for ever."""
    started = Ranks(3)
    try:
        started.post(ERRORS, "killed", 3, comm, 20.0)
        for rank in (0, 2):
            kind, (heard, seconds) = started.answer(rank)
            assert kind == "ok" and "PeerError: distributed." in heard, heard
            assert seconds < 40
    finally:
        started.stop()


def test_a_rank_that_stays_away() -> None:
    started = Ranks(3)
    try:
        started.post(ERRORS, "absent", 3, 2.0)
        for rank in (0, 2):
            kind, (heard, seconds) = started.answer(rank)
            assert kind == "ok" and "PeerError: distributed.attention: rank" in heard and "within 2 s" in heard, heard
            assert seconds < 20
    finally:
        started.stop()
