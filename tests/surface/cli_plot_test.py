#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots and the report: produced, parsed, opened in a browser; and what happens without gnuplot. Argument: the tool."""
import html.parser
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TOOL = sys.argv.pop(1)
SVG = "{http://www.w3.org/2000/svg}"
# Arguments, and words that the picture shows.
PLOTS = {
    "decay": (["--against", "base=500000", "--against", "scaling=linear factor=8"], ["distance (positions)", "base 10000, unscaled", "scaling=linear factor=8"]),
    "similarity": (["--head-dim", "64", "--positions", "0:33"], ["position", "cosine similarity"]),
    "sinusoid": (["--head-dim", "8", "--positions", "0,1,10,100"], ["channel (even: sine, odd: cosine)", "position", "value"]),
    "clocks": (["--head-dim", "6"], ["pair 2: a turn in", "position 1000"]),
    "scaling": (["--trained-length", "4096", "--wanted-length", "8192"], ["pair", "frequency / frequency as trained", "yarn: seen up to"]),
    "error": (["--positions", "1,100,10000,1000000"], ["position", "largest error of a cosine or sine", "vllm"]),
    "bias": (["--length", "12", "--heads", "3", "--show", "0,2"], ["key position", "query position", "head 2", "bias"]),
}


def phasor(*arguments, **environment):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


class Strict(html.parser.HTMLParser):
    """Every element that is opened is closed, in order."""

    VOID = {"meta"}

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in ("href", "xlink:href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


class Plots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def good(self, *arguments, **environment):
        done = phasor(*arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def test_every_plot_is_listed(self):
        listed = re.findall(r"^  ([a-z]+) {2,}", self.good("plot", "--help").split("Subcommands:")[1], re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(PLOTS))

    def test_every_plot_is_an_svg_that_parses_and_names_its_axes(self):
        for name, (arguments, words) in PLOTS.items():
            with self.subTest(name):
                file = self.folder / f"{name}.svg"
                self.assertEqual(self.good("plot", name, *arguments, "--out", file), "")
                root = ElementTree.parse(file).getroot()
                self.assertEqual((root.tag, root.get("width"), root.get("height")), (f"{SVG}svg", "800", "520"))
                texts = " ".join("".join(t.itertext()) for t in root.iter(f"{SVG}text"))
                for word in words:
                    self.assertIn(word, texts)

    def test_every_plot_is_a_png_of_the_size_asked_for(self):
        for name, (arguments, _) in PLOTS.items():
            with self.subTest(name):
                file = self.folder / f"{name}.png"
                self.good("plot", name, *arguments, "--out", file, "--width", 640, "--height", 480)
                self.assertEqual(png_size(file.read_bytes()), (640, 480))

    def test_every_plot_is_drawn_on_a_terminal_of_any_size(self):
        for name, (arguments, _) in PLOTS.items():
            with self.subTest(name):
                lines = self.good("plot", name, *arguments, "--width", 90, "--height", 30).splitlines()
                self.assertTrue(25 <= len(lines) <= 31, len(lines))
                self.assertLessEqual(max(map(len, lines)), 91)
                self.assertTrue(all(line.isascii() and "\x1b" not in line for line in lines))

    def test_every_plot_gives_its_numbers(self):
        for name, (arguments, _) in PLOTS.items():
            with self.subTest(name):
                panels = json.loads(self.good("plot", name, *arguments, "--json"))["panels"]
                self.assertTrue(all(panel["cells"]["values"] if "cells" in panel else panel["curves"] for panel in panels))

    def test_the_plotted_decay_is_the_printed_one(self):
        curves = json.loads(self.good("plot", "decay", "--distances", "0,7,100", "--json"))["panels"][0]["curves"]
        self.assertEqual(curves[0]["y"], json.loads(self.good("decay", "--distances", "0,7,100", "--json"))["encodings"][0]["sum"])

    def test_colour_is_for_terminals_without_no_color(self):
        for no_color, colored in (("", True), ("1", False)):
            here, there = pty.openpty()
            with subprocess.Popen([TOOL, "plot", "similarity", "--positions", "0:9"], stdout=there, env={**os.environ, "NO_COLOR": no_color}) as child:
                os.close(there)
                shown = b""
                while chunk := self.read(here):
                    shown += chunk
                self.assertEqual(child.wait(), 0)
            os.close(here)
            self.assertEqual(b"\x1b[" in shown, colored)

    @staticmethod
    def read(file):
        try:
            return os.read(file, 65536)
        except OSError:  # the other end is closed
            return b""

    def test_a_missing_gnuplot_is_named_and_nothing_is_left(self):
        for command in (["plot", "decay", "--out", self.folder / "a.svg"], ["plot", "decay"], ["report", "llama3.1", "-o", self.folder / "a.html"]):
            done = phasor(*command, PATH=str(self.folder))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertTrue(done.stderr.startswith("phasor: plot: gnuplot is not installed"), done.stderr)
            self.assertIn("gnuplot-nox", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_gnuplot_that_fails_is_quoted_and_nothing_is_left(self):
        fake = self.folder / "gnuplot"
        fake.write_text('#!/bin/sh\necho "line 3: no such terminal" >&2\nexit 1\n', encoding="ascii")
        fake.chmod(0o755)
        done = phasor("plot", "decay", "--out", self.folder / "a.png", PATH=f"{self.folder}:/bin:/usr/bin")
        self.assertEqual((done.returncode, done.stderr), (1, "phasor: plot: gnuplot failed: line 3: no such terminal\n"))
        self.assertEqual([f.name for f in self.folder.iterdir()], ["gnuplot"])

    def test_a_file_that_cannot_be_written_is_a_failure_and_the_old_one_stays(self):
        done = phasor("plot", "decay", "--out", self.folder / "missing" / "a.svg")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("No such file or directory, wanted to write there", done.stderr)
        old = self.folder / "old.svg"
        old.write_text("old", encoding="ascii")
        self.assertEqual(phasor("plot", "decay", "--head-dim", 5, "--out", old).returncode, 1)
        self.assertEqual(old.read_text(encoding="ascii"), "old")

    def test_words_of_a_user_are_never_commands_of_gnuplot(self):
        config = self.folder / "x'y`touch${IFS}evil`.json"
        config.write_text(json.dumps({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 1}), encoding="ascii")
        subprocess.run([TOOL, "plot", "decay", "--against", "config=x'y`touch${IFS}evil`.json", "--out", "a.svg"], cwd=self.folder, check=True)
        self.assertEqual(sorted(f.name for f in self.folder.iterdir()), ["a.svg", config.name])
        self.assertIn("x'y`touch${IFS}evil`", "".join(ElementTree.parse(self.folder / "a.svg").getroot().itertext()))

    def test_wrong_use(self):
        for message, arguments in (("--out: a.gif is of no format", ["plot", "decay", "--out", "a.gif"]),
                                   ("plot: no command, wanted decay", ["plot"]),
                                   ("--against: linear is no name=value", ["plot", "decay", "--against", "linear"]),
                                   ("--against \"scaling=linear\": --scaling linear wants --factor", ["decay", "--against", "scaling=linear"]),
                                   ("plot error takes no --numerics", ["plot", "error", "--numerics", "hf"]),
                                   ("--positions: wanted 1 to 7 of them", ["plot", "clocks", "--positions", "0:8"])):
            done = phasor(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertTrue(done.stderr.startswith(f"phasor: {message}"), done.stderr)
        self.assertTrue(phasor("plot", "decay", "--bogus").stderr.endswith("try: phasor plot decay --help\n"))

    def test_the_report_of_each_kind_of_model_needs_nothing_from_outside(self):
        gemma = self.folder / "gemma.json"
        gemma.write_text(json.dumps({"model_type": "gemma3_text", "hidden_size": 1152, "head_dim": 256, "num_attention_heads": 4, "num_hidden_layers": 6,
                                     "sliding_window": 512, "max_position_embeddings": 32768, "rope_theta": 1e6, "rope_local_base_freq": 1e4}), encoding="ascii")
        bert = self.folder / "bert.json"
        bert.write_text(json.dumps({"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 2,
                                    "max_position_embeddings": 512}), encoding="ascii")
        for model, groups in (("llama3.1", 1), ("qwen2.5", 1), (gemma, 2), (bert, 0)):
            with self.subTest(model):
                file = self.folder / "a.html"
                written = json.loads(self.good("report", model, "-o", file, "--json"))
                text = file.read_text(encoding="utf-8")
                self.assertEqual(written, {"written": str(file), "bytes": len(text.encode())})
                page = Strict()
                page.feed(text)
                self.assertEqual((page.open, page.seen.count("svg"), page.seen.count("table")), ([], 4 * groups, groups))
                self.assertEqual(len(page.ids), len(set(page.ids)))
                self.assertTrue(all(link.startswith(("#", "data:")) for link in page.links), page.links)
                self.assertEqual(set(re.findall(r"https?://[^\s\"'<>]*", text)) - {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, set())
                self.assertNotIn("<script", text)

    def test_the_report_opens_in_a_browser(self):
        self.good("report", "llama3.1", "-o", self.folder / "a.html")
        done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=900,1400",
                               f"--user-data-dir={self.folder / 'profile'}", f"--screenshot={self.folder / 'a.png'}", self.folder / "a.html"],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(png_size((self.folder / "a.png").read_bytes()), (900, 1400))
        # A page that shows its pictures has many colours; an empty one would compress to almost nothing.
        self.assertGreater((self.folder / "a.png").stat().st_size, 50000)


if __name__ == "__main__":
    unittest.main()
