# SPDX-License-Identifier: Apache-2.0
"""Runs a model before and after patching, and compares every tensor of its output bit for bit."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

import phasor.hf
from phasor.hf import _replace

from .inputs import inputs_for
from .models import build
from .overrides import PARTS

DTYPES = (torch.float32, torch.bfloat16)
# "exact" moves float32 tables by at most their own error at small positions: 9 * 2^-24 of angle and the rounding of cos and sin.
# What that makes of the outputs depends on the model; they are compared relative to their largest value.
EXACT_LIMIT = 1e-4


@dataclasses.dataclass
class Outcome:
    """What came of one model type; as a dict it is a row of docs/hf.md."""

    model_type: str
    model: str = ""  # class
    problem: str = ""  # why there is no model to try, or no run of it
    rotations: list[str] = dataclasses.field(default_factory=list)
    tables: list[str] = dataclasses.field(default_factory=list)
    left: list[str] = dataclasses.field(default_factory=list)
    ours: int = 0  # calls that phasor served in the patched runs
    own: int = 0  # calls that went to the model's own function
    different: list[str] = dataclasses.field(default_factory=list)  # dtypes whose outputs are not bitwise equal
    unable: list[str] = dataclasses.field(default_factory=list)  # dtypes that the model itself cannot run in
    restored: bool = True  # unpatch left every module as it was
    exact_error: float = 0.0  # of outputs with numerics="exact", relative to the largest
    gradients: dict[str, float] = dataclasses.field(default_factory=dict)  # by dtype: the largest relative difference, 0 for bitwise
    own_gradients: list[str] = dataclasses.field(default_factory=list)  # dtypes whose gradients the model's own function gave


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


def gradients(model: torch.nn.Module, inputs: dict[str, Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """The gradients of a random linear function of the outputs by every parameter that has one."""
    torch.manual_seed(7)
    model.zero_grad(set_to_none=True)
    outputs = tensors(model(**{name: cast(value, dtype) for name, value in inputs.items()}))
    losses = [(t.float() * torch.randn(t.shape)).sum() for t in outputs if t.requires_grad]
    if not losses:
        return []
    torch.stack(losses).sum().backward()
    made = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return made


def compare_gradients(model: torch.nn.Module, inputs: dict[str, Any], dtype: torch.dtype, outcome: Outcome) -> None:
    """One backward of the model, unpatched and patched; nothing is said where the model itself cannot."""
    name = str(dtype).removeprefix("torch.")
    try:
        before = gradients(model, inputs, dtype)
    except (RuntimeError, NotImplementedError):
        return
    if not before:
        return
    phasor.hf.patch(model)
    with Count() as count:
        after = gradients(model, inputs, dtype)
    phasor.hf.unpatch(model)
    if count.own:
        outcome.own_gradients.append(name)
    outcome.gradients[name] = 0.0 if same(before, after) else error(before, after)


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


def error(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest difference relative to the largest value."""
    return max((float((x - y).abs().max() / x.abs().max().clamp(min=1e-30)) for x, y in zip(a, b) if x.numel()), default=0.0)


def state(model: torch.nn.Module) -> dict[str, dict[str, int]]:
    """Which objects every module has as attributes."""
    return {name: {key: id(value) for key, value in module.__dict__.items()} for name, module in model.named_modules()}


def compare(model: torch.nn.Module, outcome: Outcome) -> None:
    """The model in float32 and bfloat16, unpatched and patched, and with exact tables."""
    inputs = inputs_for(model)
    model = model.get_submodule(PARTS.get(outcome.model_type, ""))
    for dtype in DTYPES:
        model = model.float() if dtype is torch.float32 else model.bfloat16()  # .to(dtype) would make real numbers of complex tables
        try:
            before = run(model, inputs, dtype)
        except RuntimeError:
            if dtype is torch.float32:
                raise
            outcome.unable.append(str(dtype).removeprefix("torch."))
            continue
        phasor.hf.patch(model)
        with Count() as count:
            after = run(model, inputs, dtype)
        phasor.hf.unpatch(model)
        outcome.ours += count.ours
        outcome.own += count.own
        if not same(before, after):
            outcome.different.append(str(dtype).removeprefix("torch."))
        if outcome.rotations:
            compare_gradients(model, inputs, dtype, outcome)
        if dtype is torch.float32 and outcome.tables:
            phasor.hf.patch(model, numerics="exact")
            outcome.exact_error = error(before, run(model, inputs, dtype))
            phasor.hf.unpatch(model)


def lines(entries: list[Any]) -> list[str]:
    """Entries of a report as words."""
    return [f"{e.where}.{e.what}: {e.how}" for e in entries]


def outcome_of(model_type: str) -> Outcome:
    """Builds, patches and compares one model type."""
    outcome = Outcome(model_type)
    try:
        model = build(model_type)
    except Exception as why:  # noqa: BLE001  a config that cannot be made small is a row of the table, not an end of the run
        outcome.problem = f"not built: {reason(why)}"
        return outcome
    if model is None:
        outcome.problem = "a part of another model"
        return outcome
    outcome.model = type(model).__name__
    before = state(model)
    report = phasor.hf.patch(model, numerics="exact")
    phasor.hf.unpatch(model)
    outcome.restored = state(model) == before
    outcome.rotations, outcome.tables, outcome.left = lines(report.rotations), lines(report.tables), lines(report.left)
    try:
        compare(model, outcome)
    except Exception as why:  # noqa: BLE001
        outcome.problem = f"not run: {reason(why)}"
    return outcome


def reason(why: Exception) -> str:
    """One line, the same on every machine."""
    words = " ".join(str(why).split())
    if isinstance(why, ImportError) and "requires the" in words:
        return f"needs {words.split('requires the ')[1].split()[0]}"
    return f"{type(why).__name__}: {words}"[:120]
