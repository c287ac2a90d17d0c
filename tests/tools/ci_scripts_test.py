# SPDX-License-Identifier: Apache-2.0
"""What make check relies on: a part that fails fails the run, names of test modules do not clash, and clang-tidy looks again at what changed and at nothing else."""
import contextlib
import io
import json
import os
import re
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
    def run_timed(self, *words, **variables):
        environment = {**os.environ, "TIMES": str(self.folder / "times.txt"), "TIMES_KEPT": "", **variables}
        return subprocess.run([ROOT / "tools" / "timed.sh", *words], env=environment, capture_output=True, text=True, check=False)

    def test_a_part_has_its_own_status_and_output(self):
        done = self.run_timed("a part", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertTrue(done.stdout.startswith("out\ntime: a part took "), done.stdout)
        self.assertEqual(done.stderr, "err\n")

    def test_all_adds_up_the_parts(self):
        (self.folder / "times.txt").write_text("one\t60.0\t90.0\ntwo\t30.0\t30.0\n", encoding="utf-8")
        lines = self.run_timed("--all", "make test").stdout.splitlines()
        self.assertEqual(lines[0], "make test:")
        self.assertEqual(lines[3].split(), ["in", "all", "1.5", "min,", "processors", "2.0", "min"])

    def test_make_neither_empties_nor_prints_what_a_run_around_it_keeps(self):
        self.run_timed("one", "true")
        self.run_timed("--begin", TIMES_KEPT="1")
        self.assertEqual(self.run_timed("--all", "make check", TIMES_KEPT="1").stdout, "")
        self.run_timed("two", "true", TIMES_KEPT="1")
        self.assertEqual([line.split()[0] for line in self.run_timed("--all", ".ci/run").stdout.splitlines()], [".ci/run:", "one", "two", "in"])
        self.run_timed("--begin")
        self.assertEqual(len(self.run_timed("--all", "make test").stdout.splitlines()), 2)


class Names(unittest.TestCase):
    def test_pytest_can_collect_all_python_tests_at_once(self):
        # A test module is known by its file's name alone: the second one of that name is an error, and only where one process collects both.
        files = sorted((ROOT / "tests" / "python").rglob("test_*.py"))
        self.assertTrue(files)
        folders: dict[str, str] = {}
        for file in files:
            folder = str(file.parent.relative_to(ROOT))
            self.assertEqual(folders.setdefault(file.name, folder), folder, f"{file.name} is in two folders")


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
        return check_tidy.tidy(self.folder, self.source, self.folder, check_tidy.commands_of(self.folder)[self.source.resolve()], settings)

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

    def test_a_moved_file_whose_includes_alone_changed_brings_nothing(self):
        root = self.folder.resolve()
        body = "".join(f"int a{i};\n" for i in range(20))
        (root / "src").mkdir()
        (root / "src" / "a.cpp").write_text('#include "x.hpp"\n' + body, encoding="utf-8")
        self.git("init", "-q")
        self.git("add", "src")
        self.git("commit", "-qm", "first")
        (root / "src" / "s").mkdir()
        self.git("mv", "src/a.cpp", "src/s/a.cpp")
        moved = root / "src" / "s" / "a.cpp"
        moved.write_text('#include "s/x.hpp"\n' + body, encoding="utf-8")
        self.git("add", "src")
        self.assertEqual(check_tidy.changed_sources(root, "HEAD", [moved]), [])
        moved.write_text('#include "s/x.hpp"\nint b;\n' + body, encoding="utf-8")
        self.assertEqual(check_tidy.changed_sources(root, "HEAD", [moved]), [moved])


class TidyRun(Folder):
    """All of check_tidy.py on a small project with a history."""

    def setUp(self):
        super().setUp()
        self.root = self.folder.resolve()
        for folder in ("src", "tests/attention/reference", "build/alone", "build/clang"):
            (self.root / folder).mkdir(parents=True)
        self.write(".clang-tidy", "")
        self.write(".gitignore", "build\n")
        self.write("src/a.cpp", "int a;\n")
        self.write("tests/attention/reference/r.cpp", "int r;\n")
        self.commands("clang", "src/a.cpp")
        self.commands("alone", "src/a.cpp", "tests/attention/reference/r.cpp")
        self.git("init", "-q")
        self.commit()
        self.clean = self.root / "build" / "clang" / "tidy" / "clean"
        self.addCleanup(setattr, check_tidy, "TIDY", check_tidy.TIDY)
        self.addCleanup(setattr, check_tidy, "OLDEST", check_tidy.OLDEST)

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def commands(self, build, *names):
        entries = [{"directory": str(self.root), "file": name, "command": f"c++ -o a.o -c {name}"} for name in names]
        self.write(f"build/{build}/compile_commands.json", json.dumps(entries))

    def git(self, *words):
        done = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "one", "--allow-empty")
        return self.git("rev-parse", "HEAD")

    def run_tidy(self, *words, tool="true"):
        """The status and what is printed."""
        check_tidy.TIDY = tool
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = check_tidy.main([str(self.root / "build" / "clang"), "1", *words], self.root)
        return status, out.getvalue()

    def test_a_short_history_is_looked_at_as_a_whole_and_the_reference_too(self):
        status, out = self.run_tidy()
        self.assertEqual((status, out), (0, "clang-tidy: clean, 2 of 2 files looked at, the others did not change\n"))
        self.assertEqual(self.clean.read_text(encoding="utf-8").strip(), self.git("rev-parse", "HEAD"))

    def test_without_a_stamp_it_looks_from_some_commits_back(self):
        check_tidy.OLDEST = 1
        first = self.git("rev-parse", "HEAD")
        self.write("src/a.cpp", "int b;\n")
        self.commit()
        self.assertIn(f"1 of 2 files changed since {first}", self.run_tidy()[1])

    def test_it_looks_from_the_last_clean_run_however_many_commits_ago(self):
        check_tidy.OLDEST = 1
        self.run_tidy()
        clean = self.clean.read_text(encoding="utf-8").strip()
        self.write("src/a.cpp", "int b;\n")
        self.commit()
        self.commit()
        self.write("build/tool", '#!/bin/sh\n[ "$1" = --version ]\n')
        (self.root / "build" / "tool").chmod(0o755)
        status, out = self.run_tidy(tool=str(self.root / "build" / "tool"))
        self.assertEqual(status, 1)
        self.assertIn(f"1 of 2 files changed since {clean}", out)
        self.assertEqual(self.clean.read_text(encoding="utf-8").strip(), clean)
        self.assertEqual(self.run_tidy()[0], 0)
        self.assertEqual(self.clean.read_text(encoding="utf-8").strip(), self.git("rev-parse", "HEAD"))

    def test_a_stamp_that_is_no_ancestor_does_not_count(self):
        check_tidy.OLDEST = 1
        first = self.git("rev-parse", "HEAD")
        self.commit()
        self.clean.parent.mkdir()
        self.clean.write_text(self.git("commit-tree", "HEAD^{tree}", "-m", "elsewhere"), encoding="utf-8")
        self.assertIn(f"since {first}", self.run_tidy()[1])

    def test_a_run_over_less_than_everything_leaves_no_stamp(self):
        self.assertEqual(self.run_tidy("--since", "HEAD")[0], 0)
        self.assertEqual(self.run_tidy(str(self.root / "src" / "a.cpp"))[0], 0)
        self.assertFalse(self.clean.exists())

    def test_a_source_that_no_build_compiles_is_an_error(self):
        self.write("src/b.cpp", "int b;\n")
        self.commit()
        status, out = self.run_tidy()
        self.assertEqual(status, 1)
        self.assertIn("not looked at: src/b.cpp", out)
        self.assertFalse(self.clean.exists())


class LeftOut(unittest.TestCase):
    """What presets and emulators do not run is named, and the names are tests."""

    def setUp(self):
        texts = [f.read_text(encoding="utf-8") for f in (ROOT / "tests").rglob("*_test.cpp")]
        self.tests = {f"{suite}.{name}" for t in texts for suite, name in re.findall(r"^TEST(?:_F)?\((\w+),\s*(\w+)\)", t, re.MULTILINE)}

    def test_every_sweep_exists(self):
        text = (ROOT / "tests" / "sweeps.cmake").read_text(encoding="utf-8")
        names = re.findall(r"^  (\w+\.\w+)$", text, re.MULTILINE)
        self.assertGreater(len(names), 50)
        self.assertEqual([n for n in names if n not in self.tests], [])

    def test_every_part_of_the_address_sanitizers_filter_leaves_something_out(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["testPresets"]
        (out,) = [p["filter"]["exclude"]["name"] for p in presets if p["name"] == "asan"]
        for part in re.split(r"\|(?=\^)", out):
            self.assertTrue(any(re.search(part, name) for name in self.tests), part)


if __name__ == "__main__":
    unittest.main()
