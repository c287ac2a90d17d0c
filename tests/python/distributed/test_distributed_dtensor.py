# SPDX-License-Identifier: Apache-2.0
"""phasor.attention of DTensors, and phasor.distributed under torch.compile."""

from __future__ import annotations

from typing import Any

import pytest

DTENSORS = "distributed_dtensor"


@pytest.mark.parametrize("number, scheme", list(enumerate(("t5", "alibi", "shaw", "xlnet", "t5_gated", "key_features", "dense", "rope"))))
def test_dtensors(ranks: Any, number: int, scheme: str) -> None:
    ranks.run(DTENSORS, "sharded", 2 + number % 2, scheme, 3, {})


def test_dtensors_drop_what_plain_tensors_drop(ranks: Any) -> None:
    for size in (2, 3):
        ranks.run(DTENSORS, "sharded", size, "t5", 3, {"dropout": 0.4, "dropout_seed": (3, 4)})
    assert all("without dropout_seed" in x for x in ranks.run(DTENSORS, "refused_dropout", 2)[:2])


def test_keys_by_tokens_are_refused(ranks: Any) -> None:
    heard = ranks.run(DTENSORS, "refused_placements", 2)
    assert all("phasor.distributed.attention" in x for x in heard[:2])


def test_compiled(ranks: Any) -> None:
    heard = ranks.run(DTENSORS, "compiled", 2)
    assert all("compares arguments between ranks on the host" in x for x in heard[:2])
