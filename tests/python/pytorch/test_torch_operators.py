# SPDX-License-Identifier: Apache-2.0
"""The registered operators: PyTorch's own checks of them, and the transforms that they serve."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor
from phasor._torch import words_of

ops = torch.ops.phasor
HALF = [0, 0, 0, -1, 0, 0, 1]  # width, offset, pairing, output pairing, sense, numerics, segments
DEEPSEEK = [6, 2, 1, 0, 0, 0, 1]  # reads interleaved, writes half, in channels 2 to 7


def rope_and_tensors(dtype=torch.float64):
    rope = phasor.Rotary(8, rotary_width=6, rotary_offset=1, scaling=phasor.YarnScaling(factor=4, original_length=64))
    torch.manual_seed(0)
    q = torch.randn(2, 5, 3, 8, dtype=dtype)
    k = torch.randn(2, 5, 9, 8, dtype=dtype)[:, :, 4:5]  # a slice of a wider tensor
    return rope, q, k, torch.tensor([[0, 1, 2, 3, 4], [7, 10**12, 5, -3, 1]])


def cases():
    rope, q, k, positions = rope_and_tensors()
    words = words_of(rope)
    angle = torch.randn(2, 5, 3, dtype=torch.float64)
    yield "rotary", q, k, (words, positions, 0, 0)
    yield "rotary", q, k, (words, None, 11, 1)
    yield "rotary_tables", q, k, (angle.cos(), angle.sin(), DEEPSEEK, 0)


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("both", [False, True])
def test_opcheck_accepts_every_operator(case, both):
    name, q, k, rest = list(cases())[case]
    tensors = (q, k) if both else (q,)
    overload = "qk" if both else "default"
    learning = tuple(x.clone().requires_grad_() for x in tensors)
    torch.library.opcheck(getattr(getattr(ops, name), overload), (*learning, *rest))
    torch.library.opcheck(getattr(getattr(ops, name + "_"), overload), (*(x.clone() for x in tensors), *rest))


def test_opcheck_accepts_tables():
    rope, _, _, positions = rope_and_tensors()
    torch.library.opcheck(ops.cos_sin.default, (positions, words_of(rope), 1, 3, torch.float64))


@pytest.mark.parametrize("direction", [0, 1, 2, 3])
def test_operators_have_gradients_of_both_modes_and_second_order(direction):
    rope, q, k, positions = rope_and_tensors()
    words = words_of(rope)
    inputs = (q[:, :2].clone().requires_grad_(), k[:, :2].clone().requires_grad_())

    def turn(q, k):
        return ops.rotary.qk(q, k, words, positions[:, :2], 0, direction)

    assert torch.autograd.gradcheck(turn, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(turn, inputs)


@pytest.mark.parametrize("direction", [0, 1, 2])
@pytest.mark.parametrize("layout", [HALF, DEEPSEEK])
def test_operators_by_tables_have_gradients_of_both_modes(direction, layout):
    _, q, k, _ = rope_and_tensors()
    angle = torch.randn(2, 3, 8 if layout is HALF else 6, dtype=torch.float64)  # a value for each channel
    inputs = (q[:, :3].clone().requires_grad_(), k[:, :3].clone().requires_grad_())

    def turn(q, k):
        return ops.rotary_tables.qk(q, k, angle.cos(), angle.sin(), layout, direction)

    assert torch.autograd.gradcheck(turn, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(turn, inputs)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(
    "layout, shape",
    [(HALF, (3, 4)), (HALF, (1, 3, 8)), (DEEPSEEK, (2, 3, 1, 3)), (DEEPSEEK, (2, 3, 6)), ([8, 0, 0, -1, 1, 0, 2], (1, 3, 1, 4))],
)
def test_tables_have_gradients(layout, shape, direction):
    _, q, k, _ = rope_and_tensors()
    inputs = [x[:, :3].clone().requires_grad_() for x in (q, k)]
    inputs += [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def turn(q, k, cos, sin):
        return ops.rotary_tables.qk(q, k, cos, sin, layout, direction)

    assert torch.autograd.gradcheck(turn, inputs)


def test_tables_of_heads_have_gradients_of_second_order():
    q = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    cos, sin = (torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def turn(q, cos, sin):
        return phasor.apply_rotary(q, None, cos, sin, pairing="interleaved")

    assert torch.autograd.gradcheck(turn, (q, cos, sin))
    assert torch.autograd.gradgradcheck(turn, (q, cos, sin))


def test_in_place_operators_are_differentiable():
    rope, q, k, positions = rope_and_tensors()

    def turn(q, k):
        q, k = q * 2, k * 3
        ops.rotary_.qk(q, k, words_of(rope), positions, 0, 0)
        ops.rotary_tables_(q, torch.full((5, 4), 0.5), torch.full((5, 4), 0.25), HALF, 0)
        return q, k

    inputs = (q.clone().requires_grad_(), k.clone().requires_grad_())
    assert torch.autograd.gradcheck(turn, inputs)
    assert torch.autograd.gradgradcheck(turn, inputs)


@pytest.mark.parametrize("shape, mapped", [((5,), None), ((2, 5), None), ((4, 5), 0), ((4, 2, 5), 0), ((1, 2, 5), None), ((1, 2, 5, 4), 3)])
def test_vmap_is_a_loop_of_calls(shape, mapped):
    rope = phasor.Rotary(8)
    q, k = torch.randn(4, 2, 5, 3, 8), torch.randn(2, 4, 5, 1, 8)
    positions = torch.randint(-99, 99, shape)
    got = torch.vmap(rope, (0, 1, mapped))(q, k, positions)
    for i in range(4):
        at = positions if mapped is None else positions.select(mapped, i)
        for a, b in zip(got, rope(q[i], k[:, i], at)):
            assert torch.equal(a[i], b)


def test_vmap_maps_tables_and_writes_in_place():
    rope = phasor.Rotary(8)
    q = torch.randn(4, 5, 3, 8)
    angle = torch.randn(4, 5, 4)
    got = torch.vmap(lambda x, c, s: phasor.apply_rotary(x, None, c, s))(q, angle.cos(), angle.sin())
    for i in range(4):
        assert torch.equal(got[i], phasor.apply_rotary(q[i], None, angle[i].cos(), angle[i].sin()))
    turned = q.clone()
    torch.vmap(lambda x: rope.apply_(x, positions=3))(turned)
    assert torch.equal(turned, rope(q, positions=3))
    flat = torch.vmap(lambda x: rope(x), 1, 1)(q[:, :, 0])  # (T, D) mapped over what lies between
    assert torch.equal(flat[:, 2], rope(q[:, 2, 0]))


def test_vmap_refuses_to_write_to_what_is_not_mapped():
    rope, q = phasor.Rotary(8), torch.randn(5, 3, 8)
    with pytest.raises(RuntimeError, match="not mapped"):
        torch.vmap(lambda p: rope.apply_(q, positions=p))(torch.randint(0, 9, (4, 5)))


def test_function_transforms_see_the_operator():
    rope, x = phasor.Rotary(8), torch.randn(3, 8, dtype=torch.float64)
    gradient = torch.func.grad(lambda y: rope(y, positions=5).sin().sum())(x)
    y = x.clone().requires_grad_()
    rope(y, positions=5).sin().sum().backward()
    assert torch.equal(gradient, y.grad)
    backward, forward = torch.func.jacrev(rope)(x), torch.func.jacfwd(rope)(x)
    assert torch.equal(backward, forward)
    per_sample = torch.vmap(torch.func.grad(lambda y: rope(y).pow(3).sum()))(torch.stack((x, 2 * x)))
    assert torch.allclose(per_sample[1], 4 * per_sample[0])


def test_nested_function_transforms_have_second_derivatives():
    rope, q = phasor.Rotary(6), torch.randn(3, 6, dtype=torch.float64)
    angle = torch.randn(3, 3, dtype=torch.float64)
    for turn in (rope, lambda x: rope.apply_(x.clone()), lambda x: phasor.apply_rotary(x, None, angle.cos(), angle.sin())):

        def cubed(q, turn=turn):
            return turn(q).pow(3).sum()

        want = torch.autograd.functional.hessian(cubed, q)
        assert want.abs().max() > 1
        torch.testing.assert_close(torch.func.hessian(cubed)(q), want)  # forward over reverse
        torch.testing.assert_close(torch.func.jacrev(torch.func.grad(cubed))(q), want)
        torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(cubed))(q), want)


def test_fake_and_meta_tensors_have_shapes_only():
    rope, q, k, positions = rope_and_tensors(torch.bfloat16)
    for got, x in zip(rope(q.to("meta"), k.to("meta"), positions.to("meta")), (q, k)):
        assert got.device.type == "meta" and got.shape == x.shape and got.dtype == x.dtype
        assert got.stride() == torch.empty_like(x).stride()
    assert rope.apply_(q.to("meta")).device.type == "meta"


def test_a_fake_mode_needs_no_fake_words():
    rope = phasor.Rotary(8)
    with FakeTensorMode():
        assert rope(torch.empty(5, 3, 8), positions=3).shape == (5, 3, 8)
        assert rope.apply_(torch.empty(5, 3, 8)).shape == (5, 3, 8)
        made = phasor.Rotary(8, base=77)
    assert torch.equal(made(torch.ones(2, 8)), phasor.Rotary(8, base=77)(torch.ones(2, 8)))
    assert torch.equal(words_of(made), torch.tensor(made._core.words))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 1, 0, 3)])
def test_outputs_have_the_strides_of_empty_like(order):
    rope, x = phasor.Rotary(8), torch.randn(2, 5, 3, 8).permute(order)
    got = torch.ops.phasor.rotary(x, words_of(rope), None, 0, 0)
    assert got.stride() == torch.empty_like(x).stride() == rope(x).stride()


def test_a_trace_records_the_operator():
    rope, q = phasor.Rotary(8), torch.randn(5, 3, 8)
    traced = torch.jit.trace(lambda x: rope(x, positions=2), (q,))
    assert "phasor::rotary" in str(traced.graph)
    assert torch.equal(traced(2 * q), rope(2 * q, positions=2))


def test_export_saves_and_loads_with_any_length(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rope = phasor.Rotary(8, base=5e5)

        def forward(self, q, positions):
            return self.rope(q, positions=positions) * 2

    model, length = Model(), torch.export.Dim("length", min=2, max=100)
    q, positions = torch.randn(2, 7, 3, 8), torch.arange(7)
    program = torch.export.export(model, (q, positions), dynamic_shapes={"q": {1: length}, "positions": {0: length}})
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    q, positions = torch.randn(2, 31, 3, 8), torch.arange(31) + 10**9
    assert torch.equal(loaded(q, positions), model(q, positions))
