# SPDX-License-Identifier: Apache-2.0
"""The plot of prices: which share of rotary's speed each encoding has left, in training and in decoding, from a file of `python -m lab cost`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from lab.report import prices, style
from lab.report.labels import CONTROLS, RUNS, in_order

NAME, CAPTION = "speed", "share of rotary's speed that each encoding has left, in training and in decoding, on a GPU"
TICKS = {"training": (0.5, 0.6, 0.7, 0.8, 0.9, 1), "decoding": (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)}
APART = 0.25  # rows, of points of one encoding that would lie on each other
MARKERS = ("o", "^", "D", "s")
Theme = dict[str, Any]
Points = list[tuple[float, float]]


def _shares(found: dict[str, Any], labels: list[str], read: prices.Reader, launched: str) -> Points:
    """(share, row) of each label; none of one that was not measured, or launched piece by piece: that is the host's time."""
    points: Points = []
    for row, label in enumerate(labels):
        pairs = [(read(one), read(base)) for one, base in zip(found["rounds"][label], found["rounds"]["rotary"]) if launched not in one.get("launched", {})]
        shares = [one / base for one, base in pairs if one is not None and base is not None]
        if shares:
            points.append((statistics.median(shares), float(row)))
    return points


def figure(found: dict[str, Any], theme: Theme) -> Any:
    labels = [label for label in in_order(set(found["rounds"]), RUNS) if label not in CONTROLS]
    keys = [str(one) for one in found["settings"]["keys"]]
    made, (training, decoding) = style.panels(2, 2, theme, (5.0, 0.9 + 0.24 * len(labels)))
    made.subplots_adjust(left=0.14, right=0.99, wspace=0.4, bottom=0.1, top=0.9)
    for ax, title in ((training, "training"), (decoding, "decoding")):
        ticks = TICKS[title]
        ax.set(title=title, xlabel="times rotary's tokens per second")
        ax.set_xscale("log", base=2)
        ax.set_xticks(ticks, [f"{one:g}" if one == round(one, 1) else f"1/{1 / one:g}" for one in ticks])
        ax.set_xlim(ticks[0] / 1.08, 1.1)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.minorticks_off()
        ax.axvline(1, color=theme["ink"], linewidth=0.8, linestyle=":")
    _drawn(training, "training", _shares(found, labels, lambda one: one["training"], "training"), 0, theme)
    for number, at in enumerate(keys):
        points = _shares(found, labels, lambda one, at=at: one["decoding"].get(at), at)
        offset = APART * (number - (len(keys) - 1) / 2)
        _drawn(decoding, f"{at} keys", [(share, row + offset) for share, row in points], number, theme)
    decoding.legend(loc="upper left", fontsize=8, frameon=False, labelcolor=theme["ink"])
    return made


def _drawn(ax: Any, name: str, points: Points, number: int, theme: Theme) -> None:
    """Points alone: a line from one encoding to the next would say nothing. They differ by shape, and by filling."""
    color = theme["colors"][number]
    look = {"color": color, "linestyle": "none", "marker": MARKERS[number], "markersize": 5, "markerfacecolor": color if number % 2 == 0 else "none", "label": name}
    style.line(ax, name, points, look)


def draw(found: dict[str, Any], folder: Path, kind: str = "svg") -> list[Path]:
    """speed-light.svg and speed-dark.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{NAME}-{theme}.{kind}" for theme in style.THEMES]
    for path, theme in zip(made, style.THEMES.values()):
        style.saved(figure(found, theme), path)
    return made
