# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what the wheel of SGLang 0.5.23 imports and no package index has for a CPU; imported before SGLang, in each of its processes.

- sgl_kernel: published with CUDA alone. SGLang for the CPU asks it to bind threads, which is left out here, and imports other names that a text
  model on a processor without AMX does not call: they fail by their names.
- two operators of torchvision (torchvision_operators.py).

Everything else of the engine is its own: scheduler, cache, model, layers, attention by PyTorch, sampling."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import torchvision_operators  # noqa: E402, F401


class _Kernels(types.ModuleType):
    __version__ = "0.4.10"

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_, **__):
            raise NotImplementedError(f"sgl_kernel.{name}: not for this machine")

        return missing


sys.modules["sgl_kernel"] = _Kernels("sgl_kernel")
_kernels = torch.library.Library("sgl_kernel", "FRAGMENT")
_kernels.define("init_cpu_threads_env(str cpu_ids) -> str")
_kernels.impl("init_cpu_threads_env", lambda cpu_ids: cpu_ids, "CompositeExplicitAutograd")
_kernels.define("initialize(int size, int rank) -> ()")
_kernels.impl("initialize", lambda size, rank: None, "CompositeExplicitAutograd")
