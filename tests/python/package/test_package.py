# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed: versions, names, what importing it brings along."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phasor

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = "site-packages" in phasor.__path__[0]


def test_the_version_is_that_of_the_library() -> None:
    project = re.search(r"project\(phasor VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    package = re.search(r'^version = "(\S+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project and package and project[1] == package[1]
    if INSTALLED:
        assert importlib.metadata.version("phasor") == project[1]


def test_the_wheel_brings_its_stubs_and_nothing_of_the_machine_it_was_built_on() -> None:
    folder = Path(phasor.__path__[0])
    assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists()
    modules = list(folder.glob("_core*.so"))
    assert len(modules) == 1
    if sys.version_info >= (3, 12):
        assert ".abi3." in modules[0].name
    needed = subprocess.run(["readelf", "-d", str(modules[0])], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"NEEDED.*\[(.*?)\]", needed))
    # No libgomp (a fork would hang), no Highway, no fmt, no MPFR: only what every Linux has.
    assert {re.sub(r"\.so.*", "", name) for name in libraries} <= {
        "libstdc++",
        "libm",
        "libgcc_s",
        "libc",
        "libpthread",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }
    assert "RPATH" not in needed and "RUNPATH" not in needed


def test_importing_the_package_imports_neither_pytorch_nor_other_heavy_things() -> None:
    program = "import sys, phasor; print(sorted({'torch', 'transformers', 'jax', 'matplotlib', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


OLD_TORCH = {
    "none": "sys.modules['torch'] = None",
    "no vmap": "import torch; del torch.library.register_vmap",
    "no tag": "import torch; names = torch.Tag; torch.Tag = type('Tag', (), {'pt2_compliant_tag': names.pt2_compliant_tag})",
    "no compiler": "import torch; del torch.compiler.is_dynamo_compiling",
}


@pytest.mark.parametrize("old", OLD_TORCH)
def test_a_pytorch_that_cannot_be_used_does_not_disturb_those_who_do_not_use_it(old: str) -> None:
    program = f"""
import sys, numpy as np
{OLD_TORCH[old]}
import phasor
for _ in range(2):
    rope = phasor.Rotary(8)
    x = np.ones((3, 8), np.float32)
    assert (rope(x, positions=[4, 5, 6]) == rope.apply_(x.copy(), positions=4)).all()
    assert rope.cos_sin(np.arange(3))[0].shape == (3, 4)
if sys.modules['torch'] is None:
    sys.exit()
torch.__version__ = "2.6.1"
for call in (rope, rope.apply_, rope.cos_sin):
    try:
        call(torch.ones(3, 8))
    except ImportError as error:
        assert "phasor: PyTorch is 2." in str(error) and "wanted 2.10 or newer" in str(error), error
    else:
        sys.exit("a tensor was taken")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_is_printed_when_the_interpreter_ends() -> None:
    program = """
import numpy as np, torch, phasor
rope = phasor.Rotary(head_dim=8)
held = [rope(np.ones((3, 8), np.float32)), rope(torch.ones(3, 8))]
held += [phasor.apply_rotary(torch.ones(3, 8), None, *rope.cos_sin(torch.arange(3)))]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_public_names_exist_are_sorted_and_documented() -> None:
    assert phasor.__all__ == sorted(phasor.__all__)
    for name in phasor.__all__:
        thing = getattr(phasor, name)
        assert inspect.getdoc(thing), name


def test_the_package_shows_its_documented_names_and_no_others() -> None:
    """Python's own things that a module imports (Any, importlib) are no part of it. In a fresh process: tests import parts by name."""
    program = """
import phasor
documented = sorted([*phasor.__all__, "hf", "nn", "onnx", "search", "__version__"])
assert dir(phasor) == documented, sorted(set(dir(phasor)) ^ set(documented))
shown = {name for name in vars(phasor) if not name.startswith("_")}
assert shown <= set(documented), sorted(shown - set(documented))
for part in (phasor.hf, phasor.nn, phasor.search):
    shown = {name for name in vars(part) if not name.startswith("_")}
    assert shown == set(part.__all__), (part, shown ^ set(part.__all__))
for part in (phasor.analysis, phasor.plot, phasor.positions):
    assert dir(part) == sorted(part.__all__), part
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["nn", "hf", "plot"])
def test_parts_are_imported_by_name(name: str) -> None:
    assert inspect.ismodule(__import__(f"phasor.{name}", fromlist=[name]))
