#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/gallery.md and docs/gallery/*.svg: each plot of the tool with the command that draws it. Argument: the tool."""
import shlex
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Name, words, arguments.
PLOTS = [
    ("decay", "What q and k of length 1 in each pair score by their distance. A larger base decays more slowly; Llama 3.1's scaling slows it further.",
     ["decay", "--base", "10000", "--against", "base=500000", "--against", "model=llama3.1", "--distances", "0:4097:16"]),
    ("similarity", "Every position with every other: the encoding knows distances, so each diagonal has one colour.",
     ["similarity", "--head-dim", "64", "--positions", "0:96"]),
    ("sinusoid", "The sinusoid itself: fast channels on the left, slow ones on the right.", ["sinusoid", "--head-dim", "64", "--positions", "0:64"]),
    ("clocks", "Six pairs as clocks, a hand for each position: the first pair turns every 6 positions, the last one every 54,000.", ["clocks"]),
    ("scaling", "From 4,096 to 32,768 positions: what each scaling makes of the frequency of each pair.",
     ["scaling", "--trained-length", "4096", "--wanted-length", "32768"]),
    ("error", "How far a float32 cosine or sine is off, by whose arithmetic makes it.", ["error", "--model", "llama3.1"]),
    ("bias", "What ALiBi adds to the score of each query and key, head by head: each looks half as far as the one after it.", ["bias", "--heads", "8"]),
]


def main():
    tool = sys.argv[1]
    (DOCS / "gallery").mkdir(parents=True, exist_ok=True)
    page = ["# Gallery", "", "Every plot of the tool, and the command that draws it. `make gallery` writes this page.", ""]
    for name, words, arguments in PLOTS:
        subprocess.run([tool, "plot", *arguments, "--out", DOCS / "gallery" / f"{name}.svg"], check=True)
        command = shlex.join(["phasor", "plot", *arguments, "--out", f"{name}.svg"])
        page += [f"## {name.capitalize()}", "", words, "", "```", command, "```", "", f"![{name}](gallery/{name}.svg)", ""]
    page += ["## A whole model", "", "`phasor report config.json -o report.html` puts these together with words and tables, on one page that needs nothing else.", ""]
    (DOCS / "gallery.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
