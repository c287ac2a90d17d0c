# SPDX-License-Identifier: Apache-2.0
"""Reads all results, and writes the page with its plots: every number there comes from a file in lab/results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.progress import Progress
from lab.report import choose, claims, ends, page, plots, prices, prose, said, said_design, sections, short, speed_plot, state, summary
from lab.report.results import Results, read_all

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results"
DESIGN = ROOT / "docs" / "design" / "lab.md"  # decisions, some sentences of which are about results of now
KEPT = ("first", "second")  # folders of runs with earlier settings
SHOWN = "small"  # the folder that the page is about, unless a section names another
SEEDS: dict[str, tuple[int, ...]] = {"small": (0, 1, 2), "small1024": (0,), "medium": (0,)}
PLOTS = ("last", "changed", "position", "language", "retrieval")


def made_sections(every: dict[str, Results], shown: str, costs: Path | None = None) -> dict[str, Callable[[], list[str]]]:
    """By the name of its marker, what makes each section: of the folder that is shown, and of each other one with its name before it."""
    found = _of_one(every.get(shown), pictures(every.get(shown), "lab"))
    if shown in every:
        found["setup"] = lambda: state.setup(every[shown], *(every[preset] for preset in SEEDS if preset in every and preset != shown))
    found |= {"queue": lambda: state.queue(every, SEEDS), **{f"cost on a {kind.lower()}": lambda kind=kind: prices.lines(costs and prices.read(costs, kind)) for kind in ("GPU", "CPU")}}
    found["plot speed"] = lambda: sections.NOTHING if costs is None or prices.read(costs, "GPU") is None else shown_twice("lab", speed_plot.NAME, speed_plot.CAPTION)
    found["cost of changes"] = lambda: sections.NOTHING if costs is None else prices.changes(costs)
    for folder in (*SEEDS, *KEPT):
        sections_of = _of_one(every.get(folder), pictures(every.get(folder), f"lab/{folder}"))
        found |= {f"{folder}: {name}": make for name, make in sections_of.items()}
    return found


def _of_one(results: Results | None, plots: Callable[[str], list[str]]) -> dict[str, Callable[[], list[str]]]:
    def of(make: Callable[[Results], list[str]]) -> Callable[[], list[str]]:
        return lambda: sections.NOTHING if results is None else make(results)

    found: dict[str, Callable[[], list[str]]] = {
        "in short": of(short.lines),
        "choose": of(choose.lines),
        "setup": of(state.setup),
        "encodings": of(state.encodings),
        "last tokens": of(sections.last),
        "end tokens": of(ends.trained),
        "changed end tokens": of(ends.changed),
        "all tokens": of(sections.whole),
        "changed": of(sections.changed),
        "tuned": of(sections.tuned),
        "positions": of(sections.positions),
        "retrieval": of(sections.retrieval),
        "answers": of(sections.answers),
        "numerics": of(sections.numerics),
        "trained numerics": of(sections.trained_numerics),
        "language": of(sections.language),
        "commits": of(state.commits),
        "paths": of(state.paths),
        "papers": lambda: claims.lines(results),
    }
    return found | {f"plot {name}": lambda name=name: plots(name) for name in PLOTS}  # type: ignore[misc]


def shown_twice(folder: str, name: str, caption: str) -> list[str]:
    """The two images of a plot as the page shows them; the site hides one of them."""
    return "\n\n".join(f"{{.plot .only-{theme}}}\n![{caption}]({folder}/{name}-{theme}.svg)" for theme in ("light", "dark")).split("\n")


def pictures(results: Results | None, folder: str) -> Callable[[str], list[str]]:
    """What shows a plot of these results, or says that there is none."""
    there = set() if results is None else set(plots.figures(results))

    def lines(name: str) -> list[str]:
        if name not in there:
            return sections.NOTHING
        return shown_twice(folder, name, plots.CAPTIONS[name])

    return lines


def make(results: Path, out: Path, shown: str | None = None, draw: bool = True) -> dict[str, Results]:
    """Writes lab.md, lab/summary.json and, unless told otherwise, the plots. Words around the numbers are those of docs/lab.md."""
    every = read_all(results)
    shown = shown or (SHOWN if SHOWN in every or not every else next(iter(every)))
    page_before = out / "lab.md" if (out / "lab.md").is_file() else ROOT / "docs" / "lab.md"
    text = page.filled(page_before.read_text(encoding="utf-8"), made_sections(every, shown, results))
    (out / "lab").mkdir(parents=True, exist_ok=True)
    found = summary.summary(every[shown]) if shown in every else summary.NOTHING
    (out / "lab" / "summary.json").write_text(json.dumps(found, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    if draw:
        drawn(every, shown, prices.read(results, "GPU"), out, text)
    (out / "lab.md").write_text(text, encoding="utf-8")
    return every


def drawn(every: dict[str, Results], shown: str, costs: dict[str, Any] | None, out: Path, text: str) -> None:
    """The plots that a page shows: some seconds each."""
    work: list[tuple[str, Callable[[], list[Path]]]] = []
    for folder in every:
        into = out / "lab" if folder == shown else out / "lab" / folder
        used = [name for name in PLOTS if f"({into.relative_to(out)}/{name}-light.svg)" in text]
        work += [(f"{folder}: {name}", lambda folder=folder, into=into, name=name: plots.draw(every[folder], into, [name])) for name in used]  # type: ignore[misc]
    work += [] if costs is None else [(speed_plot.NAME, lambda: speed_plot.draw(costs, out / "lab"))]
    progress = Progress(max(1, len(work)))
    for number, (name, make_one) in enumerate(work):
        progress.show(number, name)
        make_one()
    progress.end()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab report", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of result files (default lab/results)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder of lab.md and lab/ (default docs)")
    parser.add_argument("--preset", help=f"the folder of results that is shown (default {SHOWN}, or what there is)")
    parser.add_argument("--no-plots", action="store_true", help="leave the plots as they are")
    given = parser.parse_args(arguments)
    every = make(given.results, given.out, given.preset, not given.no_plots)
    counts = ", ".join(f"{name} {len(one.runs)}" for name, one in every.items()) or "none"
    print(f"{given.out}/lab.md: runs: {counts}")
    if given.results == RESULTS:  # the words are about these
        for problem in wrong_words((given.out / "lab.md").read_text(encoding="utf-8"), every):
            print(f"{given.out}/lab.md {problem}")
        for problem in wrong_design(DESIGN.read_text(encoding="utf-8"), every):
            print(f"{DESIGN.relative_to(ROOT)} {problem}")


def world_of(every: dict[str, Results]) -> prose.World | None:
    """Nothing where there are no prices on a GPU, which the words are about, too."""
    costs = prices.read(RESULTS, "GPU")
    return None if costs is None else prose.World(every, costs, prices.read(RESULTS, "CPU"))


def wrong_words(text: str, every: dict[str, Results]) -> list[str]:
    """What the page's own words have otherwise than the results of the repository."""
    world = world_of(every)
    return ["is about prices on a GPU, which are not there"] if world is None else prose.problems(text, prose.given(said.SAID, world))


def wrong_design(text: str, every: dict[str, Results]) -> list[str]:
    """The same of those sentences of the page of decisions that are about results of now."""
    world = world_of(every)
    return [] if world is None else prose.untrue(text, prose.given(said_design.SAID_DESIGN, world))
