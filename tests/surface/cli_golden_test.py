#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tool prints, word for word, against tests/golden/cli. Arguments: the tool, the folder; --record writes what is printed now."""
import subprocess
import sys
import unittest
from pathlib import Path

TOOL, FOLDER = sys.argv[1], Path(sys.argv[2])
RECORD = "--record" in sys.argv
CASES = {
    "decay.txt": ["decay", "--distances", "0,1,2,10,100,1000"],
    "decay_against.txt": ["decay", "--head-dim", "8", "--distances", "0:6", "--context", "16", "--against", "head-dim=8 scaling=linear factor=4"],
    "decay.csv": ["decay", "--head-dim", "8", "--distances", "0,3,7", "--csv"],
    "decay_far.json": ["decay", "--head-dim", "4", "--distances", "-3,9000000000", "--json"],
    "similarity.txt": ["similarity", "--head-dim", "8", "--positions", "0:5"],
    "similarity.csv": ["similarity", "--head-dim", "8", "--positions", "1,10,100", "--kind", "inner-product", "--csv"],
    "similarity.json": ["similarity", "--head-dim", "8", "--positions", "0,5", "--json"],
    "plan.txt": ["plan", "--head-dim", "16", "--trained-length", "512", "--wanted-length", "2048"],
    "plan.csv": ["plan", "--head-dim", "4", "--trained-length", "512", "--wanted-length", "1024", "--csv"],
    "plan.json": ["plan", "--head-dim", "4", "--trained-length", "512", "--wanted-length", "1024", "--json"],
    "accuracy.txt": ["accuracy", "--model", "llama3.1", "--positions", "1,1000000"],
    "accuracy.csv": ["accuracy", "--model", "llama3.1", "--positions", "1,1000000", "--csv"],
    "accuracy_distance.txt": ["accuracy", "--head-dim", "16", "--positions", "100000", "--distance", "7"],
    "plot_clocks.json": ["plot", "clocks", "--head-dim", "4", "--positions", "0,1", "--json"],
    "plot_decay.gp": ["plot", "decay", "--head-dim", "4", "--distances", "0:4", "--out", "it's.svg", "--script"],
    "plot_similarity_text.gp": ["plot", "similarity", "--head-dim", "4", "--positions", "0:3", "--script"],
    "help.txt": ["--help"],
    "plot_help.txt": ["plot", "--help"],
}


class Golden(unittest.TestCase):
    def test_every_output_is_the_recorded_one(self):
        for name, arguments in CASES.items():
            with self.subTest(name):
                done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                if RECORD:
                    (FOLDER / name).write_text(done.stdout, encoding="utf-8")
                self.assertEqual(done.stdout, (FOLDER / name).read_text(encoding="utf-8"))

    def test_no_recording_is_left_over(self):
        self.assertEqual(sorted(f.name for f in FOLDER.iterdir()), sorted(CASES))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
