# SPDX-License-Identifier: Apache-2.0
"""Where the tensors of a call of attention are: lists and arrays of the host are on no device, and go to that of q. Nothing waits for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasor._arrays import gpu_of, positions_argument
from phasor._attention import Call
from phasor._numbers import integers
from phasor._torch.eager import positions_and_first

_compiling = torch.compiler.is_compiling
_INTEGERS = ("prefix", "query_starts", "key_starts", "lengths", "blocks")


def _capturing(x: Tensor) -> bool:
    """Whether a CUDA graph is captured; not where fake tensors alone say that there is CUDA."""
    return x.is_cuda and not _compiling() and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _moved(value: Any, name: str, beside: Tensor) -> Tensor:
    """An array, or a list of integers, as a tensor where `beside` is."""
    if gpu_of(value) is not None:
        return torch.from_dlpack(value)  # its library lets our stream wait for what is still to be written to it
    if _capturing(beside):
        raise ValueError(f"attention: {name} is on the CPU while a CUDA graph is captured, wanted a tensor on {beside.device}")
    array = integers(value, f"attention: {name}") if name in _INTEGERS else np.asarray(positions_argument(value))
    return torch.as_tensor(np.ascontiguousarray(array), device=beside.device)


def _beside(value: Any, name: str, q: Tensor, k: Tensor) -> Any:
    """A value of a call where q is; an int stays one, and so do consecutive positions of the host."""
    if value is None or isinstance(value, (Tensor, int, torch.SymInt)):
        return value
    if _compiling():
        return torch.as_tensor(value, device=q.device)
    if name in ("query_positions", "key_positions"):
        at, first = positions_and_first(value, q if name == "query_positions" else k)
        return first if at is None else at
    return _moved(value, name, q)


def put_beside(call: Call, q: Tensor, k: Tensor) -> None:
    """Puts what a call holds where q is; on the CPU the core takes it as it is. A dropout seed stays on the CPU, whose numbers a launch carries."""
    if q.is_cpu:
        return
    for values in (call.tensors, *call.tensors["terms"]):
        for name, value in values.items():
            if name not in ("terms", "dropout_seed"):
                values[name] = _beside(value, name, q, k)


def list_beside_q(value: Any, name: str, q: Tensor) -> Tensor | None:
    """A list of integers as a tensor where q is."""
    if value is None or isinstance(value, Tensor):
        return value
    return torch.as_tensor(value, device=q.device) if _compiling() else _moved(value, name, q)


def seed_beside(q: Tensor, seed: Any) -> Any:
    """The seed of a call with dropout, drawn where none is given: by PyTorch's generator of the CPU, which nothing has to wait for, outside of
    the operator: what is run again (a backward, checkpointing) drops the same."""
    if seed is None:
        if _capturing(q):
            raise ValueError(
                "attention: dropout without dropout_seed while a CUDA graph is captured, whose replays would all drop the same weights; "
                "wanted dropout_seed where that is meant"
            )
        return torch.randint(0, 2**63 - 1, (2,), device="cpu")
    if isinstance(seed, Tensor) and seed.device.type not in ("cpu", "meta"):
        raise ValueError(f"attention: dropout_seed is on {seed.device}, wanted it on the CPU: a launch carries its numbers, so nothing waits")
    return seed
