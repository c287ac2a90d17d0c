# SPDX-License-Identifier: Apache-2.0
"""Eager calls on PyTorch tensors: the same bits every way they are made, and PyTorch's manners in place."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import phasor
from phasor._torch import words_of

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


class Seen(TorchDispatchMode):
    """Counts the operators of this library."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "phasor":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def tensors(dtype=torch.float32):
    torch.manual_seed(1)
    return torch.randn(2, 7, 5, 10).to(dtype)[..., 1:9], torch.randn(2, 3, 7, 8).to(dtype).transpose(1, 2)


def rope_of(**fields):
    return phasor.Rotary(8, rotary_width=6, pairing="interleaved", **fields)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positions", [None, 10**15, torch.arange(7, dtype=torch.int32), torch.rand(2, 7, dtype=torch.float64) * 1e6])
def test_every_way_to_call_gives_the_same_bits(dtype, positions):
    rope = rope_of()
    q, k = tensors(dtype)
    want = rope(q, k, positions)
    with Seen() as seen:
        watched = rope(q, k, positions)
    assert seen.names == ["rotary"]
    learning = rope(q.clone().requires_grad_(), k.clone().requires_grad_(), positions)
    written = rope.apply_(q.clone(), k.clone(), positions)
    single = rope(q, positions=positions), rope(k, positions=positions)
    for other in (watched, learning, written, single):
        for a, b in zip(want, other):
            assert torch.equal(a, b.detach()) and b.dtype == dtype
    if dtype in (torch.float32, torch.float64):
        at = positions.numpy() if isinstance(positions, torch.Tensor) else positions
        assert np.array_equal(rope(q.numpy(), positions=at), want[0].numpy())


def test_positions_may_be_numpy_and_lists():
    rope, (q, _) = rope_of(), tensors()
    want = rope(q, positions=torch.arange(7) + 3)
    for positions in (3, np.int64(3), np.arange(7) + 3, [3, 4, 5, 6, 7, 8, 9], range(3, 10)):
        assert torch.equal(rope(q, positions=positions), want)
        with Seen():
            assert torch.equal(rope(q, positions=positions), want)


@pytest.mark.parametrize(
    "fields", [{}, {"pairing": "interleaved", "rotary_width": 6}, {"output_pairing": "interleaved", "sense": "clockwise"}]
)
def test_tables_give_the_same_bits_every_way_they_are_given(fields):
    q, k = tensors()
    angle = torch.randn(2, 7, 3 if "rotary_width" in fields else 4)
    cos, sin = angle.cos(), angle.sin()
    want = phasor.apply_rotary(q, k, cos, sin, **fields)
    with Seen() as seen:
        watched = phasor.apply_rotary(q, k, cos, sin, **fields)
    assert seen.names == ["rotary_tables"]
    learning = phasor.apply_rotary(q.clone().requires_grad_(), k, cos, sin, **fields)
    written = phasor.apply_rotary_(q.clone(), k.clone(), cos, sin, **fields)
    numpy = [torch.from_numpy(x) for x in phasor.apply_rotary(q.numpy(), k.numpy(), cos.numpy(), sin.numpy(), **fields)]
    for other in (watched, learning, written, numpy):
        assert all(torch.equal(a, b.detach()) for a, b in zip(want, other))


@pytest.mark.parametrize("direction", ["forward", "inverse", "transpose"])
def test_gradients_by_eager_calls(direction):
    rope = rope_of(scaling=phasor.YarnScaling(factor=4, original_length=64))
    q, k = (x.double()[:, :3].clone().requires_grad_() for x in tensors())
    positions = torch.tensor([5, 10**9, -2])

    def turn(q, k):
        return rope(q, k, positions, direction=direction)

    def turn_in_place(q, k):
        q, k = q * 2, (k * 3).transpose(0, 2)
        rope.apply_(q, k.transpose(0, 2), positions, direction=direction)
        return q, k

    for function in (turn, turn_in_place):
        assert torch.autograd.gradcheck(function, (q, k))
        assert torch.autograd.gradgradcheck(function, (q, k))


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_gradients_by_eager_calls_with_tables(direction):
    q, k = (x.double()[:, :3].clone().requires_grad_() for x in tensors())
    angle = torch.randn(3, 8, dtype=torch.float64)
    layout = {"direction": direction, "pairing": "interleaved", "output_pairing": "half"}

    def turn(q, k):
        a, b = phasor.apply_rotary(q, k, angle.cos(), angle.sin(), **layout)
        return a, phasor.apply_rotary_(b * 1, None, angle.cos(), angle.sin(), **layout)

    assert torch.autograd.gradcheck(turn, (q, k))
    assert torch.autograd.gradgradcheck(turn, (q, k))


def test_only_the_gradients_that_are_wanted_are_made():
    rope, (q, k) = rope_of(), tensors()
    q.requires_grad_()
    a, b = rope(q, k, 3)
    assert a.requires_grad
    a.sum().backward()  # an expanded gradient: stride 0 on the last axis
    assert torch.equal(q.grad, rope(torch.ones_like(q), positions=3, direction="transpose"))
    assert rope(q.detach(), k, 3)[0].grad_fn is None
    with torch.no_grad():
        assert rope(q, k, 3)[0].grad_fn is None


def test_what_does_not_learn_stays_so():
    rope, (q, k) = rope_of(), tensors()
    angle = torch.randn(7, 3)
    for call in (
        lambda q: rope(q, k),
        lambda q: rope.apply_(q * 1, k),
        lambda q: torch.ops.phasor.rotary.qk(q, k, words_of(rope), None, 0, 0),
        lambda q: (torch.ops.phasor.rotary_.qk(x := q * 1, k, words_of(rope), None, 0, 0), (x, k))[1],
        lambda q: phasor.apply_rotary(q, k, angle.cos(), angle.sin(), rotary_width=6),
        lambda q: torch.ops.phasor.rotary_tables.qk(q, k, angle.cos(), angle.sin(), [6, 0, 0, -1, 0, 0, 1], 0),
    ):
        a, b = call(q.clone().requires_grad_())
        assert a.requires_grad and not b.requires_grad and not k.requires_grad


def test_versions_are_counted_in_inference_mode_too():
    rope, q = rope_of(), torch.randn(7, 3, 8)
    for call in (lambda: rope.apply_(q), lambda: torch.ops.phasor.rotary_(q, words_of(rope), None, 0, 0)):
        before = q._version
        with torch.inference_mode():
            call()
        assert q._version > before


def test_positions_changed_before_the_gradient_are_noticed():
    rope, (q, _) = rope_of(), tensors()
    positions = torch.arange(7)
    out = rope(q.requires_grad_(), positions=positions)
    positions.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_in_place_counts_versions():
    rope, (q, k) = rope_of(), tensors()
    angle = torch.randn(7, 3)
    for call in (
        lambda: rope.apply_(q, k),
        lambda: torch.ops.phasor.rotary_.qk(q, k, words_of(rope), None, 0, 0),
        lambda: phasor.apply_rotary_(q, k, angle.cos(), angle.sin(), rotary_width=6),
    ):
        before = q._version, k._version
        call()
        assert q._version > before[0] and k._version > before[1]
    weight = torch.randn(8, requires_grad=True)
    product = q * weight  # saves q
    rope.apply_(q)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_in_place_on_a_leaf_is_refused_and_nothing_written():
    rope, (q, k) = rope_of(), tensors()
    before = k.clone()
    leaf = q.clone().requires_grad_()
    for call in (
        lambda: rope.apply_(k, leaf),
        lambda: rope.apply_(leaf),
        lambda: torch.ops.phasor.rotary_.qk(k, leaf, words_of(rope), None, 0, 0),
        lambda: phasor.apply_rotary_(k, leaf, torch.ones(7, 4), torch.ones(7, 4)),
    ):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            call()
    assert torch.equal(k, before)
    with torch.no_grad():
        rope.apply_(leaf, positions=2)  # as an optimiser does
    assert torch.equal(leaf.detach(), rope(q, positions=2))


def test_in_place_on_one_of_several_views_is_refused_as_by_pytorch():
    rope = rope_of()
    packed = torch.randn(7, 3, 16, requires_grad=True) * 1
    before = packed.detach().clone()
    q, _ = packed.chunk(2, -1)
    with pytest.raises(RuntimeError, match="view"):
        rope.apply_(q)
    assert torch.equal(packed.detach(), before)
    rope.apply_(packed[..., :8])  # one view of a call may be written, and the base has its gradient
    assert packed.grad_fn is not None and not torch.equal(packed.detach(), before)


def test_inference_tensors_are_written_in_inference_mode_only():
    rope = rope_of()
    with torch.inference_mode():
        q = torch.randn(7, 3, 8)
        rope.apply_(q)
    for call in (lambda: rope.apply_(q), lambda: torch.ops.phasor.rotary_(q, words_of(rope), None, 0, 0)):
        with pytest.raises(RuntimeError, match="inference tensor outside InferenceMode"):
            call()


def test_negative_views_are_what_they_seem():
    rope, q = rope_of(), torch.randn(7, 3, 8)
    assert torch.equal(rope(torch._neg_view(q)), rope(-q))
    written = q.clone()
    rope.apply_(torch._neg_view(written))
    assert torch.equal(-written, rope(-q))
    turns = torch.polar(torch.ones(7, 4), torch.randn(7, 4)).conj()  # tables as complex numbers: the sine is a negative view
    assert turns.imag.is_neg()
    want = phasor.apply_rotary(q, None, turns.real.clone(), turns.imag.clone())
    assert torch.equal(phasor.apply_rotary(q, None, turns.real.contiguous(), turns.imag), want)
    assert torch.equal(torch.ops.phasor.rotary_tables(q, turns.real.contiguous(), turns.imag, [0, 0, 0, -1, 0, 0, 1], 0), want)


def test_subclasses_and_function_modes_see_the_operator():
    class Sub(torch.Tensor):
        pass

    rope, q = rope_of(), torch.randn(7, 3, 8)
    got = rope(q.as_subclass(Sub))
    assert type(got) is Sub and torch.equal(got.as_subclass(torch.Tensor), rope(q))
    with torch.device("cpu"):
        assert torch.equal(rope(q), torch.ops.phasor.rotary(q, words_of(rope), None, 0, 0))


def test_parameters_are_tensors():
    rope = rope_of()
    weight = torch.nn.Parameter(torch.randn(7, 3, 8))
    out = rope(weight)
    assert type(out) is torch.Tensor and out.requires_grad


def test_autocast_keeps_the_dtype():
    rope, (q, k) = rope_of(), tensors()
    with torch.autocast("cpu", torch.bfloat16):
        assert rope(q).dtype == torch.float32
        with Seen():
            assert [x.dtype for x in rope(q, k)] == [torch.float32] * 2
        half = torch.nn.Linear(8, 8)(q)
        assert rope(half).dtype == torch.bfloat16


def test_results_do_not_depend_on_threads():
    rope, q = phasor.Rotary(64), torch.randn(2, 301, 7, 64)
    before = phasor.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            phasor.set_num_threads(threads)
            results.append(rope(q, positions=10**6))
    finally:
        phasor.set_num_threads(before)
    assert all(torch.equal(results[0], x) for x in results[1:])


def test_copies_and_pickles_turn_alike():
    rope, q = rope_of(), torch.randn(7, 3, 8)
    for other in (copy.deepcopy(rope), copy.copy(rope), pickle.loads(pickle.dumps(rope))):
        assert torch.equal(other(q), rope(q))
        assert torch.equal(words_of(other), words_of(rope))


def test_a_checkpointed_layer_has_the_same_gradients():
    from torch.utils.checkpoint import checkpoint

    rope, q = rope_of(), torch.randn(7, 3, 8)
    a, b = q.clone().requires_grad_(), q.clone().requires_grad_()
    rope(a).sin().sum().backward()
    checkpoint(lambda x: rope(x, positions=torch.arange(x.shape[-3])).sin(), b, use_reentrant=False).sum().backward()
    assert torch.equal(a.grad, b.grad)


@pytest.mark.parametrize("positions", [torch.tensor([0, 10**12, 7]), torch.rand(2, 3, dtype=torch.float64), torch.arange(12).view(2, 2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tables_of_tensors_are_those_of_arrays(positions, dtype):
    axes = phasor.Axes(sections=(1, 3)) if positions.ndim == 3 else None
    directions = phasor.GivenDirections(axes=2, heads=3, frequencies=tuple(range(1, 25))) if positions.ndim == 3 else None
    for rope in (phasor.Rotary(8, axes=axes), phasor.Rotary(8, scaling=directions)):
        name = str(dtype).removeprefix("torch.")
        for a, b in zip(rope.cos_sin(positions, dtype), rope.cos_sin(positions.numpy(), name)):
            assert a.dtype == dtype and np.array_equal(a.numpy(), b)
    with pytest.raises(NotImplementedError, match="gradient"):
        rope.cos_sin(torch.rand(3, dtype=torch.float64, requires_grad=True))


def test_keys_move_in_place():
    rope, k = phasor.Rotary(8), torch.randn(2, 5, 3, 8)
    before, after = torch.arange(5), torch.arange(5) + 100
    keys = rope(k, positions=before)
    version = keys._version
    assert rope.rerotate_(keys, before, after) is keys and keys._version > version
    torch.testing.assert_close(keys, rope(k, positions=after), rtol=0, atol=1e-6)
    with pytest.raises(NotImplementedError, match="gradient"):
        rope.rerotate_((k * 1).requires_grad_(), before, after)
    with pytest.raises(NotImplementedError, match="sparse"):
        rope.rerotate_(k.to_sparse(), before, after)


def test_negative_views_of_positions_keep_their_sign():
    rope, q = phasor.Rotary(8), torch.randn(3, 2, 8)
    view = torch.complex(torch.zeros(3, dtype=torch.float64), torch.tensor([1.0, 2.5, 7.0], dtype=torch.float64)).conj().imag
    assert view.is_neg()
    at = torch.tensor([-1.0, -2.5, -7.0], dtype=torch.float64)
    assert torch.equal(rope(q, positions=view), rope(q, positions=at))
    assert torch.equal(torch.ops.phasor.rotary(q, words_of(rope), view, 0, 0), rope(q, positions=at))
    assert torch.equal(rope.rerotate_(q.clone(), 0, view), rope.rerotate_(q.clone(), 0, at))
    learning = q.clone().requires_grad_()
    rope(learning, positions=view).pow(2).sum().backward()
    torch.testing.assert_close(learning.grad, 2 * q)
    written = q.clone()
    torch.ops.phasor.rotary_(written, words_of(rope), view, 0, 0)
    assert torch.equal(written, rope(q, positions=at))


def test_positions_of_numpy_are_taken_as_they_are():
    rope, q, at = phasor.Rotary(8), torch.randn(3, 2, 8), np.array([4, 0, 9])
    want = rope(q, positions=torch.from_numpy(at))
    frozen = at.copy()
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for positions in (frozen, at[::-1].copy()[::-1], at.astype(">i8"), at.astype(">f8"), [4, 0, 9], np.stack((at, at), 1)[:, 0]):
            assert torch.equal(rope(q, positions=positions), want)
            assert torch.equal(rope.apply_(q.clone(), positions=positions), want)
    for positions in (at.astype(object), at.astype(np.longdouble), at.astype(complex), np.array(["a", "b", "c"])):
        with pytest.raises(TypeError, match="wanted int32, int64 or float64"):
            rope(q, positions=positions)


def test_positions_of_jax_are_taken_as_they_are():
    import jax.numpy as jnp  # here: no other test of this file needs the second that it takes

    rope, q = phasor.Rotary(8), torch.randn(3, 2, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(rope(q, positions=jnp.array([4, 0, 9])), rope(q, positions=torch.tensor([4, 0, 9])))


def test_what_watches_operators_sees_calls_in_place():
    """The core asks for itself whether a call in place may go past PyTorch: every question has an answer here that forbids it."""
    rope, x = phasor.Rotary(8), torch.randn(3, 2, 8)
    want = rope(x)
    with Seen() as seen:
        assert torch.equal(rope.apply_(x.clone()), want)
    assert "rotary_" in seen.names
    batched = torch.randn(4, 3, 2, 8)
    assert torch.equal(torch.func.vmap(lambda one: rope.apply_(one.clone()))(batched), torch.stack([rope(one) for one in batched]))
    with torch.autograd.forward_ad.dual_level():
        dual = rope.apply_(torch.autograd.forward_ad.make_dual(x.clone(), torch.ones_like(x)).clone())
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(dual).tangent, rope(torch.ones_like(x)))


@pytest.mark.parametrize("both", [False, True])
def test_a_negative_view_is_written_as_what_it_seems(both):
    rope, x = phasor.Rotary(8), torch.randn(3, 2, 8)
    seeming = torch._neg_view(x.clone())
    plain = x.clone()
    rope.apply_(plain, seeming) if both else rope.apply_(seeming)
    assert torch.equal(seeming, rope(-x))
    assert torch.equal(plain, rope(x) if both else x)
