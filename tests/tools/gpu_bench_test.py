# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_bench.sh from its arguments to its table, with programs in the place of nvcc, the GPU and Python that only say how they were called."""
import unittest

from gpu_checkout import GpuCheckout

PROGRAM = r"""#!/usr/bin/env bash
name=$(basename "$0")
echo "$name for '$2'"
[ "$name" != "$FAILS" ] || exit 1
echo "[{\"case\": \"$name\", \"tokens\": 64, \"us\": 2, \"copy_us\": 1}]" > "$1"
"""
PYTHON = r"""#!/usr/bin/env bash
echo "python: $*"
[ "$FAILS" != peers ] || exit 1
echo '[{"case": "peer", "tokens": 1, "us": 4, "copy_us": 1}]' > "${@: -1}"
"""


class GpuBench(GpuCheckout):
    program, python, scripts = PROGRAM, PYTHON, ("gpu_bench.sh", "gpu_build.sh")

    def run_bench(self, *arguments, fails=""):
        return self.run_script("gpu_bench.sh", *arguments, FAILS=fails)

    def test_everything_is_run_and_one_table_comes_last(self):
        (self.root / "peer.so").touch()
        done = self.run_bench("--only", "bf16 half", "--vllm", "peer.so")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("rotary_bench", "prepare_bench", "operations_bench"):
            self.assertIn(f"{name} for 'bf16 half'", done.stdout)
        self.assertIn(f"python: bench/gpu/peers.py --phasor build/gpu/ours.so --vllm {self.root.resolve()}/peer.so results/gpu_peers.json", done.stdout)
        table = (self.root / "results" / "gpu_table.md").read_text(encoding="utf-8")
        self.assertTrue(done.stdout.endswith(table))
        self.assertIn("| peer | 4.00 (0.250) |  |", table)
        self.assertIn("| operations_bench |  | 2.00 (0.500) |", table)
        self.assertLessEqual(len(list((self.root / "results").iterdir())), 8)  # as many files as come back from another machine
        compiled = (self.root / "compiled.txt").read_text(encoding="utf-8").split()
        self.assertIn("bench/gpu/ours.cu", compiled)
        self.assertEqual([name for name in compiled if name.startswith("tests/")], [f"tests/cuda/attention/{name}.cu" for name in ("decode_bench", "hopper_ours", "mma_ours")])

    def test_what_is_newer_than_the_sources_is_not_compiled_again(self):
        self.assertEqual(self.run_bench().returncode, 0)
        (self.root / "compiled.txt").unlink()
        (self.root / "bench" / "gpu" / "peers.py").touch()
        self.assertEqual(self.run_bench().returncode, 0)
        self.assertFalse((self.root / "compiled.txt").exists())

    def test_one_that_fails_is_named_and_the_others_are_run(self):
        for fails, title in (("prepare_bench", "the step before attention"), ("peers", "peers")):
            done = self.run_bench(fails=fails)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"FAIL: {fails}", done.stdout)
            self.assertNotIn(f"**{title}**", done.stdout)
            self.assertIn("| operations_bench |", done.stdout)


if __name__ == "__main__":
    unittest.main()
