# SPDX-License-Identifier: Apache-2.0
"""Two runs of benchmarks are compared by their own ceilings, and only where they are of the same target. What a GPU took becomes one table."""
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench" / "gpu")]
import bench_compare  # noqa: E402
import table  # noqa: E402


class Compare(unittest.TestCase):
    def compare(self, *runs):
        """What is printed of runs, each a target and the times of its benchmarks."""
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for i, (target, times) in enumerate(runs):
                names.append(f"{folder}/{i}.json")
                benchmarks = [{"name": n, "run_name": n, "real_time": t, "items_per_second": 1e9 / t} for n, t in times.items()]
                Path(names[-1]).write_text(json.dumps({"context": {"target": target}, "benchmarks": benchmarks}), encoding="utf-8")
            out = io.StringIO()
            with mock.patch.object(sys, "argv", ["bench_compare.py", *names]), contextlib.redirect_stdout(out):
                bench_compare.main()
            return out.getvalue()

    def test_a_faster_machine_does_not_decide(self):
        slow, fast = {"attention/forward/plain": 100.0, "attention/fma_peak": 10.0}, {"attention/forward/plain": 50.0, "attention/fma_peak": 5.0}
        self.assertIn("1.00\n", self.compare(("neon", slow), ("neon", fast)))

    def test_without_its_ceiling_a_benchmark_is_a_time(self):
        self.assertIn("2.00\n", self.compare(("neon", {"attention/decode/f32": 100.0}), ("neon", {"attention/decode/f32": 50.0})))
        self.assertIn("2.00\n", self.compare(("neon", {"attention/forward/plain": 100.0}), ("neon", {"attention/forward/plain": 50.0})))

    def test_two_targets_are_not_compared(self):
        with self.assertRaises(SystemExit) as stopped:
            self.compare(("neon", {"x/L2": 1.0}), ("scalar", {"x/L2": 1.0}))
        self.assertIn("of target neon", str(stopped.exception.code))


class GpuTable(unittest.TestCase):
    ROTATION = [{"case": "bf16", "tokens": 64, "us": 2.0, "copy_us": 1.5}, {"case": "bf16", "tokens": 1, "us": 1.7, "copy_us": 1.19}]
    PREPARE = [{"case": "Llama 3", "tokens": 64, "us": 4.0, "copy_us": 3.6, "steps_us": 9.0}]

    def run_on(self, *contents):
        """What main prints of files with these contents, rotary_bench.json and prepare_bench.json."""
        with tempfile.TemporaryDirectory() as folder:
            names = [f"{folder}/{name}.json" for name, _ in zip(("rotary_bench", "prepare_bench"), contents)]
            for name, content in zip(names, contents):
                Path(name).write_text(content, encoding="utf-8")
            out = io.StringIO()
            with mock.patch.object(sys, "argv", ["table.py", *names]), contextlib.redirect_stdout(out):
                table.main()
            return out.getvalue()

    def test_a_row_has_every_number_of_tokens_that_any_file_has(self):
        printed = self.run_on(json.dumps(self.ROTATION), json.dumps(self.PREPARE)).splitlines()
        self.assertEqual(printed[0], "| us (share of a copy's speed) | 1 token | 64 tokens |")
        self.assertEqual(printed[2:], [
            "| **rotation, 32 + 8 heads of 128** | | |",
            "| bf16 | 1.70 (0.700) | 2.00 (0.750) |",
            "| **the step before attention** | | |",
            "| Llama 3 |  | 4.00 (0.900, steps 2.25x) |",
        ])
        self.assertEqual({line.count("|") for line in printed}, {4})

    def test_what_is_no_result_is_refused_by_name(self):
        for content, wrong in (("nothing", "Expecting value"), (json.dumps([{"case": "x", "tokens": 1, "us": 1.0}]), "has no copy_us")):
            with self.assertRaises(SystemExit) as stopped:
                self.run_on(content)
            self.assertIn(wrong, str(stopped.exception.code))
            self.assertIn("rotary_bench.json", str(stopped.exception.code))


class GpuBench(unittest.TestCase):
    """What is asked wrongly is said before a GPU is looked for, or anything is built."""

    def refused(self, *arguments):
        done = subprocess.run([ROOT / "tools" / "gpu_bench.sh", *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn("usage: gpu_bench.sh [--part rotation", done.stderr)
        return done.stderr

    def test_arguments(self):
        self.assertIn("there is no option --fast", self.refused("--fast"))
        self.assertIn("--only wants a value", self.refused("--only"))
        self.assertIn("--part: there is no part rotations", self.refused("--part", "rotations"))
        self.assertIn("--vllm: there is no file nowhere.so", self.refused("--vllm", "nowhere.so"))


if __name__ == "__main__":
    unittest.main()
