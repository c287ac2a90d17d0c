# SPDX-License-Identifier: Apache-2.0
"""Rotary.rerotate_: keys of a paged cache move as those of a tensor do, and on PyTorch tensors by an operator that compilers follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor
from phasor._torch import words_of

BLOCKS, PAGE, HEADS, DIM = 4, 3, 2, 16
ROPE, OTHER = phasor.Rotary(DIM), phasor.Rotary(DIM, scaling=phasor.YarnScaling(factor=4, original_length=32))
SLOTS = [7, -1, 0, 11, 2]
BEFORE, AFTER = np.arange(5) * 3 + 100, np.arange(5)[::-1].copy()
OPERATOR = torch.ops.phasor.rerotate_.default


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def cache(dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(BLOCKS, PAGE, HEADS, DIM)).astype(dtype)


def moved(paged: np.ndarray, before: Any = BEFORE, after: Any = AFTER, **more: Any) -> np.ndarray:
    """What the cache becomes, by moving its keys as a tensor of their own."""
    wanted = paged.copy()
    flat = wanted.reshape(BLOCKS * PAGE, HEADS, DIM)
    kept = [i for i, slot in enumerate(SLOTS) if slot >= 0]
    keys = flat[[SLOTS[i] for i in kept]]
    at = [x if isinstance(x, np.ndarray) else x + np.arange(len(SLOTS)) for x in (before, after)]
    flat[[SLOTS[i] for i in kept]] = ROPE.rerotate_(keys, *(np.ascontiguousarray(x[..., kept]) for x in at), **more)
    return wanted


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("kind", [list, tuple, np.int32, np.int64])
@pytest.mark.parametrize("more", [{}, {"source": OTHER}], ids=["same", "other"])
def test_keys_of_pages_move_as_those_of_a_tensor(dtype: Any, kind: Any, more: dict[str, Any]) -> None:
    slots = kind(SLOTS) if isinstance(kind, type) and issubclass(kind, (list, tuple)) else np.array(SLOTS, kind)
    for before, after in ((BEFORE, AFTER), (BEFORE[None], 0), (7, AFTER.astype(np.int32))):
        given = cache(dtype)
        wanted = moved(given, before, after, **more)
        assert ROPE.rerotate_(given, before, after, slots=slots, **more) is given
        np.testing.assert_array_equal(given, wanted)
        tensor = torch.from_numpy(cache(dtype))
        of = torch.from_numpy(slots) if isinstance(slots, np.ndarray) else slots
        at = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in (before, after)]
        version = tensor._version
        assert ROPE.rerotate_(tensor, *at, slots=of, **more) is tensor and tensor._version > version
        np.testing.assert_array_equal(tensor.numpy(), wanted)
    assert (wanted != cache(dtype)).any() and (wanted == cache(dtype)).any()


def test_pages_with_positions_of_several_axes_and_one_slot_a_token() -> None:
    rope = phasor.Rotary(DIM, axes=phasor.Axes(sections=(2, 3, 3)))
    slots, before, after = np.array([5, 3, 9]), np.arange(9).reshape(3, 1, 3) * 10, np.arange(9).reshape(3, 1, 3)
    flat = cache().reshape(BLOCKS * PAGE, HEADS, DIM)  # SGLang's: a slot a token
    wanted = flat.copy()
    wanted[slots] = rope.rerotate_(flat[slots], before, after)
    np.testing.assert_array_equal(rope.rerotate_(flat.copy(), before, after, slots=slots), wanted)
    np.testing.assert_array_equal(rope.rerotate_(cache(), before, after, slots=slots).reshape(flat.shape), wanted)


@pytest.mark.parametrize("kind", ["array", "tensor", "operator"])
@pytest.mark.parametrize(
    "slots, error, says",
    [
        ([0, 1, 12, 3, 4], ValueError, r"rerotate: slots\[2\] is 12, the cache has 12 .4 blocks of 3 slots."),
        ([0, 1, 5, 3, 1], ValueError, r"rerotate: slots\[4\] is 1 once more, wanted each slot once"),
        ([0, 1, 2, 3], ValueError, "positions (are of|have) 5 tokens"),
        ([[0, 1, 2, 3, 4]], TypeError, "slots.* of 2 axes, wanted a.* list of int32 or int64"),
        ([True, False, True, True, False], TypeError, "slots.*bool.*wanted"),
        ([0.5, 1, 2, 3, 4], TypeError, "slots"),
    ],
)
def test_slots_that_do_not_fit_are_refused_and_nothing_is_written(kind: str, slots: Any, error: Any, says: str) -> None:
    given = cache()
    with pytest.raises(error, match=says):
        if kind == "array":
            ROPE.rerotate_(given, BEFORE, AFTER, slots=slots)
        elif kind == "tensor":
            ROPE.rerotate_(torch.from_numpy(given), torch.from_numpy(BEFORE), torch.from_numpy(AFTER), slots=torch.tensor(slots))
        else:
            OPERATOR(*arguments(torch.from_numpy(given), torch.tensor(slots)))
    np.testing.assert_array_equal(given, cache())


def arguments(k: Tensor, slots: Tensor | None, source: phasor.Rotary = OTHER) -> tuple[Any, ...]:
    before, after = (torch.from_numpy(x) for x in (BEFORE, AFTER))
    return k, words_of(source), before, 0, words_of(ROPE), after, 0, slots


def step(k: Tensor, slots: Tensor | None, before: Any, after: Any) -> Tensor:
    ROPE.rerotate_(k, before, after, source=OTHER, slots=slots)
    return k * 2  # which must see what was written


CALLS = {
    "pages": lambda: (torch.from_numpy(cache()), torch.tensor(SLOTS), torch.from_numpy(BEFORE), torch.from_numpy(AFTER)),
    "pages of int32": lambda: (torch.from_numpy(cache()).bfloat16(), torch.tensor(SLOTS, dtype=torch.int32), torch.from_numpy(BEFORE), 3),
    "rows": lambda: (torch.from_numpy(cache()), None, torch.arange(PAGE) * 7, torch.arange(BLOCKS * PAGE).view(BLOCKS, PAGE)),
    "offsets": lambda: (torch.from_numpy(cache())[:, :, ::2], None, 10**9, None),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_in_one_graph(name: str, backend: str) -> None:
    eager, compiled = CALLS[name](), CALLS[name]()
    before = eager[0].clone()
    want = step(*eager)
    got = torch.compile(step, fullgraph=True, backend=backend)(*compiled)
    assert torch.equal(got, want) and torch.equal(compiled[0], eager[0]) and not torch.equal(eager[0], before)


def test_a_list_of_slots_is_compiled_and_every_length_has_one_graph() -> None:
    def call(k: Tensor, at: Tensor) -> Tensor:
        return ROPE.rerotate_(k, at, 0, slots=SLOTS)

    given = torch.from_numpy(cache()), torch.from_numpy(BEFORE)
    want = call(given[0].clone(), given[1])
    assert torch.equal(torch.compile(call, fullgraph=True, backend="aot_eager")(*given), want)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    graphs = torch._dynamo.utils.counters["stats"]
    for tokens in (5, 7, 9):  # none of which is an extent of the cache
        each = [(torch.from_numpy(cache()), torch.arange(tokens).flip(0), torch.arange(tokens) * 5, tokens) for _ in range(2)]
        assert torch.equal(compiled(*each[0]), step(*each[1])) and torch.equal(each[0][0], each[1][0])
        count = graphs["unique_graphs"] if tokens == 5 else count  # noqa: F821
    assert graphs["unique_graphs"] == count


def test_opcheck_accepts_the_operator() -> None:
    k = torch.from_numpy(cache())
    for slots in (torch.tensor(SLOTS), torch.tensor(SLOTS, dtype=torch.int32)):
        torch.library.opcheck(OPERATOR, arguments(k.clone(), slots))
    torch.library.opcheck(OPERATOR, arguments(torch.randn(5, HEADS, DIM), None))


def test_exported_with_shapes_alone_and_seen_by_who_looks_on() -> None:
    class Shift(torch.nn.Module):
        def forward(self, k: Tensor, slots: Tensor, before: Tensor) -> Tensor:
            return step(k, slots, before, 0)

    given = CALLS["pages"]()[:3]
    program = torch.export.export(Shift(), given).module()
    each = [CALLS["pages"]()[:3] for _ in range(2)]
    assert torch.equal(program(*each[0]), Shift()(*each[1])) and torch.equal(each[0][0], each[1][0])
    with FakeTensorMode() as mode:
        assert step(*(mode.from_tensor(x) for x in given), 0).shape == given[0].shape
    assert step(*(x.to("meta") for x in given), 0).shape == given[0].shape
    seen: list[Any] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    watched = CALLS["pages"]()
    with Watch():
        step(*watched)
    assert OPERATOR in seen and torch.equal(watched[0], moved_by(OTHER))
    wrapped = CALLS["pages"]()
    step(wrapped[0].as_subclass(type("Other", (torch.Tensor,), {})), *wrapped[1:])
    assert torch.equal(wrapped[0], watched[0])


def moved_by(source: phasor.Rotary) -> Tensor:
    return torch.from_numpy(moved(cache(), source=source))


@pytest.mark.parametrize("paged", [False, True])
def test_what_would_be_lost_is_refused_and_nothing_is_written(paged: bool) -> None:
    k, slots, *at = CALLS["pages"]() if paged else CALLS["rows"]()
    before = k.clone()

    def call(k: Tensor) -> Tensor:
        return ROPE.rerotate_(k, *at, slots=slots)

    with pytest.raises(NotImplementedError, match="rerotate_: k or positions require a gradient, wanted keys of a cache"):
        call(k.clone().requires_grad_())
    with pytest.raises(NotImplementedError, match="rerotate_: k or positions require a gradient"):
        OPERATOR(k.clone().requires_grad_(), *arguments(k, slots)[1:])
    with pytest.raises(NotImplementedError, match="rerotate_: k or positions require a gradient"):
        ROPE.rerotate_(k, at[0].double().requires_grad_(), 0, slots=slots)
    with pytest.raises(Exception, match="rerotate_: k or positions require a gradient"):
        torch.compile(call, fullgraph=True, backend="aot_eager")((k * 1).requires_grad_())
    for transform in (
        lambda: torch.func.vmap(call)(k[None]),
        lambda: torch.func.jvp(call, (k,), (torch.ones_like(k),)),
        lambda: torch.func.grad(lambda x: call(x).sum())(k),
    ):
        with pytest.raises(NotImplementedError, match="rerotate_: (called inside of|k or positions require)"):
            transform()
    with pytest.raises(NotImplementedError, match="rerotate_: called inside of vmap, wanted the mapped axis as batch rows"):
        torch.func.vmap(lambda x: OPERATOR(x, *arguments(k, slots)[1:]))(k[None])
    assert torch.equal(k, before)
    with torch.inference_mode():
        made = k.clone()
        call(made)
    with pytest.raises(RuntimeError, match="inference tensor"):
        call(made)
    x = torch.ones(DIM, requires_grad=True)
    product = (k * x).sum()
    OPERATOR(k, *arguments(k, slots, ROPE)[1:]) if paged else call(k)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
