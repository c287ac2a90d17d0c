# SPDX-License-Identifier: Apache-2.0
"""How plots look: two themes, lines that are told apart without colour, names at their ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

# Okabe and Ito's colours, which colour-blind eyes tell apart; lighter ones where they would be too dark.
THEMES = {
    "light": {"ink": "#14181e", "faint": "#8a9099", "colors": ("#0072b2", "#d55e00", "#009e73", "#a8518a", "#2f8fc4", "#b07d00", "#5b5bd6", "#7a4a21")},
    "dark": {"ink": "#e6e8ea", "faint": "#8a9099", "colors": ("#56b4e9", "#ff9150", "#3fd0a4", "#e6a1c8", "#9ad2f6", "#f0c040", "#a8a8ff", "#d8a982")},
}
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (3, 1, 1, 1)), (0, (9, 3)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
RC = {"svg.hashsalt": "phasor", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def styles(labels: Sequence[str], theme: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and marker of each line of a panel; rotary is thick and in ink in every panel."""
    others = [label for label in labels if label != "rotary"]
    found: dict[str, dict[str, Any]] = {
        label: {"color": theme["colors"][i % 8], "linestyle": DASHES[i % 8], "marker": MARKERS[i % 8], "linewidth": 1.4, "markersize": 4}
        for i, label in enumerate(others)
    }
    return found | ({"rotary": {"color": theme["ink"], "linestyle": "-", "marker": ".", "linewidth": 2.4, "markersize": 6}} if "rotary" in labels else {})


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near as can be to those wanted, in their order and no nearer to each other than `gap`."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    if not order:
        return []
    gap = min(gap, (high - low) / max(len(order) - 1, 1))
    placed: list[float] = []
    for rank, number in enumerate(order):  # up where one is in the way, then down from the top
        placed.append(max(wanted[number], low, placed[-1] + gap if rank else low))
    limit = high
    for rank in range(len(placed) - 1, -1, -1):
        placed[rank] = min(placed[rank], limit)
        limit = placed[rank] - gap
    result = [0.0] * len(order)
    for rank, number in enumerate(order):
        result[number] = placed[rank]
    return result


def named(ax: Any, ends: dict[str, tuple[float, float]], looks: dict[str, dict[str, Any]], names: dict[str, str] | None = None) -> None:
    """The name of each line beside the panel, a thin line from its end to it; of a line that ends early, right at its end."""
    transform = ax.transData + ax.transAxes.inverted()
    at = {label: transform.transform(end) for label, end in ends.items()}
    far = max((place[0] for place in at.values()), default=1.0)
    outside = [label for label in at if at[label][0] > far - 0.05]
    places = dict(zip(outside, spread([float(at[label][1]) for label in outside], 0.062, 0.0, 1.0)))
    for label, end in at.items():
        color, name = looks[label]["color"], (names or {}).get(label, label)
        if label in places:
            ax.plot([end[0], 1.03], [end[1], places[label]], transform=ax.transAxes, color=color, linewidth=0.6, clip_on=False)
            ax.text(1.04, places[label], name, transform=ax.transAxes, color=color, va="center", fontsize=8)
        else:
            ax.text(end[0] + 0.015, end[1] - 0.045, name, transform=ax.transAxes, color=color, va="center", fontsize=8)


def line(ax: Any, label: str, points: Sequence[tuple[float, float]], look: dict[str, Any], halves: Sequence[float] | None = None, **options: Any) -> None:
    """A line of a panel, with intervals where there are some. What is drawn is kept with the figure, for `digest`."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if halves is None:
        ax.plot(xs, ys, **look, **options)
    else:
        ax.errorbar(xs, ys, yerr=halves, capsize=2, elinewidth=0.7, **look, **options)
    drawn = ax.figure.__dict__.setdefault("drawn", [])
    drawn.append([ax.get_title(), label, *([f"{one:.4g}" for one in some] for some in (xs, ys, halves or ()))])


def digest(figure: Any) -> str:
    """Of the numbers that a figure shows, by panel and label: whatever draws them, and wherever names stand."""
    return hashlib.sha256(json.dumps(getattr(figure, "drawn", [])).encode()).hexdigest()


def doubling(ax: Any, low: float, high: float) -> None:
    """A logarithmic axis with a number at every second doubling."""
    ax.set_xscale("log", base=2)
    ticks = [2**power for power in range(1, 24) if low / 2 <= 2**power <= high * 1.1]
    ticks = ticks[::-1][::2][::-1] if len(ticks) > 6 else ticks
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()


def panels(count: int, columns: int, theme: dict[str, Any], size: tuple[float, float] = (5.2, 3.4)) -> tuple[Any, list[Any]]:
    """A figure of so many panels on nothing, in the theme's ink."""
    pyplot.rcParams.update(RC)
    rows = -(-count // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False)
    figure.subplots_adjust(wspace=0.55, hspace=0.45, right=0.87, left=0.07, top=1 - 0.32 / (size[1] * rows), bottom=0.5 / (size[1] * rows))
    flat = [ax for row in axes for ax in row]
    for ax in flat[count:]:
        ax.remove()
    for ax in flat[:count]:
        ax.patch.set_alpha(0)
        for spine in ax.spines.values():
            spine.set_color(theme["faint"])
        ax.tick_params(colors=theme["ink"], which="both")
        for one in (ax.xaxis.label, ax.yaxis.label, ax.title):
            one.set_color(theme["ink"])
        ax.grid(alpha=0.25, color=theme["faint"], linewidth=0.6)
    return figure, flat[:count]


def saved(figure: Any, path: Path) -> None:
    """The same bytes each time. The file says of which numbers it is."""
    about = {"Date": None, "Creator": None, "Description": f"numbers {digest(figure)}"}
    figure.savefig(path, metadata=about if path.suffix == ".svg" else {"Software": None}, transparent=True)
    pyplot.close(figure)


def limits(ax: Any, values: Sequence[float]) -> None:
    """Room for all values, and a little more."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    ax.set_ylim(low - 0.05 * (high - low) - 0.005, high + 0.05 * (high - low) + 0.005)
