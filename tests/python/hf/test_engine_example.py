# SPDX-License-Identifier: Apache-2.0
"""examples/engine makes the tokens that transformers makes: with its pages alone, and with a context that is shifted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import engine_check
import engine_peer
import pytest
import transformers

PROGRAMS = Path(__file__).resolve().parents[3] / "build" / "dev" / "tests" / "surface"
BOTH = ["phasor_example_engine", "phasor_example_engine_c"]
WRONG = """#!{python}
import subprocess, sys
path = sys.argv[4]
done = subprocess.run(["{program}", *sys.argv[1:]], capture_output=True, text=True, check=True)
if path.endswith("device"):
    lines = open(path).read().splitlines()
    lines = [line.rsplit(" ", 1)[0] + " 7e3" if line.startswith("1 1 attention") else line for line in lines]
    open(path, "w").write("\\n".join(lines))
print(done.stdout, end="")
"""
Made = tuple[transformers.LlamaForCausalLM, Path]


def program(name: str) -> str:
    path = PROGRAMS / name
    assert path.exists(), f"{path} is not there: `make test` builds it"
    return str(path)


@pytest.fixture(params=sorted(engine_peer.MODELS))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    return engine_peer.make(request.param, tmp_path), tmp_path


def engine(name: str, made: Made, new: int, context: int, keep: int) -> list[int]:
    case = {"model": made[1].name, "new": new, "context": context, "keep": keep, "prompt": engine_peer.PROMPT}
    return engine_check.run(program(name), [], made[1].parent, case)


@pytest.mark.parametrize("name", BOTH)
def test_the_engine_makes_the_tokens_of_transformers(model: Made, name: str) -> None:
    assert engine(name, model, *engine_peer.RUNS["long"]) == engine_peer.tokens_of(model[0], *engine_peer.RUNS["long"])


@pytest.mark.parametrize("name", BOTH)
def test_so_it_does_when_its_context_is_shifted(model: Made, name: str) -> None:
    new, context, keep = engine_peer.RUNS["shifted"]
    made = engine(name, model, new, context, keep)
    assert made == engine_peer.tokens_of(model[0], new, context, keep)
    assert made != engine_peer.tokens_of(model[0], new, 80, keep)  # so long a context is never shifted: the shift is seen


@pytest.mark.parametrize("name", BOTH)
def test_without_cuda_it_says_so(model: Made, name: str) -> None:
    command = [program(name), "--device", "cuda", str(model[1]), "1", "64", "0", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "engine: this engine was built without CUDA\n")


def checked(folder: Path, programs: list[str]) -> subprocess.CompletedProcess[str]:
    """engine_check.py as a GPU's machine runs it; here the device is the CPU, too."""
    return subprocess.run([sys.executable, engine_check.__file__, str(folder), "cpu", *programs], capture_output=True, text=True, timeout=300)


def test_the_check_of_devices_passes_and_finds_where_a_difference_begins(tmp_path: Path) -> None:
    engine_peer.record(tmp_path)
    done = checked(tmp_path, [program(name) for name in BOTH])
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "PASS: the engine on cpu: 0 cases differ"), done.stdout

    # A program whose device has, in the second step, attention of layer 1 that is off.
    (tmp_path / "cases.json").write_text(json.dumps(json.loads((tmp_path / "cases.json").read_text())[1:2]))
    wrong = tmp_path / "wrong"
    wrong.write_text(WRONG.format(python=sys.executable, program=program(BOTH[0])))
    wrong.chmod(0o755)
    done = checked(tmp_path, [str(wrong)])
    assert done.returncode == 1
    assert "FAIL: begins at step 1, layer 1, attention:" in done.stdout
