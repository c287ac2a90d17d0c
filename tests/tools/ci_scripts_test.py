# SPDX-License-Identifier: Apache-2.0
"""What make check relies on: a part that fails fails the run, and clang-tidy looks again at what changed and at nothing else."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_tidy  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Timed(Folder):
    def run_timed(self, *words):
        environment = {**os.environ, "TIMES": str(self.folder / "times.txt")}
        return subprocess.run([ROOT / "tools" / "timed.sh", *words], env=environment, capture_output=True, text=True, check=False)

    def test_a_part_has_its_own_status_and_output(self):
        done = self.run_timed("a part", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertTrue(done.stdout.startswith("out\ntime: a part took "), done.stdout)
        self.assertEqual(done.stderr, "err\n")

    def test_all_adds_up_the_parts(self):
        (self.folder / "times.txt").write_text("one\t60.0\t90.0\ntwo\t30.0\t30.0\n", encoding="utf-8")
        lines = self.run_timed("--all").stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[2].split(), ["in", "all", "1.5", "min,", "processors", "2.0", "min"])


class Tidy(Folder):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "a.cpp"
        self.header = self.folder / "a.hpp"
        self.source.write_text('#include "a.hpp"\nint a = b;\n', encoding="utf-8")
        self.header.write_text("constexpr int b = 1;\n", encoding="utf-8")
        (self.folder / "tidy").mkdir()
        command = {"directory": str(self.folder), "file": str(self.source), "command": f"ccache c++ -o a.o -c {self.source}"}
        (self.folder / "compile_commands.json").write_text(json.dumps([command]), encoding="utf-8")
        self.addCleanup(setattr, check_tidy, "TIDY", check_tidy.TIDY)

    def look(self, tool="true", settings=b""):
        check_tidy.TIDY = tool
        return check_tidy.tidy(self.folder, self.source, check_tidy.commands_of(self.folder)[self.source.resolve()], settings)

    def test_what_is_clean_is_not_looked_at_again_until_it_changes(self):
        self.assertEqual(self.look(), (True, ""))
        self.assertEqual(self.look("false"), (False, ""))
        self.header.write_text("constexpr int b = 2;\n", encoding="utf-8")
        self.assertEqual(self.look(), (True, ""))
        self.header.write_text("constexpr int b = 2;  // NOLINT\n", encoding="utf-8")
        self.assertEqual(self.look(), (True, ""))
        self.assertEqual(self.look(settings=b"other checks"), (True, ""))

    def test_what_is_not_clean_is_looked_at_again(self):
        tool = self.folder / "tool"
        tool.write_text("#!/bin/sh\necho wrong\nexit 1\n", encoding="utf-8")
        tool.chmod(0o755)
        for _ in range(2):
            self.assertEqual(self.look(str(tool)), (True, "wrong\n"))
        self.assertIn("ended with status 1", self.look("false")[1])

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=self.folder, check=True, capture_output=True)

    def test_since_a_commit_a_header_brings_one_source_and_an_unknown_commit_all(self):
        root = self.folder.resolve()
        for name, text in {"a.cpp": '#include "s/b.inl"\n', "b.inl": '#include "s/c.hpp"\n', "c.hpp": "\n", "d.cpp": "\n", "e.cpp": "\n"}.items():
            (root / "src" / "s").mkdir(parents=True, exist_ok=True)
            (root / "src" / "s" / name).write_text(text, encoding="utf-8")
        self.git("init", "-q")
        self.git("add", "src")
        self.git("commit", "-qm", "first")
        sources = [root / "src" / "s" / f"{n}.cpp" for n in "ade"]
        self.assertEqual(check_tidy.changed_sources(root, "HEAD", sources), [])
        (root / "src" / "s" / "c.hpp").write_text("int c;\n", encoding="utf-8")
        (root / "src" / "s" / "e.cpp").write_text("int e;\n", encoding="utf-8")
        self.assertEqual(check_tidy.changed_sources(root, "HEAD", sources), [sources[0], sources[2]])
        self.assertEqual(check_tidy.changed_sources(root, "HEAD~9", sources), sources)

    def test_since_a_commit_the_tool_is_looked_at_too(self):
        root = self.folder.resolve()
        for name, text in {"plot/a.cpp": '#include "b.hpp"\n', "b.hpp": "\n", "c.cpp": "\n"}.items():
            (root / "cli" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "cli" / name).write_text(text, encoding="utf-8")
        self.git("init", "-q")
        self.git("add", "cli")
        self.git("commit", "-qm", "first")
        sources = [root / "cli" / "plot" / "a.cpp", root / "cli" / "c.cpp"]
        (root / "cli" / "b.hpp").write_text("int b;\n", encoding="utf-8")
        self.assertEqual(check_tidy.changed_sources(root, "HEAD", sources), [sources[0]])


if __name__ == "__main__":
    unittest.main()
