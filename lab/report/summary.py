# SPDX-License-Identifier: Apache-2.0
"""docs/lab/summary.json: means that other pages and the playground show, so that none of them reads tables of Markdown."""

from __future__ import annotations

from typing import Any

from lab.report.labels import CHANGED, TRAINED, in_order
from lab.report.results import Results
from lab.report.sections import PARTS
from lab.report.statistics import Value

DIGITS = 4
NOTHING: dict[str, Any] = {
    **{name: {"multiples": [], "labels": {}} for name in ("text", "language")},
    "floor": [],
    "over": {"multiple": 8, "parts": [], "labels": {}},
}


def _cells(values: list[Value | None]) -> dict[str, list[float | None]]:
    return {
        "loss": [None if value is None else round(value.mean, DIGITS) for value in values],
        "interval": [None if value is None or value.half is None else round(value.half, DIGITS) for value in values],
    }


def _value(results: Results, section: str, label: str, key: str, multiple: float) -> Value | None:
    """A scaling by 1 is no scaling: there a changed label is rotary."""
    where: dict[str, Any] = {"multiple": multiple} | ({"tuned": False} if section == "measured" else {})
    if label in CHANGED and multiple <= 1 and not results.rows(section, label, **where):
        label = "rotary"
    return results.value(section, label, key, **where)


def summary(results: Results) -> dict[str, Any]:
    """Real text (the last tokens) and the generated language, by label and multiple."""
    found: dict[str, Any] = {"preset": results.preset, "data": results.runs[0]["data"], "length": results.length}
    for section, key, name in (("measured", "last", "text"), ("language", "loss", "language")):
        labels = in_order(results.labels(section), (*TRAINED, *CHANGED))
        multiples = results.seen(section, "multiple", labels)
        found[name] = {"multiples": multiples, "labels": {label: _cells([_value(results, section, label, key, one) for one in multiples]) for label in labels}}
    return found | {"floor": _floor(results, found["language"]["multiples"]), "over": _over(results)}


def _floor(results: Results, multiples: list[float]) -> list[float | None]:
    """The language's own entropy on what was measured: loss less what is over it, the same for all."""
    found: list[float | None] = []
    for multiple in multiples:
        rows = [row for label in results.labels("language") for _, row in results.rows("language", label, multiple=multiple) if row["loss"] is not None]
        found.append(round(rows[0]["loss"] - rows[0]["over"], DIGITS) if rows else None)
    return found


def _over(results: Results) -> dict[str, Any]:
    """Loss over the floor by part, at 8 times the length or the greatest below."""
    multiple = max((one for one in results.seen("language", "multiple") if one <= 8), default=1)
    labels: dict[str, dict[str, float]] = {}
    for label in in_order(results.labels("language"), (*TRAINED, *CHANGED)):
        rows = [row for _, row in results.rows("language", label, multiple=multiple) if row["over"] is not None]
        if rows:
            parts = {name: [row["parts"][name] for row in rows if row["parts"].get(name) is not None] for name in PARTS}
            means = {name: round(sum(some) / len(some), DIGITS) for name, some in parts.items() if some}
            labels[label] = {"all": round(sum(row["over"] for row in rows) / len(rows), DIGITS), **means}
    return {"multiple": multiple, "parts": ["all", *PARTS], "labels": labels}
