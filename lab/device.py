# SPDX-License-Identifier: Apache-2.0
"""Where a run computes, and how: the same bits each time, in 16 bits by autocast where the preset says so."""

from __future__ import annotations

import ctypes
import gc
import os
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Read when cuBLAS is first used: with it, products of matrices have the same bits in every run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def settled(name: str | None = None) -> torch.device:
    """The device of a name (CUDA where there is one, unless said), with PyTorch set to repeat itself."""
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what it did not write, and filling takes time
    if device.type == "cpu":
        torch.set_num_threads(1)  # sums of several threads depend on how many there are
    return device


def arithmetic(device: torch.device, dtype: str, cached: bool = True) -> AbstractContextManager[Any]:
    """Autocast for a preset's dtype; float32 is none. Without its cache of weights in 16 bits, which must not outlive a captured graph."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16", cache_enabled=cached)


def waited(device: torch.device) -> None:
    """After all that was asked of the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(device: torch.device) -> int | None:
    """The most that PyTorch had allocated since forget_peak; a CPU does not count."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def used_bytes(device: torch.device) -> int | None:
    """What PyTorch has allocated now."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else None


def forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


# Memory on a CPU, where PyTorch counts none: what Linux says of this process.
PROCESS = Path("/proc/self")


def resident() -> int | None:
    """Bytes of this process that are in memory now; None where there is no Linux to ask."""
    return _told("VmRSS")


def most_resident() -> int | None:
    """The most of them since `forget_most_resident`."""
    return _told("VmHWM")


def _told(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB$", (PROCESS / "status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else 1024 * int(found[1])


def forget_most_resident() -> None:
    """What was freed goes back to the system first: the C library keeps it otherwise, and it would count."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    try:
        (PROCESS / "clear_refs").write_text("5")
    except OSError:  # where it may not be written the most is that of all before, which only grows
        pass


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def to_device(array: Any, device: torch.device) -> Tensor:
    """An array of NumPy; the copy to a GPU is in the order of its stream, from memory that is not touched again."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
