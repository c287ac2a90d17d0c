# SPDX-License-Identifier: Apache-2.0
"""Every snippet of README.md and of the site is compiled or run. Needs build/dev (the library) and build/venv (the wheel)."""
import doctest
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import snippets  # noqa: E402

ROOT = snippets.ROOT
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "dev"
TOOL = BUILD / "phasor"
PAGES = ROOT / "build" / "docs" / "snippets"
ALL = snippets.all_snippets(PAGES)
SAME_CODE = "zh/encodings/"  # these pages show the code of the English ones
# These pages' doctests are run by tests/python/package/test_doctest.py.
ELSEWHERE = {"README.md", "python.md", "spec-format.md", "flex-attention.md"}
# Fences that nobody runs, and blocks that are compiled only, by page: whoever adds one says so here.
NOT_RUN = {"README.md": 5, "c.md": 1, "gallery.md": 7, "ggml.md": 1, "lab.md": 1, "packages.md": 7, "playground.md": 1, "vllm.md": 1, "start/c.md": 1, "start/cpp.md": 1, "start/python.md": 1}
COMPILED_ONLY = {"distributed.md": 1, "hf.md": 2, "onnx.md": 2, "start/cuda.md": 1}


def of(language):
    return [s for s in ALL if s.language == language]


def compile_and_run(source, arguments, folder):
    program = folder / source.stem
    done = subprocess.run([*arguments[:-1], str(source), *shlex.split(arguments[-1]), "-o", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "LD_LIBRARY_PATH": str(BUILD)})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def cpp_arguments():
    openmp = "-fopenmp" if "PHASOR_OPENMP:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text() else ""
    return [os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-Wall", "-Wno-unused", "-Werror", f"-I{ROOT / 'include'}", f"-I{HERE}",
            f"{BUILD / 'libphasor.a'} {openmp} -lpthread"]


def c_arguments():
    return [os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wno-unused", "-Werror", f"-I{ROOT / 'include'}", f"-I{HERE}", f"-L{BUILD} -lphasor_c"]


ARGUMENTS = {"cpp": cpp_arguments, "c": c_arguments}
PROGRAMS = [s for s in ALL if s.language in ARGUMENTS and snippets.is_program(s.code)]


@pytest.mark.parametrize("snippet", PROGRAMS, ids=lambda s: s.place)
def test_program(snippet, tmp_path):
    source = tmp_path / f"program.{snippet.language}"
    source.write_text(snippet.code, encoding="utf-8")
    config = ROOT / "tests" / "surface" / "c" / "demo_config.json"
    (tmp_path / "config.json").write_bytes(config.read_bytes())  # what a program reads by default
    compile_and_run(source, ARGUMENTS[snippet.language](), tmp_path)


@pytest.mark.parametrize("language", ["cpp", "c"])
def test_fragments(language, tmp_path):
    fragments = [s for s in of(language) if not snippets.is_program(s.code)]
    source = tmp_path / f"fragments.{language}"
    source.write_text(snippets.fragments_file(fragments, {"cpp": "prelude.hpp", "c": "prelude.h"}[language]), encoding="utf-8")
    compile_and_run(source, ARGUMENTS[language](), tmp_path)


@pytest.mark.parametrize("page", sorted({s.page for s in of("python")}))
def test_python_blocks_of(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prelude = HERE / "preludes" / (page.replace("/", "-").removesuffix(".md") + ".py")
    space = {"__name__": "snippet"}
    if prelude.exists():
        exec(compile(prelude.read_text(encoding="utf-8"), prelude, "exec"), space)
    for snippet in of("python"):
        if snippet.page == page:
            code = compile("\n" * snippet.line + snippet.code, page, "exec")
            if not snippet.compiled_only:
                exec(code, space)


@pytest.mark.parametrize("page", sorted({s.page for s in of("pycon") if not s.page.startswith(SAME_CODE)} - ELSEWHERE))
def test_doctests_of(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join("\n" * 2 + s.code for s in of("pycon") if s.page == page)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    result = runner.run(doctest.DocTestParser().get_doctest(text, {}, page, page, 0), out=report.append)
    assert result.failed == 0, "".join(report)
    assert result.attempted > 0


def test_doctests_that_run_elsewhere_do():
    text = (ROOT / "tests" / "python" / "package" / "test_doctest.py").read_text(encoding="utf-8")
    for page in ELSEWHERE:
        assert page in text, f"{page} is no longer run there"


def test_pages_in_chinese_show_the_same_code():
    codes = {(s.page, s.code) for s in ALL}
    for snippet in ALL:
        if snippet.page.startswith(SAME_CODE):
            assert (snippet.page.removeprefix("zh/"), snippet.code) in codes, snippet.place


def test_specs_as_json_are_where_they_are_tested():
    assert {s.page for s in of("json")} == {"spec-format.md"}  # tests/python/test_serialised.py reads and writes those


@pytest.mark.parametrize("snippet", of("console"), ids=lambda s: s.place)
def test_console(snippet, tmp_path):
    assert TOOL.exists(), "build/dev has no tool, wanted one: make test builds it"
    for part in snippet.code.split("$ ")[1:]:
        command, _, wanted = part.partition("\n")
        words = shlex.split(command)
        assert words[0] == "phasor", command
        done = subprocess.run([str(TOOL), *words[1:]], capture_output=True, text=True, check=False, cwd=tmp_path)
        checker = doctest.OutputChecker()
        assert checker.check_output(wanted, done.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command} printed\n{done.stdout}"


def test_what_is_not_run_is_counted():
    assert Counter(s.page for s in ALL if s.language in snippets.NOT_RUN) == NOT_RUN
    assert Counter(s.page for s in ALL if s.compiled_only) == COMPILED_ONLY
