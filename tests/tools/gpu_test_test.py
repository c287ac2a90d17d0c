# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_test.sh from its build to its last line, with programs in the place of nvcc and the GPU that only say how they were called."""
import re
import unittest

from gpu_checkout import GpuCheckout

PROGRAM = r"""#!/usr/bin/env bash
name=$(basename "$0")
if [ "$1" = --gtest_list_tests ]; then printf 'suite.\n  one\n  two\n'; exit; fi
echo "$name $*" >> called.txt
echo "${1:-0} calls of $name"
if [ "$name" = "$FAILS" ]; then echo "FAIL: something"; exit 1; fi
echo "$name: PASS"
"""
SANITIZER = r"""#!/usr/bin/env bash
echo "$2 $(basename "$7")" >> checked.txt
"""


class GpuTest(GpuCheckout):
    program, python, scripts = PROGRAM, "#!/usr/bin/env bash\n", ("gpu_test.sh", "gpu_build.sh", "gpu_attention.sh")

    def setUp(self):
        super().setUp()
        (self.root / ".carry" / "googletest" / "src").mkdir(parents=True)
        (self.root / ".carry" / "googletest" / "src" / "gtest-all.cc").touch()
        for name in ("g++", "gcc"):
            self.write_program(name, "#!/usr/bin/env bash\ntouch \"${@: -1}\"\n")
        self.write_program("compute-sanitizer", SANITIZER)
        self.write_program("nproc", "#!/bin/sh\necho 8\n")

    def test_shares_have_every_seed_once(self):
        done = self.run_script("gpu_test.sh", CALLS="999")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        called = (self.root / "called.txt").read_text(encoding="utf-8")
        for program, calls in (("gpu_rotary", 999), ("gpu_prepare", 999), ("gpu_hopper", 49)):
            shares = sorted((int(first), int(count)) for count, first in re.findall(rf"^{program} (\d+) (\d+)$", called, re.MULTILINE))
            self.assertEqual(shares[0][0], 1)
            self.assertEqual([first + count for first, count in shares[:-1]], [first for first, _ in shares[1:]])
            self.assertGreaterEqual(sum(count for _, count in shares), calls)
        self.assertIn("pass: gpu_rotary.1: gpu_rotary: PASS", done.stdout)
        self.assertIn("pass: gpu_attention: 2 tests, 0 failed", done.stdout)
        checked = (self.root / "checked.txt").read_text(encoding="utf-8").split("\n")
        self.assertIn("racecheck gpu_prepare", checked)
        self.assertIn("  1000 calls of gpu_rotary", done.stdout)

    def test_one_that_fails_is_named_and_the_others_are_run(self):
        done = self.run_script("gpu_test.sh", CALLS="40", FAILS="gpu_large", QUICK="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAIL: gpu_large\nFAIL: something", done.stdout)
        self.assertIn("NOT RUN: compute-sanitizer, since QUICK is set", done.stdout)
        self.assertIn("pass: rotary_bench: rotary_bench: PASS", done.stdout)


if __name__ == "__main__":
    unittest.main()
