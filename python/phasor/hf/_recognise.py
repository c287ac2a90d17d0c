# SPDX-License-Identifier: Apache-2.0
"""Recognises a rotation by what it does: small random tensors through the function and through every variant, compared bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from ._complex import FUSED, ROW, by_product, separate_roundings
from ._forms import PACKINGS, Call, Form, answer, cos_sin, form_of
from ._gradients import GRADIENT_DTYPES, Order, order_of_gradients
from ._variants import ALIGN, ARITHMETIC, Misfit, Variant, all_variants


D, T, B, H = 24, 5, 2, 3
# (shape of q, of k and v, of the tables without their width): ranks and orders that models use.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((B, H, T, D), (B, 1, T, D), (B, T)),
    ((B, H, T, D), (B, 1, T, D), (1, T)),
    ((B, T, H, D), (B, T, 1, D), (B, T)),
    ((T, H, D), (T, 1, D), (T,)),
    ((1, T, H, D), (1, T, 1, D), (T,)),
    ((B, H, T, D), (B, 1, T, D), (T,)),
    ((B, H, T, D), (B, 1, T, D), (1, 1, T)),
    ((B, H, T, D), (B, 1, T, D), (B, 1, T)),
    ((B, T, H, D), (B, T, 1, D), (T, 1)),
    ((B, T, D), (B, T, D), (B, T)),
    ((B, H, T + 2, D), (B, 1, T + 2, D), (T,)),  # tokens without a row come first: DINOv3
    ((B, H, T - 2, D), (B, 1, T, D), (B, T)),  # q has the last rows
]
PACKED_SHAPES = [((B, H, T, D), (B, H, T, D), (1, 1, T)), ((B, T, D), (B, T, D), (2, T + 2, 1, 1))]
WIDTHS = (D, D // 2, D // 3)
DTYPES = GRADIENT_DTYPES[:4]
ALIGNS = ("none", "-2", "1", "2", "outer", "rows", "time_first")


@dataclasses.dataclass
class Scene:
    """The shapes of one probe."""

    shapes: tuple[tuple[int, ...], ...]
    width: int
    axis: int | None
    given: int  # tensors; the others are None


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


def scenes(form: Form, heads: tuple[int, int] | None) -> Iterator[Scene]:
    """Every kind of call that might be taken; `heads` (their number and width) where the function reads them from its module."""
    tensors = form.roles.count("tensor")
    shapes = PACKED_SHAPES if form.tables == "packed" else SHAPES
    widths: Iterable[int] = WIDTHS
    if heads is not None:
        number, widths = heads[0], (heads[1],)
        shapes = [((B, T, number * heads[1]),) * 2 + (PACKED_SHAPES[1][2],)]
    elif form.tables == "complex":
        widths = (ROW, 2 * ROW)
        shapes = [((*q[:-1], 2 * ROW), (*k[:-1], 2 * ROW), t) for q, k, t in SHAPES]
    for shape in shapes:
        for width in widths:
            for axis in (0, 1, 2, -2) if "axis" in form.roles else (None,):
                for given in range(1, tensors + 1):
                    yield Scene(shape, width, axis, given)


def random(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Normal numbers of any dtype."""
    return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)


def call_of(form: Form, scene: Scene, dtypes: tuple[torch.dtype, torch.dtype], generator: torch.Generator) -> Call:
    """Random tensors and tables of one probe."""
    q, others, rows = scene.shapes
    count = form.roles.count("tensor")
    tensors = [random(q if i == 0 else others, dtypes[0], generator) if i < scene.given else None for i in range(count)]
    kind = torch.complex64 if form.tables == "complex" else dtypes[1]
    tables = tuple(random((*rows, scene.width), kind, generator) for _ in range(2 if form.tables == "separate" else 1))
    return Call(tensors, tables, torch.arange(T).flip(0)[None] if "rows" in form.roles else None, scene.axis)


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


def recognise(function: Callable, heads: tuple[int, int] | None = None) -> Rotation | str:
    """The rotation that the function is, or why it was not recognised."""
    form = form_of(function)
    if isinstance(form, str):
        return form
    generator = torch.Generator().manual_seed(20)
    taken: list[tuple[Scene, Probe]] = []
    for scene in scenes(form, heads):
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
        return with_gradients(function, found, taken, generator)
    if form.tables == "complex" and not separate_roundings():
        fused = choose(form, float32, more, by_product)
        return found if isinstance(fused, str) else f"{fused.variant}: {FUSED}"
    return found


def with_gradients(function: Callable, rotation: Rotation, taken: list[tuple[Scene, Probe]], generator: torch.Generator) -> Rotation:
    """The rotation with what is known about its gradients: one probe of every kind of call in every pair of dtypes."""
    scenes_by_kind = {}
    for scene, probe in taken:
        scenes_by_kind[without_axis(pattern(rotation.variant, probe.call, cos_sin(rotation.packing, probe.call)[0]))] = scene
    proven: dict[tuple, Order] = {}
    for kind, scene in scenes_by_kind.items():
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
