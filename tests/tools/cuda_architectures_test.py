# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a configuration with PHASOR_CUDA is for: what is decided before CUDA is enabled, which needs no nvcc, and, where there is one,
what it is then told for every source."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EVERY_FAMILY = ["80-real", "90-real", "100-real", "120-real", "80-virtual"]
# What CMakeLists.txt includes first, then cmake/cuda.cmake to where CUDA is enabled, by other functions in the place of CMake's own.
SCRIPT = """
function(enable_language language)
  message(STATUS "enabled for ${CMAKE_CUDA_ARCHITECTURES}")
  set(CMAKE_CUDA_ARCHITECTURES_ALL 75 80 90 CACHE STRING "")
  set(CMAKE_CUDA_ARCHITECTURES_NATIVE 70-real CACHE STRING "")
endfunction()
function(find_package)
  message(FATAL_ERROR "accepted")
endfunction()
include("@ROOT@/cmake/cuda_architectures.cmake")
include("@ROOT@/cmake/cuda.cmake")
"""


def cmake(*arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "CUDAARCHS"}
    done = subprocess.run(["cmake", *arguments], capture_output=True, text=True, env={**clean, **environment}, check=False)
    return " ".join((done.stdout + done.stderr).split())  # CMake breaks the lines of errors


def decided(*settings, **environment):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.cmake"
        script.write_text(SCRIPT.replace("@ROOT@", str(ROOT)), encoding="utf-8")
        return cmake(*settings, "-P", str(script), **environment)


class CudaArchitectures(unittest.TestCase):
    def test_without_a_word_it_is_every_family_and_ptx_for_newer_ones(self):
        said = decided()
        self.assertIn(f"enabled for {';'.join(EVERY_FAMILY)} ", said)
        self.assertIn("accepted", said)

    def test_what_the_user_gives_stays(self):
        for given in ("90", "90a-real", "80-virtual;120", "OFF"):
            said = decided(f"-DCMAKE_CUDA_ARCHITECTURES={given}", CUDAARCHS="100-real")
            self.assertIn(f"enabled for {given} ", said)
            self.assertIn("accepted", said)
        said = decided(CUDAARCHS="100-real;120")
        self.assertIn("enabled for 100-real;120 ", said)
        self.assertIn("accepted", said)

    def test_gpus_that_are_too_old_are_refused_before_anything_is_compiled(self):
        for settings, environment in ((["-DCMAKE_CUDA_ARCHITECTURES=75"], {}), (["-DCMAKE_CUDA_ARCHITECTURES=90;75-real"], {}), ([], {"CUDAARCHS": "75"})):
            said = decided(*settings, **environment)
            self.assertRegex(said, "CUDA architecture 75(-real)?: Phasor's kernels need 80 or newer")
            self.assertNotIn("enabled", said)

    def test_lists_that_cmake_knows_are_looked_at_once_it_does(self):
        for given, old in (("all", "75"), ("native", "70-real")):
            said = decided(f"-DCMAKE_CUDA_ARCHITECTURES={given}")
            self.assertIn(f"enabled for {given}", said)
            self.assertIn(f"CUDA architecture {old}: Phasor's kernels need 80 or newer", said)
            self.assertNotIn("accepted", said)

    def test_nvcc_is_told_so_for_every_source(self):
        nvcc = shutil.which("nvcc", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
        if nvcc is None:
            self.skipTest("there is no nvcc")
        with tempfile.TemporaryDirectory() as folder:
            said = cmake("-S", str(ROOT), "-B", folder, "-G", "Ninja", "-DPHASOR_CUDA=ON", f"-DCMAKE_CUDA_COMPILER={nvcc}")
            ninja = Path(folder) / "build.ninja"
            self.assertTrue(ninja.exists(), said)
            rules = re.findall(r"^build \S+\.o: CUDA_COMPILER\S+ (\S+).*?\n  FLAGS = ([^\n]*)", ninja.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
            told = {source: re.findall(r"code=\[?((?:sm|compute)_\w+)", flags) for source, flags in rules}
        self.assertGreater(len(told), 40)
        for source, codes in told.items():
            wanted = ["sm_90a"] if "/attention/hopper/" in source else ["compute_80", "sm_80", "sm_90", "sm_100", "sm_120"]
            self.assertEqual(sorted(codes), sorted(wanted), source)


if __name__ == "__main__":
    unittest.main()
