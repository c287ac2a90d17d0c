# SPDX-License-Identifier: Apache-2.0
"""What the tests on a GPU share: the device, tensors of awkward shapes, comparison of bits. Nothing here needs pytest, which such machines lack.

PHASOR_TEST_DEVICE=cpu runs what needs no GPU on the CPU: a rehearsal of the tests themselves, which shows nothing about a GPU.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products, before there are any
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes most of the GPU's memory

import phasor  # noqa: E402

DEVICE = os.environ.get("PHASOR_TEST_DEVICE", "cuda")
ON_GPU = DEVICE == "cuda"
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class NotRun(Exception):
    """Why a test could not be run here; the table says so."""


def needs_gpu() -> None:
    """For tests of streams, graphs and times."""
    if not ON_GPU:
        raise NotRun("it needs a GPU")


def module_or_not_run(name: str) -> Any:
    """A library that may be missing."""
    try:
        return __import__(name)
    except ImportError:
        raise NotRun(f"there is no {name} here") from None


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Normal numbers on the CPU."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def moved(*tensors: Any) -> tuple[Any, ...]:
    """Copies on the device of the test; what is no tensor stays."""
    return tuple(x.detach().clone().to(DEVICE) if isinstance(x, Tensor) else x for x in tensors)


def same_bits(got: Any, wanted: Any) -> bool:
    """Equal in dtype, shape and every bit; of NaN the payload aside."""
    if isinstance(wanted, (tuple, list)):
        return len(got) == len(wanted) and all(same_bits(a, b) for a, b in zip(got, wanted))
    a, b = got.detach().cpu().contiguous(), wanted.detach().cpu().contiguous()
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = BITS.get(a.element_size())
    if not a.is_floating_point():
        return torch.equal(a, b)
    return bool(((a.view(bits) == b.view(bits)) | (a.isnan() & b.isnan())).all())


@contextlib.contextmanager
def raises(kind: type[BaseException], words: str) -> Iterator[None]:
    """The block ends in such an exception, whose text has these words."""
    try:
        yield
    except kind as error:
        assert re.search(words, str(error)), f"{type(error).__name__} says {error!s}, wanted {words!r}"
        return
    raise AssertionError(f"nothing was raised, wanted {kind.__name__} with {words!r}")


SPECS = {
    "half": phasor.Rotary(head_dim=64, base=5e5),
    "interleaved": phasor.Rotary(head_dim=64, pairing="interleaved"),
    "partial": phasor.Rotary(head_dim=80, rotary_width=32, rotary_offset=8),
    "across": phasor.Rotary(head_dim=64, pairing="interleaved", output_pairing="half"),
    "yarn": phasor.Rotary(head_dim=128, scaling=phasor.YarnScaling(factor=4, original_length=4096)),
    "llama3": phasor.Rotary(head_dim=128, base=5e5, scaling=phasor.Llama3Scaling(factor=8)),
    "hf": phasor.Rotary(head_dim=64, numerics="hf"),
    "vllm": phasor.Rotary(head_dim=64, numerics="vllm"),
    "mrope": phasor.Rotary(head_dim=64, axes=phasor.Axes(sections=(8, 12, 12))),
}


def positions_of(rope: phasor.Rotary, batch: int, tokens: int) -> dict[str, Any]:
    """Positions in every form that the spec takes, on the CPU."""
    seeds = torch.Generator().manual_seed(7)
    far = torch.randint(-(2**62), 2**62, (batch, tokens), generator=seeds)
    near = torch.randint(0, 100_000, (batch, tokens), generator=seeds)
    if rope.axes.sections:
        return {"axes": torch.stack((near, near.flip(1), near * 3))}
    small = rope.numerics != "exact"
    return {
        "none": None,
        "offset": 12345,
        "int64": near[0] if small else far[0],
        "rows": near if small else far,
        "int32": near[0].to(torch.int32),
        "float64": near.double() / 7,
    }
