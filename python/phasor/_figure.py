# SPDX-License-Identifier: Apache-2.0
"""Draws what `phasor plot --json` prints, where the tool finds no gnuplot: python -m phasor._figure FIGURE.json OUT svg|png WIDTH HEIGHT."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from phasor.plot import _COLORS, _pyplot, _ticks

_FORMATS = {  # of the tool's marks: linestyle, marker
    "line": ("-", ""),
    "points": ("none", "o"),
    "line and points": ("-", "o"),
}


def _numbers(values: list[float | None], log: bool) -> np.ndarray:
    """What is no number, or has no logarithm, is a gap."""
    found = np.array([np.nan if value is None else value for value in values], float)
    return np.where(found > 0, found, np.nan) if log else found


def _curve(ax: Any, curve: dict[str, Any], number: int, panel: dict[str, Any]) -> None:
    place = curve.get("color", number)
    color = _COLORS[place % len(_COLORS)]
    x, y = (_numbers(curve[axis], panel[axis]["log"]) for axis in ("x", "y"))
    if curve["mark"] == "arrows":
        ax.quiver(0 * x, 0 * y, x, y, color=color, angles="xy", scale_units="xy", scale=1, width=0.014)
        return
    style, marker = _FORMATS[curve["mark"]]
    if style != "none" and (curve.get("dashed", False) or place >= len(_COLORS)):
        style = "--"
    ax.plot(x, y, label=curve["name"] or None, color=color, linestyle=style, marker=marker, markersize=3)


def _axes(ax: Any, panel: dict[str, Any]) -> None:
    """Scales and names of both axes, and the legend below: curves leave no corner free."""
    for name in ("x", "y"):
        axis = panel[name]
        ax.set(**{f"{name}label": axis["label"], f"{name}scale": "log" if axis["log"] else "linear"})
        getattr(ax, f"set_{name}lim")(axis.get("low"), axis.get("high"))
        if axis["log"]:  # matplotlib's own powers of ten are formulas, which are off
            drawn = getattr(ax, f"{name}axis")
            drawn.set_major_formatter(lambda value, _: f"1e{round(math.log10(value))}")
            drawn.set_minor_formatter(lambda value, _: "")
    ax.margins(x=0)
    ax.grid(color="#dddddd")
    ax.set_axisbelow(True)
    if any(curve["name"] for curve in panel["curves"]):
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize="small", frameon=False)


def _clock(ax: Any, panel: dict[str, Any]) -> None:
    radius = panel["circle"]
    ax.add_patch(_pyplot().Circle((0, 0), radius, fill=False, edgecolor="#999999"))
    ax.set(xlim=(-1.08 * radius, 1.08 * radius), ylim=(-1.08 * radius, 1.08 * radius), aspect="equal")
    ax.set_axis_off()


def _cells(ax: Any, panel: dict[str, Any]) -> None:
    """A value in each cell in colour, row 0 at the top."""
    cells = panel["cells"]
    values = _numbers(cells["values"], log=False).reshape(len(cells["rows"]), len(cells["columns"]))
    image = ax.imshow(
        values,
        cmap="viridis",
        interpolation="nearest",
        aspect="equal" if panel.get("square", False) else "auto",
        vmin=cells.get("low"),
        vmax=cells.get("high"),
    )
    _ticks(ax.yaxis, cells["rows"])
    _ticks(ax.xaxis, cells["columns"])
    ax.set(xlabel=panel["x"]["label"], ylabel=panel["y"]["label"])
    ax.figure.colorbar(image, ax=ax, label=cells["label"])


def _panel(ax: Any, panel: dict[str, Any]) -> None:
    ax.set_title(panel["title"], wrap=True)
    if "cells" in panel:
        _cells(ax, panel)
        return
    for number, curve in enumerate(panel["curves"]):
        _curve(ax, curve, number, panel)
    if "circle" in panel:
        _clock(ax, panel)
    else:
        _axes(ax, panel)


def draw(figure: dict[str, Any], width: int, height: int) -> Any:
    """The figure of matplotlib, in pixels."""
    pyplot = _pyplot()
    panels, columns = figure["panels"], max(figure["columns"], 1)
    rows = -(-len(panels) // columns)
    drawn, grid = pyplot.subplots(rows, columns, figsize=(width / 72, height / 72), dpi=72, layout="constrained", squeeze=False)
    for ax in grid.reshape(-1)[len(panels) :]:
        ax.remove()
    if len(panels) == 1:
        panels = [{**panels[0], "title": figure["title"]}]
    else:
        drawn.suptitle(figure["title"])
    for ax, panel in zip(grid.reshape(-1), panels):
        _panel(ax, panel)
    if figure["legend"]:
        hands = [pyplot.Line2D([], [], color=_COLORS[i % len(_COLORS)], linewidth=2) for i in range(len(figure["legend"]))]
        drawn.legend(hands, figure["legend"], loc="outside lower center", ncols=min(len(hands), 5), frameon=False, fontsize="small")
    return drawn


def main(source: str, out: str, kind: str, width: str, height: str) -> None:
    """Reads the figure and writes the picture."""
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, and two pictures of the same numbers are the same bytes. A user's $ is no formula.
    settings = {"font.size": 12, "svg.fonttype": "none", "svg.hashsalt": "phasor", "text.parse_math": False}
    with matplotlib.rc_context(settings):
        drawn = draw(json.loads(Path(source).read_text(encoding="utf-8")), int(width), int(height))
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type")) if kind == "svg" else {"Software": None}
        drawn.savefig(out, format=kind, metadata=nothing)
    if kind == "svg":  # pixels, as gnuplot's
        text = Path(out).read_text(encoding="utf-8")
        for name, pixels in (("width", width), ("height", height)):
            text = re.sub(rf'\b{name}="[\d.]+pt"', f'{name}="{pixels}"', text, count=1)
        Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ImportError as error:
        sys.exit(str(error))
