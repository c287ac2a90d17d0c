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
# What is run is the first word that is no option and no value of one.
SANITIZER = r"""#!/usr/bin/env bash
tool=$2 words=("${@:3}")
while [[ ${words[0]} == --* ]]; do words=("${words[@]:2}"); done
echo "$tool $(basename "${words[0]}") ${words[*]:1}" >> checked.txt
[ "$tool $(basename "${words[0]}")" != "$FINDS" ] || { echo "========= Error: Race reported between Write access at kernel+0x10 and Read access at kernel+0x20"; exit 9; }
"""


class GpuTest(GpuCheckout):
    program, python, scripts = PROGRAM, "#!/usr/bin/env bash\n", ("gpu_test.sh", "gpu_build.sh", "gpu_attention.sh", "gpu_sanitizers.sh")

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
        self.assertIn("racecheck gpu_prepare few", self.checked())
        self.assertIn("  1000 calls of gpu_rotary", done.stdout)

    def checked(self):
        return (self.root / "checked.txt").read_text(encoding="utf-8").split("\n")

    def test_sanitizers_alone_see_every_program_of_kernels(self):
        (self.root / "build" / "gpu" / "engine").mkdir(parents=True)  # models that a run before has made
        done = self.run_script("gpu_test.sh", "--sanitizers")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse((self.root / "called.txt").exists())
        linked = set(re.findall(r"^linked (gpu_\w+)$", done.stdout, re.MULTILINE))
        left_out = {"gpu_large", "gpu_engine_c"}  # the script says why of the first; the second launches what gpu_engine does
        of_memory = {line.split()[1] for line in self.checked() if line.startswith("memcheck ")}
        self.assertEqual(of_memory - {"run.py"}, linked - left_out)
        portable = {line.split()[1] for line in self.checked() if line.startswith("racecheck ")}
        self.assertLessEqual({"gpu_mma", "gpu_decode", "gpu_attention", "gpu_prepare"}, portable)
        self.assertIn("NOT RUN: memcheck of gathered keys", done.stdout)
        self.assertIn("memcheck gpu_attention --gtest_brief=1 --gtest_filter=suite.one", self.checked())
        self.assertNotIn("memcheck gpu_attention --gtest_brief=1 --gtest_filter=suite.two", self.checked())  # a short set

    def test_what_a_sanitizer_finds_fails_unless_it_is_looked_at_alone(self):
        for finds, status in (("racecheck gpu_decode", 1), ("racecheck gpu_hopper", 0)):
            done = self.run_script("gpu_test.sh", "--sanitizers", FINDS=finds)
            self.assertEqual(done.returncode, status, done.stdout)
        self.assertIn("pass: racecheck_gpu_hopper: racecheck of gpu_hopper: status 9, 1 reports, to be held against docs/design/cuda-hopper.md", done.stdout)

    def test_an_option_that_is_none(self):
        done = self.run_script("gpu_test.sh", "--fast")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no option --fast", done.stderr)

    def test_one_that_fails_is_named_and_the_others_are_run(self):
        done = self.run_script("gpu_test.sh", CALLS="40", FAILS="gpu_large", QUICK="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAIL: gpu_large\nFAIL: something", done.stdout)
        self.assertIn("NOT RUN: compute-sanitizer, since QUICK is set", done.stdout)
        self.assertIn("pass: rotary_bench: rotary_bench: PASS", done.stdout)


if __name__ == "__main__":
    unittest.main()
