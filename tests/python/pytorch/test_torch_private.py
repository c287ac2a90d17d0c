# SPDX-License-Identifier: Apache-2.0
"""PyTorch without one of its private names that we use: the same results by the registered operators, or words, never wrong ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phasor
from phasor._torch import private

HERE = Path(__file__).parent
PACKAGE = Path(phasor.__path__[0])
# What none of PyTorch's published ways does: refused, with words. All else must be there whatever is gone.
WITHOUT_KERNELS = {"functional_gradient", "forward_mode"}
ALLOWED = {
    "torch._C._AutoDispatchBelowAutograd": WITHOUT_KERNELS,
    "torch._C._after_autograd_keyset": WITHOUT_KERNELS,
    "torch._functorch.utils.enable_single_level_autograd_function": {"functional_gradient"},
    "torch.autograd.forward_ad._set_fwd_grad_enabled": {"functional_gradient"},
}


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    done = subprocess.run([sys.executable, "-W", "ignore", HERE / "torch_without.py", "", *private.NAMES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_fails_while_all_names_are_there(found: dict[str, dict[str, str]]) -> None:
    assert not [case for case in found[""].items() if "Error" in case[1]] and found[""]["ways"] == "asks True, own kernels True"
    assert found[""]["noticed"] == "True" and len(found[""]) > 10


@pytest.mark.parametrize("name", private.NAMES)
def test_without_a_name_the_results_are_the_same(name: str, found: dict[str, dict[str, str]]) -> None:
    different = {case: text for case, text in found[name].items() if text != found[""][case] and case != "ways"}
    refused = {case for case, text in different.items() if re.match("NotImplementedError|RuntimeError: In order to use an autograd", text)}
    assert set(different) == refused <= ALLOWED.get(name, set()), different


def test_hiding_has_an_effect(found: dict[str, dict[str, str]]) -> None:
    assert {ways["ways"] for ways in found.values()} == {
        "asks True, own kernels True",
        "asks False, own kernels True",
        "asks True, own kernels False",
    }


def test_no_other_file_has_a_private_name_of_pytorch() -> None:
    """`__torch_function__` and its kin are published; `_schema` has a way without beside it."""
    pattern = re.compile(r"torch\._(?!_)\w+|\b_C\b|forward_ad\._\w+|\bfrom torch\S* import _\w+|torch\.\w+\._(?!_)\w+")
    seen = {
        f"{path.relative_to(PACKAGE)}: {match}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "private.py"
        for match in pattern.findall(path.read_text())
    }
    assert seen == set()
    text = (PACKAGE / "_torch" / "private.py").read_text()
    for name in private.NAMES:
        assert name.rpartition(".")[2] in text.split(")\n", 1)[1], name  # used below the list of names
