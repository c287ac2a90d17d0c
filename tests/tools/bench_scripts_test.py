# SPDX-License-Identifier: Apache-2.0
"""Two runs of benchmarks are compared by their own ceilings, and only where they are of the same target."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import bench_compare  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
