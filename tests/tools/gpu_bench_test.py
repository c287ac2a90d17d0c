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
name=$(basename "$1" .py)
[ "$name" != "$FAILS" ] || exit 1
case $name in
  attention_targets) echo '{"groups": [{"group": "forward", "rows": [{"group": "forward", "name": "T5", "ms": 1.5, "figures": []}]}], "not_begun": ["mma"]}' > "$2" ;;
  training) echo '{"models": {"T5": {"error": "no memory"}}}' > "$2" ;;
  *) echo '[{"case": "peer", "tokens": 1, "us": 4, "copy_us": 1}]' > "${@: -1}" ;;
esac
"""


class GpuBench(GpuCheckout):
    program, python, scripts = PROGRAM, PYTHON, ("gpu_bench.sh", "gpu_build.sh")

    def setUp(self):
        super().setUp()
        (self.root / "module.so").touch()
        (self.root / "python" / "cuda13" / "phasor_cuda13").mkdir(parents=True)

    def run_bench(self, *arguments, fails=""):
        return self.run_script("gpu_bench.sh", *arguments, FAILS=fails, MODULE="module.so")

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
        self.assertIn("| forward: T5 | 1.500 |", table)
        self.assertIn("| mma | | not run to its end", table)
        self.assertIn("| T5 | ERROR: no memory |", table)
        self.assertIn("attention_targets.py results/attention.json --decode-json results/decode_bench.json --only bf16 half\n", done.stdout)
        self.assertLessEqual(len(list((self.root / "results").iterdir())), 8)  # as many files as come back from another machine
        compiled = (self.root / "compiled.txt").read_text(encoding="utf-8").split()
        self.assertIn("bench/gpu/ours.cu", compiled)
        self.assertEqual([name for name in compiled if name.startswith("tests/")], ["tests/cuda/attention/decode_bench.cu"])

    def test_a_part_alone(self):
        done = self.run_bench("--part", "training", "--seconds", "60")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("python: bench/gpu/training.py results/training.json --seconds 60", done.stdout)
        self.assertNotIn("rotary_bench", done.stdout)
        self.assertFalse((self.root / "compiled.txt").exists())

    def test_kernels_of_attention_alone(self):
        done = self.run_bench("--part", "attention", "--kernels")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("python: bench/gpu/attention_bench.py build/gpu/hopper_ours.so results/attention_kernels.json", done.stdout)

    def test_a_module_that_does_not_build_is_said(self):
        done = self.run_script("gpu_bench.sh", "--part", "training")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAIL: the module does not build", done.stdout)

    def test_what_is_newer_than_the_sources_is_not_compiled_again(self):
        self.assertEqual(self.run_bench().returncode, 0)
        (self.root / "compiled.txt").unlink()
        (self.root / "bench" / "gpu" / "peers.py").touch()
        self.assertEqual(self.run_bench().returncode, 0)
        self.assertFalse((self.root / "compiled.txt").exists())

    def test_one_that_fails_is_named_and_the_others_are_run(self):
        for fails, title in (("prepare_bench", "the step before attention"), ("peers", "peers"), ("attention_targets", "decoding, the kernel alone")):
            done = self.run_bench(fails=fails)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"FAIL: {fails}", done.stdout)
            self.assertEqual(f"**{title}**" in done.stdout, fails == "attention_targets")  # which has written what it has
            self.assertIn("| operations_bench |", done.stdout)


if __name__ == "__main__":
    unittest.main()
