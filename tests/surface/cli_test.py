#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tool as a user sees it: golden output, exit codes, streams. Argument: the tool."""
import contextlib
import json
import math
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = sys.argv.pop(1)
MATRIX = """head_dim 4, base 10000, unscaled, pairing interleaved
amplitude 1

R(2), 4 x 4
[-0.416 -0.909      0      0;
  0.909 -0.416      0      0;
      0      0      1  -0.02;
      0      0   0.02      1]
"""
CSV = """position,pair,frequency,wavelength,cos,sin
1,0,1,6.283185307179586,0.5403023058681398,0.8414709848078965
1,1,0.01,628.3185307179587,0.9999500004166653,0.009999833334166664
10,0,1,6.283185307179586,-0.8390715290764524,-0.5440211108893698
10,1,0.01,628.3185307179587,0.9950041652780258,0.09983341664682815
"""
TABLE = """head_dim 4, base 10000, linear (factor 4), pairing half
amplitude 1

 pair    frequency   wavelength         cos 0         sin 0         cos 2         sin 2
    0         0.25      25.1327             1             0      0.877583      0.479426
    1       0.0025      2513.27             1             0      0.999988    0.00499998
"""


def phasor(*arguments, **environment):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, check=False)


class Tool(unittest.TestCase):
    def good(self, *arguments, **environment):
        done = phasor(*arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def bad(self, code, message, *arguments, **environment):
        done = phasor(*arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (code, ""), arguments)
        self.assertTrue(done.stderr.startswith(f"phasor: {message}"), done.stderr)

    def test_version(self):
        self.assertRegex(self.good("--version"), r"^phasor \d+\.\d+\.\d+\n$")

    def test_help_has_an_example(self):
        plots = [["plot", kind] for kind in ("decay", "similarity", "sinusoid", "clocks", "scaling", "error", "bias")]
        for command in ([], ["demo"], ["explain"], ["diff"], ["report"], ["table"], ["decay"], ["similarity"], ["plot"], ["accuracy"], ["plan"],
                        ["bench"], ["export"], ["permute"], ["targets"], *plots):
            self.assertIn("phasor", self.good(*command, "--help").split("Example", 1)[1])

    def test_matrix_of_the_worked_example(self):
        self.assertEqual(self.good("table", "--head-dim", "4", "--pairing", "interleaved", "--matrix", "2"), MATRIX)

    def test_relative_matrix_is_the_rotation_by_key_less_query(self):
        relative = json.loads(self.good("table", "--head-dim", "4", "--relative", "5,3", "--json"))["values"]
        self.assertEqual(relative, json.loads(self.good("table", "--head-dim", "4", "--matrix", "-2", "--json"))["values"])

    def test_table(self):
        arguments = ["--head-dim", "4", "--scaling", "linear", "--factor", "4", "--positions", "0:3:2"]
        self.assertEqual(self.good("table", *arguments), TABLE)

    def test_csv(self):
        self.assertEqual(self.good("table", "--head-dim", "4", "--positions", "1,10", "--csv"), CSV)

    def test_a_tool_without_its_page_says_where_it_would_be_and_one_with_it_prints_the_path(self):
        where = Path(TOOL).resolve().parent.parent / "share" / "phasor" / "playground" / "phasor-playground.html"
        self.bad(1, f"{where}: is not there: this tool was installed without the playground's page", "playground", "--print-path")
        with tempfile.TemporaryDirectory() as prefix:
            tool = shutil.copy(TOOL, os.path.join(prefix, "phasor"))
            os.makedirs(os.path.join(prefix, "bin"))
            tool = shutil.move(tool, os.path.join(prefix, "bin", "phasor"))
            page = os.path.join(prefix, "share", "phasor", "playground", "phasor-playground.html")
            os.makedirs(os.path.dirname(page))
            Path(page).write_text("<!doctype html>", encoding="utf-8")
            opener = os.path.join(prefix, "xdg-open")
            Path(opener).write_text('#!/bin/sh\necho "$1" > "$0.opened"\n', encoding="utf-8")
            os.chmod(opener, 0o755)
            environment = {**os.environ, "PATH": prefix + os.pathsep + os.environ["PATH"]}
            for options in (["--print-path"], []):
                done = subprocess.run([tool, "playground", *options], capture_output=True, text=True, check=False, env=environment)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, os.path.realpath(page) + "\n", ""))
                self.assertEqual(os.path.exists(opener + ".opened"), not options)
            self.assertEqual(Path(opener + ".opened").read_text(encoding="utf-8").strip(), os.path.realpath(page))

    def test_json_of_each_scaling(self):
        scalings = {"unscaled": [], "linear": ["--factor", "4"], "ntk": ["--alpha", "4"], "llama3": [],
                    "yarn": ["--factor", "4", "--original-length", "4096", "--mscale", "1", "--ramp", "exact"],
                    "dynamic": ["--factor", "4", "--original-length", "4096"], "ntk-mixed": ["--factor", "4", "--mixed-exponent", "0.625"],
                    "proportional": ["--share", "0.25"], "given-factors": ["--factors", ",".join(["2"] * 64)],
                    "given-frequencies": ["--frequencies", ",".join(["0.5"] * 64), "--amplitude", "2"],
                    "longrope": ["--short-factors", ",".join(["1"] * 64), "--long-factors", ",".join(["4"] * 64), "--original-length", "4096"]}
        for name, options in scalings.items():
            table = json.loads(self.good("table", "--scaling", name, *options, "--json"))
            self.assertEqual((table["spec"]["scaling"]["name"], len(table["pairs"]), table["pairs"][0]["pair"]), (name, 64, 0))

    def test_lists_and_lengths_choose_the_frequencies(self):
        lists = ["--head-dim", "4", "--scaling", "longrope", "--short-factors", "1,2", "--long-factors", "4,8", "--original-length", "4096"]
        for length, wanted in (("4096", [1, 0.005]), ("4097", [0.25, 0.00125])):
            pairs = json.loads(self.good("table", *lists, "--length", length, "--json"))["pairs"]
            self.assertEqual([pair["frequency"] for pair in pairs], wanted)

    def test_each_axis_can_have_its_own_ladder(self):
        axes = ["table", "--head-dim", "8", "--sections", "2,2", "--json"]
        shared = [pair["frequency"] for pair in json.loads(self.good(*axes))["pairs"]]
        own = [pair["frequency"] for pair in json.loads(self.good(*axes, "--axis-ladder", "own"))["pairs"]]
        self.assertEqual((shared, own), ([1, 0.1, 0.01, 0.001], [1, 0.01, 1, 0.01]))

    def test_numerics_profiles_round_as_their_peers_do(self):
        at = ["table", "--head-dim", "4", "--positions", "1000003", "--json"]
        exact = json.loads(self.good(*at))["pairs"][1]["cos"][0]
        hf = json.loads(self.good(*at, "--numerics", "hf"))["pairs"][1]["cos"][0]
        self.assertNotEqual(exact, hf)
        self.assertLess(abs(exact - hf), 1e-3)

    def test_accuracy_of_every_profile(self):
        report = json.loads(self.good("accuracy", "--model", "llama3.1", "--positions", "1,1000000", "--json"))
        near, far = report["errors"]
        self.assertEqual((near["position"], far["position"]), (1, 1000000))
        self.assertLessEqual(max(near["exact"], far["exact"]), 2.0**-25)
        self.assertGreater(far["hf"], 1e-2)
        self.assertEqual(len(self.good("accuracy").splitlines()), 12)

    def test_built_in_model(self):
        table = json.loads(self.good("table", "--model", "llama3.1", "--json"))
        self.assertEqual((table["spec"]["base"], table["spec"]["scaling"]["factor"]), (500000, 8))

    def test_an_encoding_can_come_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"model_type": "gemma3_text", "hidden_size": 1152, "head_dim": 256, "num_attention_heads": 4, "num_hidden_layers": 6,
                           "sliding_window": 512, "max_position_embeddings": 32768, "rope_theta": 1e6, "rope_local_base_freq": 1e4}, file)
            for layer, base in ((["--layer", "0"], 1e4), (["--layer", "5"], 1e6), ([], 1e4)):
                spec = json.loads(self.good("table", "--config", path, *layer, "--json"))["spec"]
                self.assertEqual((spec["head_dim"], spec["base"]), (256, base))
            self.bad(1, "--layer is 6, the model has 6 layers", "decay", "--config", path, "--layer", "6")
            self.bad(2, "--config takes no --base", "decay", "--config", path, "--base", "3")
        self.bad(1, "", "decay", "--config", path)
        self.bad(2, "--layer wants --model", "table", "--layer", "1")

    def test_decay_sums_the_cosines(self):
        frequencies = [pair["frequency"] for pair in json.loads(self.good("table", "--head-dim", "96", "--json"))["pairs"]]
        found = json.loads(self.good("decay", "--head-dim", "96", "--distances", "0:40", "--context", "40", "--json"))
        for distance, value in zip(found["distances"], found["encodings"][0]["sum"]):
            self.assertAlmostEqual(value, sum(math.cos(distance * f) for f in frequencies), places=11)
        self.assertAlmostEqual(sum(found["encodings"][0]["weight"]), 1, places=12)
        self.bad(1, "--distances: distance is 40, wanted 0 to 39", "decay", "--distances", "40", "--context", "40")

    def test_bench_measures_every_dtype(self):
        arguments = ["bench", "--head-dim", "16", "--tokens", "8", "--heads", "3", "--key-heads", "1", "--dtypes", "f32,f64,f16,bf16"]
        report = json.loads(self.good(*arguments, "--json"))
        self.assertEqual([(s["dtype"], s["threads"]) for s in report["speed"]],
                         [(dtype, threads) for dtype in ("f32", "f64", "f16", "bf16") for threads in ("one", "default")])
        self.assertEqual([s["bytes"] for s in report["speed"]][::2], [2048, 4096, 1024, 1024])
        self.assertEqual(len(self.good(*arguments, "--csv").splitlines()), 9)
        self.assertIn("times memcpy's speed", self.good(*arguments))
        self.assertEqual(phasor("bench", "--dtypes", "int8").returncode, 2)

    def test_targets(self):
        found = json.loads(self.good("targets", "--json"))
        self.assertEqual(found["targets"][-1], "scalar")
        self.assertIn("scalar  (active)", self.good("targets", PHASOR_TARGET="scalar"))

    def test_failures(self):
        self.bad(1, "RotarySpec: head_dim is 5, wanted an even number", "table", "--head-dim", "5")
        self.bad(1, "PHASOR_TARGET is 'abacus', wanted one of", "targets", PHASOR_TARGET="abacus")
        self.bad(1, "--pairs: pair is 99, wanted 0 to 63", "table", "--pairs", "99")

    def test_wrong_use(self):
        self.bad(2, "no command, wanted one of those below\n\nPosition encodings for Transformers")
        self.bad(2, "plot: no command, wanted decay, similarity, sinusoid, clocks, scaling, error or bias\ntry: phasor plot --help", "plot")
        self.bad(2, "plot: dance is no command, wanted decay, similarity, sinusoid, clocks, scaling, error or bias", "plot", "dance")
        self.bad(2, "dance is no command, wanted demo, explain, diff, report, table, decay, similarity, plot, accuracy, plan, bench, export, permute, playground or targets", "dance")
        self.bad(2, "--scaling linear wants --factor", "table", "--scaling", "linear")
        self.bad(2, "--scaling linear takes no --alpha", "table", "--scaling", "linear", "--factor", "2", "--alpha", "3")
        self.bad(2, "--model llama3.1 takes no --base", "table", "--model", "llama3.1", "--base", "3")
        self.bad(2, "--scaling longrope wants --long-factors", "table", "--scaling", "longrope", "--short-factors", "1,2")
        self.bad(2, "--axis-order and --axis-ladder want --sections", "table", "--axis-order", "interleaved")
        self.bad(2, "accuracy takes no --numerics", "accuracy", "--numerics", "hf")
        self.bad(2, "--positions: x is no list of whole numbers", "table", "--positions", "x")
        self.bad(2, "--relative: is 3, wanted two positions", "table", "--relative", "3")

    def test_wrong_use_says_what_is_and_what_is_wanted(self):
        self.bad(2, "--fast is no option of phasor\ntry: phasor --help", "--fast")
        self.bad(2, "--fast is no option of phasor explain\ntry: phasor explain --help", "explain", "--fast", "llama2")
        self.bad(2, "--fast is no option of phasor plot decay\ntry: phasor plot decay --help", "plot", "decay", "--fast")
        self.bad(2, "llama3.1 is one word too many for phasor explain", "explain", "llama2", "llama3.1")
        self.bad(2, "llama3.1 is one word too many for phasor explain", "explain", "--", "llama2", "llama3.1")
        self.bad(2, " is one word too many for phasor explain", "explain", "llama2", "")
        for words in (["explain"], ["explain", "--"]):
            self.bad(2, "explain: model is missing (The model, a file or folder before a built-in name: a config.json, a folder that has one, a GGUF file, or gpt-oss,", *words)
        self.bad(2, "export: --to is missing (The dialect: hf, gguf)", "export", "llama2")
        self.bad(2, "--to: is onnx, wanted hf or gguf", "export", "llama2", "--to", "onnx")
        self.bad(2, "--tokens: is 0, wanted 1 to 1048576", "demo", "--tokens", "0")
        self.bad(2, "--tokens: is many, wanted a whole number", "demo", "--tokens", "many")
        self.bad(2, "--base: is 1e, wanted a number", "table", "--base", "1e")
        self.bad(2, "--sections: is x, wanted a whole number", "table", "--sections", "1,x")
        self.bad(2, "--length: is 0, wanted more than 0", "explain", "llama2", "--length", "0")
        self.bad(2, '--against "speed=3": --speed=3 is no option of an encoding', "decay", "--against", "speed=3")

    def test_full_output_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([TOOL, "table"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("phasor: standard output takes no more"), done.stderr)

    def test_demo_holds_and_is_silent_on_a_pipe(self):
        report = json.loads(self.good("demo", "--tokens", "64", "--json"))
        self.assertTrue(report["ok"] and report["same_bits"])
        for line in report["distances"]:
            self.assertLessEqual(line["exact_difference"], line["rounding"])
        self.assertGreater(report["distances"][0]["float32_difference"], report["distances"][0]["rounding"])
        for line in report["accuracy"]:
            self.assertLessEqual(line["exact"], 2.0**-25)
            self.assertGreater(line["float32"], line["exact"])
        self.assertEqual([(s["dtype"], s["threads"]) for s in report["speed"]],
                         [("f32", "one"), ("f32", "default"), ("bf16", "one"), ("bf16", "default")])
        text = self.good("demo", "--tokens", "64")
        for heading in ("Scores:", "Accuracy:", "Speed:", "Same bits"):
            self.assertIn(heading, text)
        self.assertIn("phasor report", text.splitlines()[-1])

    def test_demo_shows_progress_on_a_terminal_and_clears_it(self):
        here, there = pty.openpty()
        done = subprocess.run([TOOL, "demo", "--tokens", "8"], stdout=subprocess.PIPE, stderr=there, check=False)
        os.close(there)
        shown = b""
        with contextlib.suppress(OSError):  # what a terminal says when nobody holds its other end any more
            while part := os.read(here, 65536):
                shown += part
        os.close(here)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"timing, bf16", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)


if __name__ == "__main__":
    unittest.main()
