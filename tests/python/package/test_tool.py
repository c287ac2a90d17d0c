# SPDX-License-Identifier: Apache-2.0
"""The command-line tool that the wheel brings along, in an environment that has no compiler and no gnuplot."""

from __future__ import annotations

import importlib.metadata
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import phasor
import pytest
from phasor.__main__ import tool

SVG = "{http://www.w3.org/2000/svg}"
# Arguments, and words that the picture shows: as tests/surface/cli_plot_test.py has them of gnuplot's.
PLOTS = {
    "decay": (["--against", "base=500000", "--against", "scaling=linear factor=8"], ["distance (positions)", "scaling=linear factor=8"]),
    "similarity": (["--head-dim", "64", "--positions", "0:33"], ["position", "cosine similarity"]),
    "sinusoid": (["--head-dim", "8", "--positions", "0,1,10,100"], ["channel (even: sine, odd: cosine)", "position", "value"]),
    "clocks": (["--head-dim", "6"], ["pair 2: a turn in", "position 1000"]),
    "scaling": (["--trained-length", "4096", "--wanted-length", "8192"], ["pair", "frequency / frequency as trained", "yarn: seen up to"]),
    "error": (["--positions", "1,100,10000,1000000"], ["position", "largest error of a cosine or sine", "vllm", "1e-7", "1e6"]),
    "bias": (["--length", "12", "--heads", "3", "--show", "0,2"], ["key position", "query position", "head 2", "bias"]),
}


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The tool itself, where there is nothing else on the PATH."""
    return subprocess.run(
        [tool(), *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "PATH": "/nowhere", **environment}
    )


def module(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-m", "phasor", *arguments], capture_output=True, text=True)


def test_pip_puts_it_beside_its_python_and_it_is_of_the_same_version() -> None:
    assert tool().parent == Path(sys.executable).parent
    assert run("--version").stdout == f"phasor {phasor.__version__}\n"


def test_it_needs_only_what_every_linux_has() -> None:
    needed = subprocess.run(["readelf", "-d", str(tool())], capture_output=True, text=True, check=True).stdout
    libraries = {re.sub(r"\.so.*", "", name) for name in re.findall(r"NEEDED.*\[(.*?)\]", needed)}
    assert libraries <= {"libstdc++", "libm", "libgcc_s", "libc", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert "RPATH" not in needed and "RUNPATH" not in needed


def test_python_dash_m_is_the_tool_with_its_exit_codes() -> None:
    explained = module("explain", "llama3.1")
    assert explained.returncode == 0 and explained.stdout == run("explain", "llama3.1").stdout != ""
    wrong = module("explain")
    assert wrong.returncode == 2 and wrong.stderr == run("explain").stderr != ""


@pytest.mark.parametrize("name", PLOTS)
def test_without_gnuplot_matplotlib_draws(name: str, tmp_path: Path) -> None:
    arguments, words = PLOTS[name]
    picture = tmp_path / "a.svg"
    done = run("plot", name, *arguments, "--out", picture, MPLCONFIGDIR=str(tmp_path / "settings"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    root = ElementTree.parse(picture).getroot()
    assert (root.tag, root.get("width"), root.get("height")) == (f"{SVG}svg", "800", "520")
    shown = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    assert [word for word in words if word not in shown] == [] and "$" not in shown


def test_a_png_has_the_size_asked_for_and_the_python_that_is_named_draws_it(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    done = run("plot", "clocks", "--out", picture, "--width", "640", "--height", "480", PHASOR_PYTHON=sys.executable)
    assert (done.returncode, done.stderr) == (0, "")
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (640, 480)


def test_a_report_is_drawn_without_gnuplot_too(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run("report", "llama3.1", "-o", page)
    assert (done.returncode, done.stderr) == (0, "")
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"""\bid=["']([^"']+)""", text)
    assert text.count("<svg") >= 3 and len(names) == len(set(names)) and "<?xml" not in text
    assert {name for name in re.findall(r"""(?:href=|url\()["']?#([\w-]+)""", text)} <= set(names)


def test_what_matplotlib_cannot_do_says_what_is_missing(tmp_path: Path) -> None:
    done = run("plot", "decay")
    assert done.returncode == 1 and "gnuplot-nox" in done.stderr and "--out" in done.stderr
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho 'No module named phasor' >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o755)
    done = run("plot", "decay", "--out", tmp_path / "a.svg", PHASOR_PYTHON=str(broken))
    assert done.returncode == 1 and "(No module named phasor), wanted one of the two" in done.stderr and "pip install matplotlib" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["python3"]


def test_the_wheel_brings_licences_man_page_and_completions() -> None:
    files = importlib.metadata.distribution("phasor").files or []
    names = {"/".join(file.parts[-2:]) for file in files}
    assert {"licenses/LICENSE", "packaging/THIRD_PARTY_LICENSES.txt", "man1/phasor.1", "site-functions/_phasor", "completions/phasor"} <= names
