# SPDX-License-Identifier: Apache-2.0
"""The first lines of the page: who is best where, and who gains by a longer text, in words that the numbers give."""

from __future__ import annotations

from lab.presets import LAST
from lab.report import ends
from lab.report.labels import CHANGED, CONTROLS, RANKED, in_order, times
from lab.report.losses import SHARE
from lab.report.papers import FAILS, HOLDS, SAME, verdict
from lab.report.results import Results
from lab.report.statistics import Value
from lab.report.tables import mark, mark_in_words, missing

SHOWN = (1, 4, 16, 64)
NAMED = 3
Ranked = list[tuple[str, Value]]


def _ranked(results: Results, order: tuple[str, ...], multiple: float) -> Ranked:
    labels = in_order(results.labels("measured"), order)
    values = [(label, results.value("measured", label, "last", multiple=multiple, tuned=False)) for label in labels]
    return sorted(((label, value) for label, value in values if value is not None), key=lambda one: one[1].mean)


def _named(ranked: Ranked, most: int, sign: bool = False) -> str:
    return ", ".join(f"{label} {value.written(3, sign)}{mark(value, most)}" for label, value in ranked)


def _left_out(results: Results, ranked: Ranked, multiple: float) -> str:
    """Who has no number at a length, and why: so many fewer are ranked."""
    out = [label for label in in_order(results.labels("measured"), RANKED) if label not in dict(ranked)]
    words = ", ".join(f"{label}: {missing(results, label, round(multiple * results.length))}" for label in out)
    return f" (not {words})" if out else ""


def lines(results: Results) -> list[str]:
    found, most = [], results.most("measured")
    for multiple in SHOWN:
        trained, changed = _ranked(results, RANKED, multiple), _ranked(results, CHANGED, multiple)
        if len(trained) < 2:
            continue
        plain = next((value for label, value in trained if label == "rotary"), None)
        text = f"- **{times(multiple)}**: best of {len(trained)}{_left_out(results, trained, multiple)}: {_named(trained[:NAMED], most)}; worst: {_named(trained[-1:], most)}"
        text += "" if plain is None else f"; rotary as it is: {plain.written()}"
        found.append(text + (f"; rotary changed at evaluation, best: {_named(changed[:NAMED], most)}." if changed else "."))
    if not found:
        return ["Nothing measured yet."]
    controls = f"ranked are encodings and the longer learned table, not the controls ({', '.join(CONTROLS)})"
    return [f"Nats a token on the last {LAST} tokens, each length by itself; {controls}{mark_in_words(found)}:", "", *found, *_gained(results, most)]


def _gained(results: Results, most: int) -> list[str]:
    """Who is better, level or worse at the greatest length that the bins tell than at the trained one; nothing where they tell no greater one."""
    if max(ends.lengths(results), default=1) <= 1:
        return []
    values = {label: value for label in in_order(results.labels("measured"), RANKED) if (value := ends.gained(results, label)) is not None}
    parts = []
    for kind, words in ((HOLDS, "better"), (SAME, "no clear difference"), (FAILS, "worse")):
        own = sorted(((label, value) for label, value in values.items() if verdict(value) == kind), key=lambda one: -one[1].mean)
        parts += [f"{words}: {_named(own, most, True)}"] if own else []
    head = f"From {times(1)} to {times(max(ends.lengths(results)))}, nats gained on the last {results.length // SHARE} tokens"
    why = f"the last {LAST} have another context at {times(1)}, so the lines above are not to be set against each other"
    return ["", f"{head} ({why}): {'; '.join(parts)}."] if parts else []
