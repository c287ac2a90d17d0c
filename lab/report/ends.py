# SPDX-License-Identifier: Apache-2.0
"""What each label gains or loses with the length, in tables: on the very last tokens (losses.py says why on these), as long as by_position tells so few;
and beyond, on the last 512 from twice the trained length on."""

from __future__ import annotations

from lab.presets import LAST
from lab.report.labels import CHANGED, TRAINED, in_order, times
from lab.report.losses import FIRST_FULL, SHARE, end_loss, last_loss, tokens_told
from lab.report.results import Results
from lab.report.statistics import Value, value_of
from lab.report.tables import ABSENT, counted, mark, mark_in_words, table


def lengths(results: Results) -> list[float]:
    """Those whose bins tell an eighth of the trained length: there all columns are of the same tokens."""
    whole = results.length // SHARE
    return [one for one in results.seen("measured", "multiple") if tokens_told(results, one) == whole]


def gained(results: Results, label: str) -> Value | None:
    """From the trained length to the greatest whose bins tell it: above 0 where the label reads better there."""
    return results.difference(end_loss(results, label, 1), end_loss(results, label, max(lengths(results))))


def gained_beyond(results: Results, label: str) -> Value | None:
    """The same of the last 512 tokens, from twice the trained length to the greatest."""
    greatest = max(results.seen("measured", "multiple"))
    return results.difference(last_loss(results, label, FIRST_FULL), last_loss(results, label, greatest))


def _shown(value: Value | None, most: int, sign: bool = False) -> str:
    return ABSENT if value is None else value.written(3, sign) + mark(value, most)


def _table(results: Results, order: tuple[str, ...]) -> list[str]:
    labels, columns = in_order(results.labels("measured"), order), lengths(results)
    if not labels or 1 not in columns or max(columns) == 1:
        return ["Nothing measured yet."]
    greatest, most = max(results.seen("measured", "multiple")), results.most("measured")
    rows = []
    for label in labels:
        found = [end_loss(results, label, one) for one in columns]
        cells = [_shown(value_of(list(one.values())) if one else None, most) for one in found]
        rows.append([label, *cells, *(_shown(value, most, True) for value in (gained(results, label), gained_beyond(results, label)))])
    head = ["", *map(times, columns), f"gained, {times(1)} to {times(max(columns))}", f"gained on the last {LAST}, {times(FIRST_FULL)} to {times(greatest)}"]
    words = mark_in_words(text for row in rows for text in row)
    note = "gained: the difference seed by seed, above 0 where the greater length is read better."
    return [f"Nats a token on the last {results.length // SHARE}; {counted(results, labels)}{words}; {note}", "", *table(head, [row for row in rows if set(row[1:]) != {ABSENT}])]


def trained(results: Results) -> list[str]:
    return _table(results, TRAINED)


def changed(results: Results) -> list[str]:
    return _table(results, ("rotary", *CHANGED))
