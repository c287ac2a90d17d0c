# SPDX-License-Identifier: Apache-2.0
"""The parts of docs/lab.md that are numbers: each a list of lines, from result files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.presets import NUMERICS_DOCUMENTS, NUMERICS_EXAMPLES
from lab.report.labels import CHANGED, PROFILES, TASKS, TRAINED, in_order, times
from lab.report.papers import found_answers
from lab.report.results import Results, Row
from lab.report.statistics import Value, value_of
from lab.report.tables import ABSENT, FEWER, MARK, by_length, cell, counted, documents_line, mark, mark_in_words, missing, refusals, table

PARTS = ("word", "close", "recall near", "recall far", "copy")  # the language's; chance holds nothing to be found
NOTHING = ["Nothing measured yet."]


def _losses(results: Results, order: tuple[str, ...], key: str) -> list[str]:
    labels = in_order(results.labels("measured"), order)
    if not labels:
        return NOTHING
    lines = by_length(results, "measured", labels, key, tuned=False)
    note = ["†: too slow for all documents of this length, so on the first of them alone.", ""] if any(FEWER in line for line in lines) else []
    return [f"Nats a token; {counted(results, labels)}{mark_in_words(lines)}. Documents: {documents_line(results, labels)}.", "", *lines, "", *note]


def last(results: Results) -> list[str]:
    """Loss on the last 512 tokens of trained encodings."""
    return [*_losses(results, TRAINED, "last"), *refusals(results, in_order(_all_labels(results), TRAINED))]


def whole(results: Results) -> list[str]:
    """Loss on all tokens of trained encodings."""
    return _losses(results, TRAINED, "loss")


def changed(results: Results) -> list[str]:
    """Rotary changed at evaluation, beside rotary as it is."""
    return [*_losses(results, ("rotary", *CHANGED), "last"), *refusals(results, in_order(_all_labels(results), CHANGED))]


def tuned(results: Results) -> list[str]:
    """After a short fine-tune, beside the same without."""
    labels = [label for label in CHANGED if results.rows("measured", label, tuned=True)]
    if not labels:
        return NOTHING
    settings = results.runs[0]["settings"]["changes"]
    multiples = sorted({row["multiple"] for label in labels for _, row in results.rows("measured", label, tuned=True)})
    rows = []
    for label in labels:
        for after in (False, True):
            cells = [cell(results, "measured", label, "last", round(one * results.length), tuned=after) for one in multiples]
            rows.append([label, "after" if after else "before", *cells])
    words = mark_in_words(text for row in rows for text in row)
    head = f"{settings['tune_steps']} steps at {settings['tune_factor']} times the length, with the scaling for that length; {counted(results, labels)}{words}."
    note = "Before, each length has the scaling for that length; after, all have the scaling that was tuned."
    return [f"{head} {note}", "", *table(["", "fine-tune", *map(times, multiples)], rows)]


def _all_labels(results: Results) -> set[str]:
    return results.labels("measured") | {row["label"] for run in results.runs for row in run["refused"]}


def _in_bins(row: Row, length: int, begin: int, end: int) -> float | None:
    """The mean of by_position from one position to another; None where no bin lies inside."""
    bins = row["by_position"]
    width = row["length"] / len(bins)
    inside = [value for number, value in enumerate(bins) if number * width >= begin and (number + 1) * width <= end and value is not None]
    return sum(inside) / len(inside) if inside else None


def positions(results: Results) -> list[str]:
    """Loss by position in the longest documents that a label was measured on."""
    labels = in_order(results.labels("measured"), ("rotary", *TRAINED, *CHANGED))
    if not labels:
        return NOTHING
    longest = max(results.seen("measured", "length"))
    length, edges = results.length, [0.0, 1.0]
    while edges[-1] * length < longest:
        edges.append(edges[-1] * 2)
    rows = []
    for label in dict.fromkeys(labels):
        found = results.rows("measured", label, length=longest, tuned=False)
        values = []
        for low, high in zip(edges, edges[1:]):
            numbers = [number for _, row in found if (number := _in_bins(row, length, int(low * length), int(high * length))) is not None]
            value = value_of(numbers) if numbers else None
            values.append(ABSENT if value is None else value.written() + mark(value, results.most("measured")))
        if found:
            rows.append([label, *values])
    head = [f"{low:g}x to {high:g}x" for low, high in zip(edges, edges[1:])]
    words = mark_in_words(text for row in rows for text in row)
    return [f"Documents of {longest} tokens ({longest / length:g}x); {counted(results, labels)}{words}.", "", *table(["", *head], rows)]


def retrieval(results: Results) -> list[str]:
    """A table a task: the share of examples whose whole answer is right, by length and distance."""
    lines: list[str] = []
    labels = in_order(results.labels("retrieval"), (*TRAINED, *CHANGED))
    for task in TASKS:
        places = sorted({(row["length"], row["distance"]) for label in labels for _, row in results.rows("retrieval", label, task=task)})
        rows = [[label, *_shares(results, label, task, places)] for label in labels if results.rows("retrieval", label, task=task)]
        if rows:
            head = [f"{times(length / results.length)}: {distance}" for length, distance in places]
            lines += [f"**{task}**, % of answers that are right in all tokens, by length: distance.", "", *table(["", *head], rows), *_of_few(results, rows, task, places), ""]
    words = mark_in_words(lines)
    return [f"{_examples(results, labels)}; {counted(results, labels, 'retrieval', True)}{words}.", "", *lines[:-1]] if lines else NOTHING


def _shares(results: Results, label: str, task: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """A cell a length and distance. Of what is changed only some are asked, which says nothing of what it takes."""
    values = [results.value("retrieval", label, "accuracy", task=task, length=length, distance=distance) for length, distance in places]
    return [missing(results, label, at[0]) if value is None else value.percent() + mark(value, results.most("retrieval")) for value, at in zip(values, places)]


def _of_few(results: Results, rows: Sequence[Sequence[str]], task: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """Whose seeds those of marked cells are, and what they find at the trained length: a seed that has not learned a task says nothing of how far it goes."""
    found: dict[tuple[str, str], list[str]] = {}  # distances by label with length, and seeds
    for label, *cells in rows:
        for (length, distance), shown in zip(places, cells):
            if MARK.search(shown):
                seeds = [seed for seed, _ in results.rows("retrieval", label, task=task, length=length, distance=distance)]
                own = results.numbers("retrieval", label, "accuracy", task=task, length=results.length)
                said = " and ".join(f"seed {seed} ({100 * own[seed]:.0f} % right at 1x)" if seed in own else f"seed {seed}" for seed in seeds)
                found.setdefault((f"{label} at {times(length / results.length)}", said), []).append(str(distance))
    return ["", "Seeds of what is marked:", "", *(f"- {where}: {', '.join(distances)}: {said}" for (where, said), distances in found.items())] if found else []


def answers(results: Results) -> list[str]:
    """The share of right answers over all tasks and distances, by length: retrieval in one table."""
    labels = in_order(results.labels("retrieval"), TRAINED)
    lengths = results.seen("retrieval", "length", labels)
    rows = []
    for label in labels:
        found = [list(found_answers(results, label, length).values()) for length in lengths]
        if any(found):
            shown = [value_of(some) if some else None for some in found]
            most = results.most("retrieval")
            cells = [missing(results, label, length) if value is None else value.percent() + mark(value, most) for value, length in zip(shown, lengths)]
            rows.append([label, *cells])
    words = mark_in_words(text for row in rows for text in row)
    head = f"**{results.preset}**, % of answers of all tasks and distances that are right in all tokens; {counted(results, labels, 'retrieval', True)}{words}."
    return [head, "", *table(["", *(times(length / results.length) for length in lengths)], rows)] if rows else NOTHING


def _examples(results: Results, labels: Sequence[str]) -> str:
    """How many a cell is of, by length."""
    found = {row["length"]: row["examples"] for label in labels for _, row in results.rows("retrieval", label)}
    return "Examples a seed: " + ", ".join(f"{times(length / results.length)} {count}" for length, count in sorted(found.items()))


def numerics(results: Results) -> list[str]:
    """What each profile costs over exact phases, seed by seed, on the last tokens; and the passkeys that it finds."""
    lengths = results.seen("numerics", "length")
    if not lengths:
        return NOTHING
    rows = [
        [label, f"{shift:,}", *(_rounded(results, label, length, shift) for length in lengths)]
        for label in in_order(results.labels("numerics"), PROFILES)
        for shift in results.seen("numerics", "shift")
    ]
    head = f"The first row is nats a token on the last tokens; the others are what they have more than it, seed by seed; {counted(results, PROFILES, 'numerics')}."
    asked = f"{NUMERICS_DOCUMENTS} documents a cell at most. After each: which share of {NUMERICS_EXAMPLES} passkeys a seed is found."
    return [f"{head} {asked}", "", *table(["", "first position", *(times(one / results.length) for one in lengths)], rows)]


def _rounded(results: Results, label: str, length: int, shift: int) -> str:
    """The loss of exact phases from position 0 on, or what is over it; then the passkeys found."""
    own, first = (results.numbers("numerics", of, "last", length=length, shift=at) for of, at in ((label, shift), (PROFILES[0], 0)))
    value = results.difference(own, first)
    if value is None:
        return ABSENT
    shown = value_of(list(own.values())).written(4) if (label, shift) == (PROFILES[0], 0) else value.written(4, True)
    keys = results.value("numerics", label, "passkey_accuracy", length=length, shift=shift)
    return shown + ("" if keys is None else f"; {keys.percent()} %")


TWINS = ("rotary bf16 tables", "rotary adjacent")  # trained as rotary is, but for roundings; the second is another order of the same channels


def trained_numerics(results: Results) -> list[str]:
    """Training with tables in bf16 against training with exact phases, seed by seed: loss in training and by length, then answers. The two pairings are
    a control: what they are apart, chance does."""
    multiples = results.seen("measured", "multiple", ("rotary",))
    losses = [_less_rotary(results, other, [_final, *(_last_at(one) for one in multiples)]) for other in TWINS]
    lengths = results.seen("retrieval", "length", ("rotary",))
    answers = [_less_rotary(results, other, [_answers_at(one) for one in lengths], 100, 0) for other in TWINS]
    if not any(losses):
        return NOTHING
    lines = [f"Nats a token, of the last steps of training and of the last tokens by length; {counted(results, ('rotary', *TWINS))}.", ""]
    lines += table(["", "training", *map(times, multiples)], filter(None, losses))
    if any(answers):
        lines += ["", "Right answers over all tasks, in percent:", "", *table(["", *(times(one / results.length) for one in lengths)], filter(None, answers))]
    return lines


def _less_rotary(results: Results, other: str, reads: Sequence[Callable[[Results, str], dict[int, float]]], scale: float = 1, digits: int = 3) -> list[str]:
    """A row, or nothing where nothing is measured of both."""
    values = [results.difference(read(results, other), read(results, "rotary")) for read in reads]
    shown = [None if one is None else Value(scale * one.mean, None if one.half is None else scale * one.half, one.seeds) for one in values]
    cells = [ABSENT if one is None else one.written(digits, True) for one in shown]
    return [f"{other} less rotary", *cells] if set(cells) - {ABSENT} else []


def _final(results: Results, label: str) -> dict[int, float]:
    return {run["seed"]: run["trained"]["final_loss"] for run in results.of(label) if run["trained"]}


def _last_at(multiple: float) -> Callable[[Results, str], dict[int, float]]:
    return lambda results, label: results.numbers("measured", label, "last", multiple=multiple, tuned=False)


def _answers_at(length: int) -> Callable[[Results, str], dict[int, float]]:
    return lambda results, label: found_answers(results, label, length)


def language(results: Results) -> list[str]:
    """Over the floor of the generated language, by length; then by part at 8 times the length."""
    labels = in_order(results.labels("language"), (*TRAINED, *CHANGED))
    if not labels:
        return NOTHING
    whole = by_length(results, "language", labels, "over")
    first = [f"Nats a token over the floor; {counted(results, labels, 'language')}{mark_in_words(whole)}.", "", *whole, ""]
    multiple = max((one for one in results.seen("language", "multiple") if one <= 8), default=None)
    rows = []
    for label in labels:
        found = [row["parts"] for _, row in results.rows("language", label, multiple=multiple)]
        cells = [[parts[name] for parts in found if parts.get(name) is not None] for name in PARTS]
        if found:
            rows.append([label, *(value_of(some).written(2) if some else ABSENT for some in cells)])
    return [*first, f"By what is to be found, at {times(multiple)}:" if multiple else "", "", *table(["over the floor", *PARTS], rows)]
