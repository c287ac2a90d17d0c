# SPDX-License-Identifier: Apache-2.0
"""Does a model find what it was told, and from how far: accuracy and loss of the answers of tasks, by length and distance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from lab import device as places
from lab.data.store import TASKS, Examples, Store
from lab.encodings import Encoding
from lab.evaluation import TOKENS_AT_ONCE, Measured, Row

TEST_SEED, LEAST_EXAMPLES = 7_000_001, 4


@lru_cache(maxsize=512)
def _examples(store_hash: str, name: str, length: int, distance: int, count: int) -> Any:
    return _STORES[store_hash].task(name, length, distance, count, TEST_SEED)


_STORES: dict[str, Store] = {}  # what the hash above stands for


def examples(store: Store, name: str, length: int, distance: int, count: int) -> Examples:
    """Made once for all runs of a process."""
    _STORES[store.hash] = store
    return _examples(store.hash, name, length, distance, count)


def distance_at(store: Store, name: str, length: int, share: float) -> int:
    """The distance that is this share of the way from the least to the greatest."""
    near, far = store.distances(name, length)
    return round(near + share * (far - near))


@torch.no_grad()
def answered(of: Measured, asked: Examples, encoding: Encoding | None) -> tuple[float, float]:
    """The share of examples whose whole answer is the likeliest, token by token, and nats a token of the answers."""
    length = asked.tokens.shape[1] - 1
    rows = max(1, TOKENS_AT_ONCE // length)
    wrong, losses = np.zeros(asked.answer.shape, bool), []
    of.model.eval()
    for begin in range(0, len(asked.tokens), rows):
        tokens, mask = (torch.from_numpy(one[begin : begin + rows]).to(of.device) for one in (asked.tokens, asked.answer))
        with places.arithmetic(of.device, of.preset.dtype):
            hidden = of.model(tokens[:, :-1], encoding)[mask]
            targets = tokens[:, 1:][mask]
            logits = of.model.logits(hidden).float()
        losses.append(torch.nn.functional.cross_entropy(logits, targets, reduction="none").double().cpu())
        wrong[begin : begin + rows][asked.answer[begin : begin + rows]] = (logits.argmax(-1) != targets).cpu().numpy()
    return float(1 - wrong.any(axis=1).mean()), float(torch.cat(losses).mean())


def on_tasks(
    of: Measured,
    label: str,
    make: Callable[[float], Encoding | None],
    multiples: Iterable[float],
    shares: tuple[float, ...],
    names: tuple[str, ...] = TASKS,
) -> list[Row]:
    """Rows of a label; tasks that do not fit into a length are not asked there. `make` gives the encoding for a multiple."""
    rows: list[Row] = []
    for multiple in multiples:
        length, settings = of.preset.length(multiple), of.preset.retrieval
        count = int(np.clip(settings.tokens // length, min(LEAST_EXAMPLES, settings.most), settings.most))

        def work(name: str, share: float) -> Row:
            of.affordable(label, length, count)
            distance = distance_at(of.store, name, length, share)
            accuracy, loss = answered(of, examples(of.store, name, length, distance, count), make(multiple))
            return {"label": label, "task": name, "length": length, "distance": distance, "examples": count, "accuracy": accuracy, "loss": loss}

        for name, share in itertools.product(names, shares):
            if _fits(of.store, name, length):
                found = of.tried("retrieval", label, length, lambda: work(name, share))
                if not found:  # and so it is with every other task of this length
                    break
                rows += found
    return rows


def _fits(store: Store, name: str, length: int) -> bool:
    try:
        store.distances(name, length)
    except ValueError:
        return False
    return True
