# SPDX-License-Identifier: Apache-2.0
"""Runs a model before and after patching, and compares every tensor of its output bit for bit."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

import phasor.hf
from phasor.hf import _replace
from phasor.hf._complex import FUSED
from phasor.hf._first_calls import FirstCall
from settled import bfloat16_is_slow, seconds_of_a_product
from torch.utils.flop_counter import FlopCounterMode

from . import further
from .inputs import inputs_for
from .models import build
from .overrides import PARTS

DTYPES = (torch.float32, torch.bfloat16)
MOST_SECONDS = 0.2  # of a forward in bfloat16; there are up to eight, and as many backward


@dataclasses.dataclass
class Outcome:
    """What came of one model type; as a dict it is a row of docs/hf.md."""

    model_type: str
    model: str = ""  # class
    problem: str = ""  # why there is no model to try, or no run of it
    rotations: list[str] = dataclasses.field(default_factory=list)
    tables: list[str] = dataclasses.field(default_factory=list)
    left: list[str] = dataclasses.field(default_factory=list)
    fused: list[str] = dataclasses.field(default_factory=list)  # rotations left because PyTorch fuses its complex product here
    fell_back: list[str] = dataclasses.field(default_factory=list)  # first real calls that were answered otherwise
    ours: int = 0  # calls that phasor served in the patched runs
    own: int = 0  # calls that went to the model's own function
    different: list[str] = dataclasses.field(default_factory=list)  # dtypes whose outputs are not bitwise equal
    unable: list[str] = dataclasses.field(default_factory=list)  # dtypes that the model itself cannot run in
    too_slow: list[str] = dataclasses.field(default_factory=list)  # dtypes left out: this processor has no instructions for them
    restored: bool = True  # unpatch left every module as it was
    exact_error: float = 0.0  # of outputs with numerics="exact", relative to the largest
    table_error: float = 0.0  # of its tables, in units of the documented error
    moved_error: float = 0.0  # of outputs whose tables were moved at random by that error
    far: list[float] = dataclasses.field(default_factory=list)  # errors of float32 at far positions: unpatched, exact
    generates: str = ""  # "bitwise" or "DIFFERENT"; empty where it does not
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


def cast_all(inputs: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Inputs of a model in this dtype."""
    return {name: cast(value, dtype) for name, value in inputs.items()}


def run(model: torch.nn.Module, inputs: dict[str, Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """The output's tensors."""
    torch.manual_seed(7)
    with torch.no_grad():
        return list(tensors(model(**cast_all(inputs, dtype))))


class Count:
    """Counts the calls that phasor serves and those that the model's own functions serve, while it is entered."""

    def __enter__(self) -> "Count":
        self.ours, self.own = 0, 0
        self._turned, self._compared = _replace.turned, FirstCall.compared

        def counted(*args: Any) -> Any:
            got = self._turned(*args)
            if not isinstance(got, FirstCall):
                self._add(got is not None)
            return got

        def compared(first: FirstCall, own: Callable) -> Any:
            got = self._compared(first, own)
            self._add(first.calls.verdict(first.kind) is True)  # None: a Misfit
            return got

        _replace.turned, FirstCall.compared = counted, compared
        return self

    def _add(self, ours: bool) -> None:
        self.ours, self.own = self.ours + ours, self.own + (not ours)

    def __exit__(self, *_: Any) -> None:
        _replace.turned, FirstCall.compared = self._turned, self._compared


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    """Bitwise equal, NaN equal to NaN."""
    return len(a) == len(b) > 0 and all(x.dtype == y.dtype and torch.equal(x.nan_to_num(1e9), y.nan_to_num(1e9)) for x, y in zip(a, b))


def error(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest difference relative to the largest value; the least number of a dtype, which stands for minus infinity, is left out."""
    a, b = ([t.masked_fill(t.abs() > 1e30, 0) for t in some] for some in (a, b))
    return max((float((x - y).abs().max() / x.abs().max().clamp(min=1e-30)) for x, y in zip(a, b) if x.numel()), default=0.0)


def state(model: torch.nn.Module) -> dict[str, dict[str, int]]:
    """Which objects every module has as attributes."""
    return {name: {key: id(value) for key, value in module.__dict__.items()} for name, module in model.named_modules()}


def steady_error(model: torch.nn.Module, backward: Callable, before: list[torch.Tensor], after: list[torch.Tensor]) -> float:
    """Of the parameters whose gradients the unpatched model repeats: PyTorch's own bfloat16 convolutions do not always (step3p5_vision)."""
    phasor.hf.unpatch(model)
    again = [backward() for _ in range(3)]
    phasor.hf.patch(model)
    steady = [i for i, gradient in enumerate(before) if all(torch.equal(gradient, other[i]) for other in again)]
    pair = [before[i] for i in steady], [after[i] for i in steady]
    return 0.0 if same(*pair) else error(*pair)


def too_slow(model: torch.nn.Module, inputs: dict[str, Any], dtype: torch.dtype) -> bool:
    """Whether the model, now in float32, would take too long in this dtype on this processor: what else is compared in it is in the other models."""
    if dtype is torch.float32 or not bfloat16_is_slow():
        return False
    with FlopCounterMode(display=False) as counter:
        run(model, inputs, torch.float32)
    return counter.get_total_flops() / 2 * seconds_of_a_product(dtype) > MOST_SECONDS


def compare(model: torch.nn.Module, inputs: dict[str, Any], outcome: Outcome, plain: list[torch.Tensor] | None) -> None:
    """The model in float32 (whose outputs may be known) and bfloat16, unpatched and patched: forward, backward, generation."""
    for dtype in DTYPES:
        if too_slow(model, inputs, dtype):
            outcome.too_slow.append(named(dtype))
            continue
        model = model.float() if dtype is torch.float32 else model.bfloat16()  # .to(dtype) would make real numbers of complex tables
        try:
            before = plain if plain and dtype is torch.float32 else run(model, inputs, dtype)
        except RuntimeError:
            if dtype is torch.float32:
                raise
            outcome.unable.append(named(dtype))
            continue
        backward = functools.partial(further.gradients, lambda: tensors(model(**cast_all(inputs, dtype))), model)
        gradients = attempt(backward) if outcome.rotations or outcome.fused else None
        tokens = attempt(lambda: further.generated(model)) if generates(model, inputs, outcome, dtype) else None
        report = phasor.hf.patch(model)
        with Count() as count:
            after = run(model, inputs, dtype)
        outcome.ours += count.ours
        outcome.own += count.own
        if not same(before, after):
            outcome.different.append(named(dtype))
        if gradients:
            with Count() as count:
                after = backward()
            outcome.own_gradients += [named(dtype)] if count.own else []
            outcome.gradients[named(dtype)] = 0.0 if same(gradients, after) else steady_error(model, backward, gradients, after)
        if tokens:
            with Count() as count:
                alike = same(tokens, further.generated(model))
            outcome.generates = "DIFFERENT" if not alike else "bitwise" if count.ours or outcome.fused else ""
        outcome.fell_back += lines(report.fell_back)
        phasor.hf.unpatch(model)


def named(dtype: torch.dtype) -> str:
    """Without PyTorch's name."""
    return str(dtype).removeprefix("torch.")


def restored(before: dict, patched: dict, after: dict) -> bool:
    """Whether all that patching changed is as before; what a run of the model leaves behind is the model's."""
    changed = [(name, key) for name in before for key in before[name] | patched[name] if before[name].get(key) != patched[name].get(key)]
    return all(after[name].get(key) == before[name].get(key) for name, key in changed)


def generates(model: torch.nn.Module, inputs: dict[str, Any], outcome: Outcome, dtype: torch.dtype) -> bool:
    """Whether generation is worth trying: of text, in float32."""
    return dtype is torch.float32 and bool(outcome.rotations or outcome.fused) and list(inputs) == ["input_ids"] and getattr(model, "can_generate", bool)()


def attempt(what: Callable[[], Any]) -> Any:
    """None where the unpatched model itself cannot."""
    try:
        return what()
    except Exception:  # noqa: BLE001
        return None


def exact_runs(model: torch.nn.Module, inputs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """A model with exact tables: the outputs, the tables, and the outputs at far positions."""
    with further.watched(model, change=False) as tables:
        outputs = attempt(lambda: run(model, inputs, torch.float32))
    return outputs, tables, attempt(lambda: run(model, further.far_inputs(), torch.float32)) if list(inputs) == ["input_ids"] else None


def compare_exact(model: torch.nn.Module, inputs: dict[str, Any], outcome: Outcome, exact: tuple[Any, Any, Any]) -> Any:
    """Exact tables against the model's own: within the documented error; far away nearer to float64. The model's own outputs."""
    outputs, tables, far = exact
    if outputs is None or not outcome.tables:
        return None
    with further.watched(model, change=False) as own:
        before = run(model, inputs, torch.float32)
    outcome.table_error, outcome.exact_error = further.table_error(own, tables), error(before, outputs)
    with further.watched(model, change=True):
        outcome.moved_error = error(before, run(model, inputs, torch.float32))
    if far is None or any(further.exact_frequencies(m) is None for m in further.embeddings(model)):
        return before
    plain = run(model, further.far_inputs(), torch.float32)
    with further.in_float64(model):
        wanted = attempt(lambda: run(model, further.far_inputs(), torch.float64))
    if wanted is not None:
        outcome.far = [error(wanted, plain), error(wanted, far)]
    return before


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
    patched = state(model)
    part = model.get_submodule(PARTS.get(model_type, ""))
    inputs = attempt(lambda: inputs_for(model))
    exact = exact_runs(part, inputs) if inputs and report.tables else (None, None, None)
    phasor.hf.unpatch(model)
    outcome.restored = restored(before, patched, state(model))
    outcome.rotations, outcome.tables, outcome.left = lines(report.rotations), lines(report.tables), lines(report.left)
    outcome.fused = [line.removesuffix(f": {FUSED}") for line in outcome.left if line.endswith(FUSED)]
    outcome.left = [line for line in outcome.left if not line.endswith(FUSED)]
    try:
        inputs = inputs_for(model)
        compare(part, inputs, outcome, compare_exact(part, inputs, outcome, exact))
    except Exception as why:  # noqa: BLE001
        outcome.problem = f"not run: {reason(why)}"
    return outcome


def reason(why: Exception) -> str:
    """One line, the same on every machine."""
    words = " ".join(str(why).split())
    if isinstance(why, ImportError) and "requires the" in words:
        return f"needs {words.split('requires the ')[1].split()[0]}"
    return f"{type(why).__name__}: {words}"[:120]
