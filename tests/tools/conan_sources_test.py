# SPDX-License-Identifier: Apache-2.0
"""The sources that the Conan package takes along are enough for CMake: a list of another folder in CMakeLists.txt once broke the package unseen, since
only `make test-packages` builds it."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ConanSources(unittest.TestCase):
    def test_cmake_configures_what_is_exported(self):
        recipe = (ROOT / "packaging/conan/conanfile.py").read_text()
        patterns = re.findall(r'"([^"]+)"', re.search(r"for pattern in \((.*?)\):", recipe)[1])
        self.assertIn("src/*", patterns)
        with tempfile.TemporaryDirectory() as folder:
            for pattern in patterns:
                source = ROOT / pattern.removesuffix("/*")
                target = Path(folder) / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
            words = ["cmake", "-S", folder, "-B", f"{folder}/build", "-DPHASOR_BUILD_CLI=OFF"]
            told = subprocess.run(words, capture_output=True, text=True)
            self.assertEqual(told.returncode, 0, told.stderr)


if __name__ == "__main__":
    unittest.main()
