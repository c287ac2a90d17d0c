# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh: silent when nothing is missing; without the rights to install, it prints the one command and stops."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "tools" / "setup.sh"
NOBODY = 65534


class Setup(unittest.TestCase):
    def run_setup(self, mode, status):
        """As an ordinary user without sudo, where every package has the given status."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        query = folder / "dpkg-query"
        query.write_text(f"#!/bin/sh\necho {status}\n", encoding="utf-8")
        query.chmod(0o755)
        for tool in ("bash", "uname", "sh"):
            (folder / tool).symlink_to(shutil.which(tool))
        script = folder / "setup.sh"  # a copy: the checkout may not be readable for others
        shutil.copy(SETUP, script)
        user = NOBODY if os.geteuid() == 0 else None
        return subprocess.run([folder / "bash", script, mode], env={"PATH": str(folder)}, user=user, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def test_says_nothing_when_nothing_is_missing(self):
        for mode in ("demo", "test", "check", "bench", "fuzz", "gallery", "playground"):
            done = self.run_setup(mode, "installed")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), mode)

    def test_prints_the_one_command_and_stops_without_rights(self):
        done = self.run_setup("demo", "not-installed")
        self.assertEqual(done.returncode, 1)
        commands = [line for line in done.stderr.splitlines() if "apt-get install" in line]
        self.assertEqual(len(commands), 1)
        for package in ("g++", "cmake", "libhwy-dev", "libboost-dev", "libfmt-dev", "libcli11-dev"):
            self.assertIn(f" {package}", commands[0])

    def test_the_playground_gets_what_its_page_names(self):
        named = (SETUP.parents[1] / "web" / "page" / "packages.txt").read_text(encoding="utf-8")
        done = self.run_setup("playground", "not-installed")
        for package in ["emscripten", *(line for line in named.splitlines() if line and not line.startswith("#"))]:
            self.assertIn(f" {package}", done.stderr)

    def test_refuses_an_unknown_mode(self):
        self.assertEqual(self.run_setup("everything", "installed").returncode, 2)


if __name__ == "__main__":
    unittest.main()
