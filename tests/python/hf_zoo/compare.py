# SPDX-License-Identifier: Apache-2.0
"""Runs a model before and after patching, and compares every tensor of its output bit for bit."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

import phasor.hf
from phasor.hf import _replace

from .inputs import inputs_for


@dataclasses.dataclass
class Outcome:
    """What came of one model type."""

    model_type: str
    model: str  # class
    report: Any
    rotations_run: int = 0  # calls that phasor served in the patched runs
    own_run: int = 0  # calls that went to the model's own function
    different: list[str] = dataclasses.field(default_factory=list)  # dtypes whose outputs are not bitwise equal


def tensors(output: Any) -> Iterator[torch.Tensor]:
    """Every floating-point tensor of an output, caches aside."""
    if isinstance(output, torch.Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, dict):
        for name, value in output.items():
            if "past_key_values" not in str(name):
                yield from tensors(value)
    elif isinstance(output, (list, tuple)):
        for value in output:
            yield from tensors(value)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Floating-point tensors in the dtype, all else as it is."""
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def run(model: torch.nn.Module, inputs: dict[str, Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """The output's tensors."""
    torch.manual_seed(7)
    with torch.no_grad():
        return list(tensors(model(**{name: cast(value, dtype) for name, value in inputs.items()})))


class Count:
    """Counts the calls that phasor serves and those that the model's own functions serve, while it is entered."""

    def __enter__(self) -> "Count":
        self.ours, self.own = 0, 0
        self._turned = _replace.turned

        def counted(*args: Any) -> Any:
            got = self._turned(*args)
            self.ours, self.own = self.ours + (got is not None), self.own + (got is None)
            return got

        _replace.turned = counted
        return self

    def __exit__(self, *_: Any) -> None:
        _replace.turned = self._turned


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    """Bitwise equal, NaN equal to NaN."""
    return len(a) == len(b) > 0 and all(x.dtype == y.dtype and torch.equal(x.nan_to_num(1e9), y.nan_to_num(1e9)) for x, y in zip(a, b))


def compare(model: torch.nn.Module) -> Outcome:
    """The model in float32 and bfloat16, unpatched and patched."""
    inputs = inputs_for(model)
    outcome = None
    for dtype in (torch.float32, torch.bfloat16):
        model = model.to(dtype)
        before = run(model, inputs, dtype)
        report = phasor.hf.patch(model)
        outcome = outcome or Outcome(model.config.model_type, type(model).__name__, report)
        with Count() as count:
            after = run(model, inputs, dtype)
        outcome.rotations_run += count.ours
        outcome.own_run += count.own
        if not same(before, after):
            outcome.different.append(str(dtype).removeprefix("torch."))
        phasor.hf.unpatch(model)
    return outcome
