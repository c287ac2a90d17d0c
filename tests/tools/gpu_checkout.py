# SPDX-License-Identifier: Apache-2.0
"""A copy of what tools/gpu_*.sh build from, with programs in the place of nvcc, the GPU and Python that only say how they were called."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench/gpu", "c", "examples/engine", "include", "src/cuda", "tests/attention", "tests/cuda", "tests/prepare")
NVCC = r"""#!/usr/bin/env bash
for argument in "$@"; do if [ "$argument" = -c ]; then compiles=1; fi; done
to="${@: -1}"
if [ -n "${compiles:-}" ]; then echo "${@: -3:1}" >> compiled.txt; touch "$to"; exit; fi
echo "linked $(basename "$to")"
cat > "$to" <<'END'
PROGRAM
END
chmod +x "$to"
"""


class GpuCheckout(unittest.TestCase):
    """`program` is what is linked, `python` the interpreter, `scripts` those of tools/ that a test runs."""

    program = python = ""
    scripts: tuple[str, ...] = ()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        for part in FOLDERS:
            shutil.copytree(ROOT / part, self.root / part)
        (self.root / "tools").mkdir()
        for script in self.scripts:
            shutil.copy(ROOT / "tools" / script, self.root / "tools")
        (self.root / "cmake").mkdir()
        shutil.copy(ROOT / "cmake" / "hopper_nvcc.sh", self.root / "cmake")
        shutil.copy(ROOT / "CMakeLists.txt", self.root)
        (self.root / ".carry" / "include").mkdir(parents=True)
        (self.root / ".carry" / "libphasor.a").touch()
        (self.root / "bin").mkdir()
        for name, text in (("nvcc", NVCC.replace("PROGRAM", self.program.strip())), ("gpu_python", self.python), ("nvidia-smi", "#!/bin/sh\necho a GPU\n")):
            self.write_program(name, text)

    def write_program(self, name: str, text: str):
        (self.root / "bin" / name).write_text(text, encoding="utf-8")
        (self.root / "bin" / name).chmod(0o755)

    def run_script(self, name: str, *arguments: str, **environment: str):
        given = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "PYTHON": "gpu_python", "OUT": "results", **environment}
        return subprocess.run([f"tools/{name}", *arguments], cwd=self.root, env=given, capture_output=True, text=True, check=False)
