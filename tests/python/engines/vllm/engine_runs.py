# SPDX-License-Identifier: Apache-2.0
"""Processes that generate by vLLM, for the tests of this folder, and how far their results are apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FORWARDS = 4  # a prompt of all requests in one step, then three more tokens each; vLLM's own warm-up is before the count
LAYERS_OF_A_MODEL = 2


def run(folder: Path, plugins: str, how: str, profiles: str, names: list[str]) -> dict:
    """What generate.py found in a process of its own; the engine in the same process, so that calls can be counted."""
    out = folder / f"{plugins or 'own'}-{how}-{profiles}.json"
    changed = {
        "VLLM_PLUGINS": plugins, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CACHE_ROOT": str(folder / "cache"), "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    if how == "eager":
        changed["TORCHDYNAMO_DISABLE"] = "1"  # vLLM compiles its sampler even so, which takes a minute
    command = [sys.executable, str(HERE / "generate.py"), str(folder), str(out), how, profiles, *names]
    ended = subprocess.run(command, env={**os.environ, **changed}, capture_output=True, text=True, timeout=1800, cwd=folder)
    assert out.exists(), ended.stderr[-4000:]
    found = json.loads(out.read_text())
    failed = {n: f["error"] for n, f in found.items() if "error" in f}
    assert not failed, (failed, ended.stderr[-4000:])
    return found


def values(found: dict) -> list[float]:
    """The four greatest of each step. By rank and not by token, since the fourth and the fifth may change places; no rank moves farther than a token's."""
    steps = [step for request in found["logprobs"] for part in request for step in part if step]
    return [v for step in steps for v in sorted((float.fromhex(v) for _, v in step), reverse=True)[:4]]


def apart(one: dict, other: dict) -> float:
    return max(abs(x - y) for x, y in zip(values(one), values(other), strict=True))
