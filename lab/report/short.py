# SPDX-License-Identifier: Apache-2.0
"""The first lines of the page: who is best where, in words that the numbers give."""

from __future__ import annotations

from lab.report.labels import CHANGED, TRAINED, in_order, times
from lab.report.results import Results
from lab.report.statistics import Value
from lab.report.tables import mark, mark_in_words

SHOWN = (1, 4, 16, 64)
NAMED = 3


def _ranked(results: Results, order: tuple[str, ...], multiple: float) -> list[tuple[str, Value]]:
    labels = in_order(results.labels("measured"), order)
    values = [(label, results.value("measured", label, "last", multiple=multiple, tuned=False)) for label in labels]
    return sorted(((label, value) for label, value in values if value is not None), key=lambda one: one[1].mean)


def _named(ranked: list[tuple[str, Value]], most: int) -> str:
    return ", ".join(f"{label} {value.written()}{mark(value, most)}" for label, value in ranked)


def lines(results: Results) -> list[str]:
    found, most = [], results.most("measured")
    for multiple in SHOWN:
        trained, changed = _ranked(results, TRAINED, multiple), _ranked(results, CHANGED, multiple)
        if len(trained) < 2:
            continue
        plain = next((value for label, value in trained if label == "rotary"), None)
        text = f"- **{times(multiple)}**: best of {len(trained)}: {_named(trained[:NAMED], most)}; worst: {_named(trained[-1:], most)}"
        text += "" if plain is None else f"; rotary as it is: {plain.written()}"
        found.append(text + (f"; rotary changed at evaluation, best: {_named(changed[:NAMED], most)}." if changed else "."))
    return [f"Nats a token on the last 512 tokens{mark_in_words(found)}:", "", *found] if found else ["Nothing measured yet."]
