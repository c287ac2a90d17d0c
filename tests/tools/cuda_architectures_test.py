# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a configuration with PHASOR_CUDA is for: cmake/cuda.cmake up to where it enables CUDA, so that no nvcc is needed."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In the place of CMake's own commands: what CMake would compile for once CUDA is enabled, and the end of what is looked at.
SCRIPT = """
function(enable_language language)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)  # what CMake does there
    set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "")
  endif()
  message(STATUS "enabled for ${CMAKE_CUDA_ARCHITECTURES}")
  set(CMAKE_CUDA_ARCHITECTURES_ALL 75 80 90 CACHE STRING "")
  set(CMAKE_CUDA_ARCHITECTURES_NATIVE 70-real CACHE STRING "")
endfunction()
function(find_package)
  message(FATAL_ERROR "accepted")
endfunction()
include("@ROOT@/cmake/cuda.cmake")
"""


def configured(*settings, **environment):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.cmake"
        script.write_text(SCRIPT.replace("@ROOT@", str(ROOT)), encoding="utf-8")
        clean = {name: value for name, value in os.environ.items() if name != "CUDAARCHS"}
        done = subprocess.run(["cmake", *settings, "-P", str(script)], capture_output=True, text=True, env={**clean, **environment}, check=False)
        return " ".join((done.stdout + done.stderr).split())  # CMake breaks the lines of errors


class CudaArchitectures(unittest.TestCase):
    def test_without_a_word_it_is_every_family_and_ptx_for_newer_ones(self):
        said = configured()
        self.assertIn("enabled for 80-real;90-real;100-real;120-real;80-virtual", said)
        self.assertIn("accepted", said)

    def test_what_the_user_gives_stays(self):
        for given in ("90", "90a-real", "80-virtual;120", "OFF"):
            said = configured(f"-DCMAKE_CUDA_ARCHITECTURES={given}")
            self.assertIn(f"enabled for {given} ", said)
            self.assertIn("accepted", said)
        said = configured(CUDAARCHS="100-real")
        self.assertIn("enabled for 100-real ", said)
        self.assertIn("accepted", said)

    def test_gpus_that_are_too_old_are_refused_before_anything_is_compiled(self):
        for settings, environment in ((["-DCMAKE_CUDA_ARCHITECTURES=75"], {}), (["-DCMAKE_CUDA_ARCHITECTURES=90;75-real"], {}), ([], {"CUDAARCHS": "75"})):
            said = configured(*settings, **environment)
            self.assertRegex(said, "CUDA architecture 75(-real)?: Phasor's kernels need 80 or newer")
            self.assertNotIn("enabled", said)

    def test_lists_that_cmake_knows_are_looked_at_once_it_does(self):
        for given, old in (("all", "75"), ("native", "70-real")):
            said = configured(f"-DCMAKE_CUDA_ARCHITECTURES={given}")
            self.assertIn(f"enabled for {given}", said)
            self.assertIn(f"CUDA architecture {old}: Phasor's kernels need 80 or newer", said)
            self.assertNotIn("accepted", said)


if __name__ == "__main__":
    unittest.main()
