# SPDX-License-Identifier: Apache-2.0
"""Recognises a rotation by what it does: small random tensors through the function and through every variant, compared bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from .. import _core
from ._complex import FUSED, by_product, separate_roundings
from ._forms import PACKINGS, Call, Form, answer, cos_sin, form_of
from ._gradients import GRADIENT_DTYPES, Order, order_of_gradients
from ._scenes import FIRST, FURTHER, Scene, call_of, scenes
from ._variants import ALIGN, ARITHMETIC, Misfit, Variant, all_variants


DTYPES = GRADIENT_DTYPES[:4]
ALIGNS = ("none", "-2", "1", "2", "outer", "rows", "time_first")


@dataclasses.dataclass
class Probe:
    """One call and what the function answered."""

    call: Call
    answers: tuple[Tensor | None, ...]
    count: int  # length of the tuple answered; 0: one tensor, no tuple


@dataclasses.dataclass(frozen=True)
class Rotation:
    """A recognised function: its variant, and the kinds of call for which that was seen to be true."""

    form: Form
    packing: str
    variant: Variant
    proven: dict[tuple, int]  # pattern of a call: length of the tuple answered, 0 for one tensor
    # (pattern but for the axis, dtype, dtype of the tables) of calls whose gradients have the function's bits
    gradients: dict[tuple, Order] = dataclasses.field(default_factory=dict)
    device: str = "cpu"  # where that was seen; elsewhere the model's own function is called

    def __str__(self) -> str:
        return f"{self.variant}, complex" if self.packing == "complex" else str(self.variant)


def pattern(variant: Variant, call: Call, cos: Tensor) -> tuple:
    """What a proof is for: which tensors there are, ranks, the axis given, and how tokens and rows of the tables go together."""
    given = [t for t in call.tensors if t is not None]
    rows = ALIGN[variant.align](cos, call.axis).shape[-2]
    # One row for many may be the axis of the heads, or a single patch after tokens that do not turn: only a probe can tell.
    together = "same" if all(t.shape[-2] == rows for t in given) else "one row" if rows == 1 else "ragged"
    return (tuple(t is None for t in call.tensors), given[0].ndim, cos.ndim, call.axis, together)


def without_axis(kind: tuple) -> tuple:
    """A pattern but for the axis given, which chooses a view of the tables and no more."""
    return (*kind[:3], *kind[4:])


def ask(function: Callable, form: Form, call: Call) -> Probe | None:
    """The function's answer, if it takes the call and answers with tensors of the shapes it was given."""
    try:
        with torch.no_grad():
            got = function(**call.keywords(form))
    except Exception:  # noqa: BLE001  a call that the function does not take says nothing about it
        return None
    answers = (got,) if isinstance(got, Tensor) else got
    if not isinstance(answers, tuple) or len(answers) > len(call.tensors):
        return None
    count = 0 if isinstance(got, Tensor) else len(answers)
    answers += (None,) * (len(call.tensors) - len(answers))
    for tensor, rotated in zip(call.tensors, answers):
        if (tensor is None) != (rotated is None) or (tensor is not None and tensor.shape != rotated.shape):
            return None
    return Probe(call, answers, count)


def agrees(variant: Variant, packing: str, probe: Probe, engine: Callable = answer) -> bool:
    """Whether the variant answers a probe as the function did: in dtype, shape and every bit (the sign of a zero aside)."""
    try:
        got = engine(variant, packing, probe.call)
    except (Misfit, ValueError, RuntimeError, IndexError, NotImplementedError):
        return False
    pairs = [(a, b) for a, b in zip(probe.answers, got) if a is not None]
    return all(a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


@torch.inference_mode(False)  # else there would be no gradients to try, and the answer is kept
def recognise(function: Callable, heads: tuple[int, int] | None = None, device: str = "cpu") -> Rotation | str:
    """The rotation that the function is for tensors on such a device, or why it was not recognised."""
    form = form_of(function)
    if isinstance(form, str):
        return form
    if device == "cuda" and not _core.has_cuda():
        return f"the model is on CUDA, and this phasor has no CUDA kernels; {_core.cuda_advice()}"
    generator = torch.Generator().manual_seed(20)
    taken: list[tuple[Scene, Probe]] = []
    for scene in scenes(form, heads, device):
        probe = ask(function, form, call_of(form, scene, DTYPES[0], generator))
        if probe is not None:
            taken.append((scene, probe))
    if not taken:
        return "it takes none of the probes"
    float32 = [probe for _, probe in taken]
    more = [ask(function, form, call_of(form, scene, dtypes, generator)) for dtypes in DTYPES[1:] for scene, _ in taken]
    if None in more:
        return "it does not take 16-bit types where it takes float32"
    found = choose(form, float32, more)
    if isinstance(found, Rotation):
        found = dataclasses.replace(found, device=device)
        where = other_at(function, found, taken, generator)
        return where if where else with_gradients(function, found, taken, generator)
    if form.tables == "complex" and not separate_roundings(device):
        fused = choose(form, float32, more, by_product)
        return found if isinstance(fused, str) else f"{fused}: {FUSED}"
    return found


def other_at(function: Callable, rotation: Rotation, taken: list[tuple[Scene, Probe]], generator: torch.Generator) -> str:
    """At which further size the function rotates otherwise, in words; empty where it does so nowhere.

    Each kind of call is tried once at every size, in one pair of dtypes after the other.
    """
    for turn, scene in enumerate(scenes_by_kind(rotation, taken).values()):
        for number, size in enumerate(FURTHER):
            dtypes = DTYPES[(turn + number) % len(DTYPES)]
            probe = ask(function, rotation.form, call_of(rotation.form, dataclasses.replace(scene, size=size), dtypes, generator))
            if probe is None or pattern(rotation.variant, probe.call, cos_sin(rotation.packing, probe.call)[0]) not in rotation.proven:
                continue  # such a call would go to the model's own function
            if not agrees(rotation.variant, rotation.packing, probe):
                return f"it rotates ({rotation}) {FIRST}, but otherwise {size} ({dtypes[0]})"
    return ""


def scenes_by_kind(rotation: Rotation, taken: list[tuple[Scene, Probe]]) -> dict[tuple, Scene]:
    """One scene of every kind of call, whatever its axis."""
    return {
        without_axis(pattern(rotation.variant, probe.call, cos_sin(rotation.packing, probe.call)[0])): scene for scene, probe in taken
    }


def with_gradients(function: Callable, rotation: Rotation, taken: list[tuple[Scene, Probe]], generator: torch.Generator) -> Rotation:
    """The rotation with what is known about its gradients: one probe of every kind of call in every pair of dtypes."""
    proven: dict[tuple, Order] = {}
    for kind, scene in scenes_by_kind(rotation, taken).items():
        for dtypes in GRADIENT_DTYPES:
            call = call_of(rotation.form, scene, dtypes, generator)
            order = order_of_gradients(function, (rotation.form, rotation.variant, rotation.packing), call, generator)
            if order is not None:
                proven[(kind, *dtypes)] = order
    for ((*rest, together), *pair), order in list(proven.items()):
        if together == "one row":
            proven.setdefault(((*rest, "same"), *pair), order)
    return dataclasses.replace(rotation, gradients=proven)


def proofs(variant: Variant, packing: str, probes: list[Probe]) -> dict[tuple, int]:
    """The patterns of the probes; one row for many tokens proves one row for one."""
    proven = {pattern(variant, probe.call, cos_sin(packing, probe.call)[0]): probe.count for probe in probes}
    for (*kind, together), count in list(proven.items()):
        if together == "one row":
            proven.setdefault((*kind, "same"), count)
    return proven


def choose(form: Form, float32: list[Probe], more: list[Probe], engine: Callable = answer) -> Rotation | str:
    """The first variant that agrees with every probe; `engine` does the rotation, phasor unless it is said."""
    reason = "no known rotation has its bits"
    aligns = ("parameter",) if "axis" in form.roles else ALIGNS
    arithmetics = ("float32",) if form.tables == "complex" else tuple(ARITHMETIC)
    for packing in PACKINGS[form.tables]:
        for variant in all_variants(aligns):
            for arithmetic in arithmetics:
                chosen = dataclasses.replace(variant, arithmetic=arithmetic)
                if not all(agrees(chosen, packing, probe, engine) for probe in float32):
                    continue
                if all(agrees(chosen, packing, probe, engine) for probe in more):
                    return Rotation(form, packing, chosen, proofs(chosen, packing, float32))
                reason = f"it rotates ({variant.pairing}), but no known arithmetic has its bits in 16-bit types"
    return reason
