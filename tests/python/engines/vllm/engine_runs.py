# SPDX-License-Identifier: Apache-2.0
"""Processes that generate by vLLM, for generate_by_vllm.py and compile_by_vllm.py."""

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
