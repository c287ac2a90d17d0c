# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/lab.md, each for the light and the dark theme, from result files alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.report import style
from lab.report.labels import FAMILIES, MAPS, SCALINGS, TASKS, in_order
from lab.report.results import Results

FINDERS: dict[str, tuple[str, ...]] = {  # as many as a panel can show
    "biases by distance": ("rotary", *FAMILIES["bias by distance"]),
    "others": ("rotary", "none", "sinusoidal", "xpos", "shaw", "shaw values", "transformer-xl", "deberta", "cope"),
}
Theme = dict[str, Any]
Panel = tuple[str, Sequence[str]]


def _there(results: Results, section: str, groups: Sequence[Panel]) -> list[Panel]:
    """Panels of what was measured; rotary is in each of them, to compare with."""
    found: list[Panel] = []
    for title, labels in groups:
        there = in_order(results.labels(section), tuple(labels))
        if there and there != ["rotary"]:
            found.append((title, [*there, *(["rotary"] if "rotary" not in there and "rotary" in results.labels(section) else [])]))
    return found


def trained_panels() -> list[Panel]:
    return list(FAMILIES.items())


def changed_panels() -> list[Panel]:
    return [("rotary, scaled at evaluation", [f"rotary, {how}" for how in SCALINGS]), ("rotary, distances mapped at evaluation", [f"rotary, {how}" for how in MAPS])]


def _short(label: str) -> str:
    return label.removeprefix("rotary, ")


def _lengths(ax: Any, multiples: Sequence[float]) -> None:
    ax.set_xscale("log", base=2)
    shown = [one for one in multiples if one != 1.5]  # too near its neighbours for a name
    ax.set_xticks(shown, [f"{one:g}" for one in shown])
    ax.minorticks_off()


def by_length(results: Results, groups: Sequence[Panel], section: str, key: str, theme: Theme) -> Any:
    """Loss against the multiple of the trained length, with intervals. Rotary is in every panel, whose scale is its own: who fails must not flatten who does not."""
    groups = _there(results, section, groups)
    figure, axes = style.panels(len(groups), 2, theme)
    multiples = results.seen(section, "multiple")
    where = {"tuned": False} if section == "measured" else {}
    found = {
        label: [(one, value) for one in multiples if (value := results.value(section, label, key, multiple=one, **where)) is not None]
        for _, labels in groups
        for label in labels
    }
    for ax, (title, labels) in zip(axes, groups):
        looks = style.styles(labels, theme)
        ax.set(title=title, xlabel="length / trained length", ylabel="nats a token" + (" over the floor" if key == "over" else ""))
        _lengths(ax, multiples)
        style.limits(ax, [value.mean for label in labels for _, value in found[label]])
        ax.axvline(1, color=theme["faint"], linewidth=0.8, linestyle=":")
        for label in labels:
            style.line(ax, label, [(x, value.mean) for x, value in found[label]], looks[label], [value.half or 0.0 for _, value in found[label]])
        ends = {label: (found[label][-1][0], found[label][-1][1].mean) for label in labels if found[label]}
        style.named(ax, ends, looks, {label: _short(label) for label in labels})
    return figure


def by_position(results: Results, theme: Theme) -> Any:
    """Loss against the position in the longest documents, a point a bin of 1/64."""
    groups = _there(results, "measured", [*trained_panels(), *changed_panels()])
    figure, axes = style.panels(len(groups), 2, theme)
    longest = max(results.seen("measured", "length"))
    lines = {label: line for _, labels in groups for label in labels if (line := _line(results, label, longest))}
    for ax, (title, labels) in zip(axes, groups):
        looks, ends = style.styles(labels, theme), {}
        ax.set(title=title, xlabel=f"position in documents of {longest} tokens (dotted: trained length)", ylabel="nats a token")
        style.limits(ax, [one for label in labels for one in lines.get(label, [])])
        style.doubling(ax, longest / 64, longest)
        ax.axvline(results.length, color=theme["faint"], linewidth=0.8, linestyle=":")
        for label in (one for one in labels if one in lines):
            mean = lines[label]
            xs = [(number + 0.5) * longest / len(mean) for number in range(len(mean))]
            style.line(ax, label, list(zip(xs, mean)), looks[label], markevery=[2**power - 1 for power in range(7) if 2**power <= len(mean)])
            ends[label] = (xs[-1], mean[-1])
        style.named(ax, ends, looks, {label: _short(label) for label in labels})
    return figure


def _line(results: Results, label: str, length: int) -> list[float]:
    """by_position, the mean over seeds."""
    rows = [row["by_position"] for _, row in results.rows("measured", label, length=length, tuned=False) if None not in row["by_position"]]
    return [sum(bins) / len(bins) for bins in zip(*rows)]


def by_distance(results: Results, theme: Theme) -> Any:
    """Right answers against the distance, a row of panels a task: at each length from as far as was asked."""
    groups = [(title, there) for title, labels in FINDERS.items() if (there := in_order(results.labels("retrieval"), labels))]
    figure, axes = style.panels(len(TASKS) * len(groups), len(groups), theme, (5.2, 2.7))
    for ax, (task, (title, labels)) in zip(axes, itertools.product(TASKS, groups)):
        ends, looks = {}, style.styles(labels, theme)
        ax.set(title=f"{task}, {title}", xlabel="distance (dotted: trained length)", ylabel="% right", ylim=(-4, 104))
        for label in labels:
            rows = [row for _, row in results.rows("retrieval", label, task=task)]
            farthest = sorted({max(row["distance"] for row in rows if row["length"] == length) for length in {row["length"] for row in rows}})
            values = [(one, results.value("retrieval", label, "accuracy", task=task, distance=one)) for one in farthest]
            seeds = len({seed for seed, _ in results.rows("retrieval", label, task=task)})  # of fewer than all a mean is another one: a seed learns a task or does not
            points = [(x, 100 * value.mean) for x, value in values if value is not None and value.seeds == seeds]
            if points:
                style.line(ax, label, points, looks[label])
                ends[label] = points[-1]
        ax.axvline(results.length, color=theme["faint"], linewidth=0.8, linestyle=":")
        style.doubling(ax, results.length / 2, max((x for x, _ in ends.values()), default=2.0 * results.length))
        style.named(ax, ends, looks)
    return figure


def figures(results: Results) -> dict[str, Callable[[Theme], Any]]:
    """By name, those for which there is something to draw."""
    found: dict[str, Callable[[Theme], Any]] = {}
    if _there(results, "measured", trained_panels()):
        found["last"] = lambda theme: by_length(results, trained_panels(), "measured", "last", theme)
        found["position"] = lambda theme: by_position(results, theme)
    if _there(results, "measured", changed_panels()):
        found["changed"] = lambda theme: by_length(results, changed_panels(), "measured", "last", theme)
    if _there(results, "language", [*trained_panels(), *changed_panels()]):
        found["language"] = lambda theme: by_length(results, [*trained_panels(), *changed_panels()], "language", "over", theme)
    if results.labels("retrieval") & {label for labels in FINDERS.values() for label in labels}:
        found["retrieval"] = lambda theme: by_distance(results, theme)
    return found


def draw(results: Results, folder: Path, names: Sequence[str] | None = None, kind: str = "svg") -> list[Path]:
    """NAME-light.svg and NAME-dark.svg of each, or of those of some names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, make in figures(results).items():
        if names is not None and name not in names:
            continue
        for theme, looks in style.THEMES.items():
            made.append(folder / f"{name}-{theme}.{kind}")
            style.saved(make(looks), made[-1])
    return made


CAPTIONS = {
    "last": "loss on the last 512 tokens by length, trained encodings",
    "changed": "loss on the last 512 tokens by length, rotary changed at evaluation",
    "position": "loss by position in the longest documents",
    "language": "loss over the floor of the generated language by length",
    "retrieval": "right answers by distance, for each task, from as far as was asked at each length; where not all seeds were asked there is no point",
}
