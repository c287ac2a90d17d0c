# SPDX-License-Identifier: Apache-2.0
"""What the runs found: means over seeds, as tables and as a picture."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# Okabe and Ito's colours, told apart by colour-blind eyes, and dashes for the next rounds of them. Black is rotary, which is in both panels.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
PARTS = ("word", "close", "recall near", "recall far", "copy")  # chance holds nothing to be found


def summary(rows: list[Row]) -> list[Row]:
    """For every encoding and length: mean and standard deviation over the seeds, of all and of every part."""
    found = []
    for key in dict.fromkeys((row["encoding"], row["multiple"]) for row in rows):
        same = [row for row in rows if (row["encoding"], row["multiple"]) == key]
        one: Row = {"encoding": key[0], "multiple": key[1]}
        if "error" in same[0]:
            found.append({**one, "error": same[0]["error"]})
            continue
        for value in ("loss", "over"):
            values = [row[value] for row in same]
            one[value], one[f"{value}_deviation"] = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
        one["parts"] = {
            part: None if same[0]["parts"][part] is None else statistics.fmean(row["parts"][part] for row in same) for part in PARTS
        }
        one["by_position"] = [statistics.fmean(values) for values in zip(*(row["by_position"] for row in same))]
        found.append(one)
    return found


def _lines(cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _names(found: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["encoding"] for row in found))


def _of(found: list[Row], name: str, multiple: float) -> Row:
    return next(row for row in found if row["encoding"] == name and row["multiple"] == multiple)


def loss_table(result: Row) -> list[str]:
    """Loss at every length; what the library refuses is said below."""
    multiples, found = result["settings"]["multiples"], result["summary"]
    cells = [["encoding", *(f"{multiple:g}x" for multiple in multiples)]]
    for name in _names(found):
        rows = [_of(found, name, multiple) for multiple in multiples]
        cells.append([name, *("error" if "error" in row else f"{row['loss']:.3f} ({row['loss_deviation']:.3f})" for row in rows)])
    cells.append(["floor", *(f"{result['floor'][f'{multiple:g}']:.3f}" for multiple in multiples)])
    refused = {row["encoding"]: row["error"] for row in reversed(found) if "error" in row}
    return [*_lines(cells), *(f"\n{name}: {error}" for name, error in refused.items())]


def part_table(result: Row) -> list[str]:
    """Loss over the floor at the greatest length, by part of the language."""
    multiple, found = max(result["settings"]["multiples"]), result["summary"]
    cells = [[f"over the floor at {multiple:g}x", "all", *PARTS]]
    for name in _names(found):
        row = _of(found, name, multiple)
        if "error" not in row:
            parts = ["-" if row["parts"][part] is None else f"{row['parts'][part]:.2f}" for part in PARTS]
            cells.append([name, f"{row['over']:.2f}", *parts])
    return _lines(cells)


def text(result: Row) -> str:
    settings = result["settings"]
    shape, seeds = settings["shape"], len(result["seeds"])
    head = (
        f"Nats a token, mean (and deviation) of {seeds} seed{'s' if seeds > 1 else ''}; trained on {settings['steps']} batches of "
        f"{settings['batch']} documents of {shape['length']} tokens, {shape['layers']} layers of width {shape['width']}, {shape['heads']} heads; "
        f"uniform guesses cost {result['uniform']:.3f}."
    )
    return "\n".join([head, "", *loss_table(result), "", *part_table(result), ""])


def draw(result: Row, path: Path) -> None:
    """Above: loss over the floor by length; below: by position in the longest documents. Left: what was trained; right: what rotary was given."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = _names(result["summary"])
    groups = ([name for name in names if "," not in name], [name for name in names if name.startswith("rotary")])
    figure, axes = pyplot.subplots(2, 2, figsize=(12, 9), layout="constrained", sharey="row", squeeze=False)
    for column, (group, title) in enumerate(zip(groups, ("encodings", "rotary, and what it is given for the length without further training"))):
        for name, style in _styles(group).items():
            _draw_lengths(axes[0, column], result, name, style)
            _draw_positions(axes[1, column], result, name, style)
        if not group:
            continue
        axes[0, column].legend(title=title, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)  # clear of the lines
    _label(axes, result["settings"])
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _styles(group: list[str]) -> dict[str, Row]:
    colored = [name for name in group if name != "rotary"]
    lines = ("-", "--", ":")
    styles: dict[str, Row] = {
        name: {"color": COLORS[i % len(COLORS)], "linestyle": lines[i // len(COLORS)]} for i, name in enumerate(colored)
    }
    styles |= {"rotary": {"color": "black", "linestyle": "-", "linewidth": 2.5}} if "rotary" in group else {}
    return {name: {**styles[name], "label": name.removeprefix("rotary, ")} for name in group}


def _draw_lengths(ax: Any, result: Row, name: str, style: Row) -> None:
    rows = [row for row in result["summary"] if row["encoding"] == name and "error" not in row]
    ax.errorbar(
        [row["multiple"] for row in rows],
        [row["over"] for row in rows],
        yerr=[row["over_deviation"] for row in rows],
        marker="o",
        capsize=3,
        **style,
    )


def _draw_positions(ax: Any, result: Row, name: str, style: Row) -> None:
    row = _of(result["summary"], name, max(result["settings"]["multiples"]))
    if "error" in row:  # then as far as it goes
        row = next(row for row in result["summary"] if row["encoding"] == name)
        if "error" in row:
            return
    values, multiple = row["by_position"], row["multiple"]
    step = multiple * result["settings"]["shape"]["length"] / len(values)
    ax.plot([(number + 0.5) * step for number in range(len(values))], values, **style)


def _label(axes: Any, settings: Row) -> None:
    multiples, length = settings["multiples"], settings["shape"]["length"]
    for ax in axes[0]:
        ax.set(xscale="log", yscale="log", xlabel="length of the documents / trained length")
        ax.set_xticks(multiples, [f"{multiple:g}" for multiple in multiples])
        ax.set_xticks([], minor=True)
    for ax in axes[1]:
        ax.axvline(length, color="grey", linewidth=1, linestyle=":")
        ax.set(yscale="log", xlabel=f"position in a document of {max(multiples):g}x (dotted: the trained length)")
    for row in axes:
        row[0].set_ylabel("nats a token over the floor")
        for ax in row:
            ax.grid(alpha=0.3, which="both")
            ax.yaxis.set_major_formatter("{x:g}")
            low, high = ax.get_ylim()
            digits = "25" if high > 4 * low else "123456789"  # a decade has no room for all of them
            ax.yaxis.set_minor_formatter(lambda value, _, digits=digits: f"{value:.4g}" if f"{value:e}"[0] in digits else "")
