# SPDX-License-Identifier: Apache-2.0
"""phasor.apply_rotaries: each row has the bits of a call of its own rotary, whatever library the arrays are of."""

import numpy as np
import phasor
import pytest
import torch

B, T, H, D = 3, 5, 2, 16
ROPES = [phasor.Rotary(D)] + [phasor.Rotary(D, scaling=phasor.YarnScaling(factor=f, original_length=32)) for f in (2, 4)]
BY_ROW = [2, 0, 1]
BY_TOKEN = [[0, 1, 2, 2, 0], [1, 1, 1, 1, 1], [2, 0, 2, 0, 2]]


def heads(count: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(count).normal(size=(B, T, count, D)).astype(dtype)


def rows_apart(x: np.ndarray, spec_of: list, positions, **way) -> np.ndarray:
    """By one call for each rotary, of which its rows are taken."""
    of = np.broadcast_to(np.array(spec_of).reshape(B, -1), (B, T))
    wanted = np.empty_like(x)
    for index, rope in enumerate(ROPES):
        wanted[of == index] = rope(x, None, positions, **way)[of == index]
    return wanted


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("spec_of", [BY_ROW, BY_TOKEN, np.array(BY_ROW, np.int32)], ids=["rows", "tokens", "int32"])
@pytest.mark.parametrize("direction", ["forward", "inverse", "transpose"])
def test_rows_have_the_bits_of_calls_apart(dtype, spec_of, direction):
    q, k = heads(3, dtype), heads(1, dtype)
    positions = np.arange(B * T).reshape(B, T) + 1000
    got_q, got_k = phasor.apply_rotaries(ROPES, spec_of, q, k, positions, direction=direction)
    for got, x in ((got_q, q), (got_k, k)):
        assert np.array_equal(got, rows_apart(x, spec_of, positions, direction=direction))
    again = q.copy()
    assert phasor.apply_rotaries_(ROPES, spec_of, again, None, positions, direction=direction) is again
    assert np.array_equal(again, got_q)


def test_tensors_of_pytorch_have_the_bits_of_numpys_arrays():
    q = heads(2)
    wanted = phasor.apply_rotaries(ROPES, BY_TOKEN, q, None, 7)
    tensor = torch.from_numpy(q.copy())
    given = phasor.apply_rotaries(ROPES, torch.tensor(BY_TOKEN, dtype=torch.int32), tensor, None, 7)
    assert isinstance(given, torch.Tensor)
    assert np.array_equal(given.numpy(), wanted)
    before = tensor._version
    assert phasor.apply_rotaries_(ROPES, BY_TOKEN, tensor, None, 7) is tensor
    assert tensor._version > before
    assert np.array_equal(tensor.numpy(), wanted)
    halves = phasor.apply_rotaries(ROPES, BY_ROW, tensor.bfloat16())
    assert torch.equal(halves[1], ROPES[0](tensor.bfloat16()[1:2])[0])


CALLS = {"apply_rotaries": phasor.apply_rotaries, "apply_rotaries_": phasor.apply_rotaries_}


def test_lists_follow_a_tensor():
    q = torch.from_numpy(heads(2))
    wanted = phasor.apply_rotaries(ROPES, torch.tensor(BY_ROW), q)
    strided = np.array([2, 9, 0, 9, 1, 9])[::2]
    for spec_of in (BY_ROW, tuple(BY_ROW), np.array(BY_ROW, np.int16), strided, np.array(BY_ROW, np.int32)):
        assert torch.equal(phasor.apply_rotaries(ROPES, spec_of, q), wanted)
    with pytest.raises(TypeError, match="apply_rotaries: spec_of: is of float64, wanted integers"):
        phasor.apply_rotaries(ROPES, [0.5, 1, 2], q)
    with pytest.raises(TypeError, match="apply_rotaries: q is a PyTorch tensor and k is ndarray"):
        phasor.apply_rotaries(ROPES, BY_ROW, q, q.numpy())


def tensors(dtype=torch.float32):
    return torch.from_numpy(heads(3)).to(dtype), torch.from_numpy(heads(1)).to(dtype)


def apart(q, k, spec_of, positions, **way):
    """By calls of one rotary each, of which their rows are taken, with PyTorch's gradients."""
    of = torch.as_tensor(np.array(spec_of)).reshape(B, -1, 1, 1).expand(B, T, 1, 1)
    made = [rope(q, k, positions, **way) for rope in ROPES]
    return tuple(sum(torch.where(of == i, out[n], 0) for i, out in enumerate(made)) for n in range(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("spec_of", [BY_ROW, BY_TOKEN], ids=["rows", "tokens"])
@pytest.mark.parametrize("direction", ["forward", "inverse", "transpose"])
def test_gradients_have_the_bits_of_calls_apart(dtype, spec_of, direction):
    """Specs of several amplitudes: the gradient of an inverse is no rotation of any one of them."""
    positions, by = torch.arange(T) + 1000, [torch.from_numpy(heads(n + 5))[:, :, :n].to(dtype) for n in (3, 1)]
    made = []
    for call in (lambda *x: phasor.apply_rotaries(ROPES, spec_of, *x, positions, direction=direction), lambda *x: apart(*x, spec_of, positions, direction=direction)):
        given = [x.requires_grad_() for x in tensors(dtype)]
        outs = call(*given)
        first = torch.autograd.grad(outs, given, [x.requires_grad_() for x in by], create_graph=True)
        second = torch.autograd.grad([x.square().sum() for x in first], by)
        made.append((*outs, *first, *second))
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))


@pytest.mark.parametrize("rows", ["(T, H, D)", "(T, D)"])
def test_gradients_of_fewer_axes(rows):
    q = tensors()[0][0] if rows == "(T, H, D)" else tensors()[0][0, :, 0]
    for direction in ("forward", "inverse"):
        x, y = (q.clone().requires_grad_() for _ in range(2))
        phasor.apply_rotaries(ROPES, BY_TOKEN[0], x, None, 9, direction=direction).backward(q)
        each = torch.stack([rope(y, None, 9, direction=direction) for rope in ROPES])
        each[torch.tensor(BY_TOKEN[0]), torch.arange(T)].backward(q)
        assert torch.equal(x.grad, y.grad)


def test_in_place_with_a_gradient():
    positions = torch.arange(T)
    q, k = tensors()
    x, y, z = (q.clone().requires_grad_() for _ in range(3))
    moving = x * 2
    assert phasor.apply_rotaries_(ROPES, BY_ROW, moving, None, positions) is moving
    moving.sin().sum().backward()
    phasor.apply_rotaries(ROPES, BY_ROW, y * 2, None, positions).sin().sum().backward()
    assert torch.equal(x.grad, y.grad)
    both = (z * 2, k.clone())
    phasor.apply_rotaries_(ROPES, BY_ROW, *both, positions)
    assert torch.equal(both[0], moving) and both[0].requires_grad and not both[1].requires_grad
    assert torch.equal(both[1], phasor.apply_rotaries(ROPES, BY_ROW, k, None, positions))
    part = (z * 3).split(1, dim=2)[1].clone()
    phasor.apply_rotaries_(ROPES, BY_ROW, part[:, :, :1], None, positions)  # a view
    assert torch.equal(part, phasor.apply_rotaries(ROPES, BY_ROW, (z * 3)[:, :, 1:2], None, positions))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        phasor.apply_rotaries_(ROPES, BY_ROW, x)
    product = (k * torch.ones(D, requires_grad=True)).sum()
    torch.ops.phasor.rotaries_(k, [rope._words for rope in ROPES], torch.tensor(BY_ROW), None, 0, 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.parametrize("call", CALLS)
def test_gradients_that_there_are_none_of_are_refused(call):
    at, q = torch.arange(T, dtype=torch.float64).requires_grad_(), torch.from_numpy(heads(1))
    with pytest.raises(NotImplementedError, match="rotaries: there is no gradient by positions, wanted positions.detach"):
        CALLS[call](ROPES, BY_ROW, q, None, at)
    with pytest.raises(ValueError, match=f"{call}: a tensor requires a gradient"):
        CALLS[call](ROPES, BY_ROW, q.numpy(), None, at)
    with torch.no_grad():
        CALLS[call](ROPES, BY_ROW, q.clone().requires_grad_(), None, at)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_in_one_graph_with_gradients(call, backend):
    torch._dynamo.reset()

    def layer(q, k, spec_of, positions):
        q, k = CALLS[call](ROPES, spec_of, q * 2, k * 2, positions)
        return q * 0.5 + k

    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for spec_of, positions in ((torch.tensor(BY_ROW), torch.arange(T) * 100), (torch.tensor(BY_TOKEN, dtype=torch.int32), 7), (BY_ROW, None)):
        made = []
        for run in (compiled, layer):
            given = [x.requires_grad_() for x in tensors()]
            out = run(*given, spec_of, positions)
            made.append((out, *torch.autograd.grad(out.square().sum(), given)))
        assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))
    with torch.no_grad():
        assert torch.equal(compiled(*tensors(), torch.tensor(BY_ROW), 3), layer(*tensors(), torch.tensor(BY_ROW), 3))


def test_opcheck_accepts_the_operators():
    words = [rope._words for rope in ROPES]
    for spec_of, positions in ((torch.tensor(BY_ROW), None), (torch.tensor(BY_TOKEN), torch.arange(T))):
        rest = (words, spec_of, positions, 0 if positions is not None else 9, 0)
        torch.library.opcheck(torch.ops.phasor.rotaries.default, (tensors()[0], *rest))
        torch.library.opcheck(torch.ops.phasor.rotaries.default, (tensors()[0].requires_grad_(), *rest))
        torch.library.opcheck(torch.ops.phasor.rotaries_.default, (tensors()[0], *rest))


def test_exported_checkpointed_and_deterministic():
    class Layer(torch.nn.Module):
        def forward(self, q, spec_of, positions):
            return phasor.apply_rotaries(ROPES, spec_of, q, None, positions)

    example = (tensors()[0], torch.tensor(BY_TOKEN), torch.arange(T))
    length = torch.export.Dim("length", min=2, max=99)
    program = torch.export.export(Layer(), example, dynamic_shapes=({1: length}, {1: length}, {0: length})).module()
    other = (torch.randn(B, 9, 2, D), torch.randint(0, 3, (B, 9)), torch.arange(9) + 50)
    with torch.no_grad():
        with pytest.raises(Exception, match="(?s)shape|Guard"):  # heads were constant
            program(*other)
        other = (torch.randn(B, 9, 3, D), *other[1:])
        assert torch.equal(program(*other), Layer()(*other))

    def layer(q):
        return Layer()(q * 2, *example[1:]).sin()

    made = []
    for run in (layer, lambda q: torch.utils.checkpoint.checkpoint(layer, q, use_reentrant=False)):
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            try:
                q = tensors()[0].requires_grad_()
                run(q).sum().backward()
                made.append(q.grad)
            finally:
                torch.use_deterministic_algorithms(False)
    assert all(torch.equal(x, made[0]) for x in made)


def test_transforms_are_followed():
    q, at = tensors()[0], torch.arange(T)

    def call(x, of=tuple(BY_ROW)):
        return phasor.apply_rotaries(ROPES, of if isinstance(of, torch.Tensor) else list(of), x, None, at)

    wanted = call(q)
    assert torch.equal(torch.func.jvp(call, (q,), (q * 3,))[1], call(q * 3))
    assert torch.equal(torch.func.grad(lambda x: (call(x) * q).sum())(q), torch.autograd.grad(call(q.requires_grad_()), q, q.detach())[0])
    q = q.detach()
    both = torch.stack((q, q * 2))
    assert torch.equal(torch.func.vmap(call)(both), torch.stack((wanted, call(q * 2))))
    of = torch.tensor([BY_ROW, BY_ROW[::-1]])
    assert torch.equal(torch.func.vmap(call)(both, of), torch.stack((call(q, of[0]), call(q * 2, of[1]))))
    assert torch.equal(torch.func.vmap(call, in_dims=(None, 0))(q, of), torch.stack((wanted, call(q, of[1]))))
    assert torch.equal(torch.func.vmap(call, in_dims=(None, 1))(q, of.T.contiguous()), torch.stack((wanted, call(q, of[1]))))
    by_token = torch.stack((torch.tensor(BY_TOKEN), torch.tensor(BY_TOKEN).flip(0)), dim=1)
    assert torch.equal(torch.func.vmap(call, in_dims=(None, 1))(q, by_token), torch.stack([call(q, by_token[:, i].contiguous()) for i in (0, 1)]))
    assert torch.equal(torch.func.vmap(torch.func.grad(lambda x: call(x).sum()))(both), torch.func.grad(lambda x: call(x).sum())(q).expand(2, *q.shape))
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(q.clone(), q * 3)
        assert torch.equal(forward.unpack_dual(call(dual)).tangent, call(q * 3))
        moving = forward.make_dual(q.clone(), q * 3)
        phasor.apply_rotaries_(ROPES, BY_ROW, moving, None, at)
        assert torch.equal(forward.unpack_dual(moving).tangent, call(q * 3))
    with pytest.raises(NotImplementedError, match="apply_rotaries_: called inside of vmap, wanted apply_rotaries"):
        torch.func.vmap(lambda x: phasor.apply_rotaries_(ROPES, BY_ROW, x, None, at))(both)


@pytest.mark.parametrize("call", CALLS)
def test_whoever_looks_on_sees_the_operator(call):
    given = torch.from_numpy(heads(1))
    wanted = phasor.apply_rotaries(ROPES, BY_ROW, given)

    def run(q):
        return CALLS[call](ROPES, torch.tensor(BY_ROW), q) * 1

    other = type("Other", (torch.Tensor,), {})
    assert torch.equal(torch.jit.trace(run, (given.clone(),), check_trace=False)(given.clone()), wanted)
    assert torch.equal(torch.fx.experimental.proxy_tensor.make_fx(run)(given.clone())(given.clone()), wanted)
    assert torch.equal(run(given.clone().as_subclass(other)).as_subclass(torch.Tensor), wanted)
    assert torch.equal(CALLS[call](ROPES, torch.tensor(BY_ROW).as_subclass(other), given.clone()).as_subclass(torch.Tensor), wanted)
    for indices in (BY_ROW, np.array(BY_ROW)):  # of the host
        out = CALLS[call](ROPES, indices, given.to("meta"))
        assert out.is_meta and out.shape == given.shape
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        assert run(mode.from_tensor(given)).shape == given.shape


@pytest.mark.parametrize("call", CALLS)
def test_what_cannot_be_rotated_is_refused_with_words_and_nothing_is_written(call):
    q = torch.from_numpy(heads(1))
    before = q.clone()
    for made in (q.to_sparse(), torch.nested.nested_tensor(list(q))):
        with pytest.raises(NotImplementedError, match=f"{call}: "):
            CALLS[call](ROPES, BY_ROW, made)
    words = [rope._words for rope in ROPES]
    operator = torch.ops.phasor.rotaries if call == "apply_rotaries" else torch.ops.phasor.rotaries_
    for wrong, says in (
        ((words, torch.tensor([0, 1, 3]), None, 0, 0), r"spec_of\[2\] is 3, wanted 0 to 2"),
        ((words, torch.tensor([0, 1]), None, 0, 0), "spec_of has 2 entries"),
        (([], None, None, 0, 0), "rotaries has 0 entries, wanted 1 at least"),
        ((words[:1], None, torch.arange(T), 3, 0), "positions and an offset of 3 are given"),
        ((words[:1], None, None, 0, 7), "direction"),
    ):
        with pytest.raises(ValueError, match=says):
            operator(q, *wrong)
    assert torch.equal(q, before)


def test_in_place_both_are_refused_before_one_is_written():
    q, k = tensors()
    other = type("Other", (torch.Tensor,), {})
    wide = torch.zeros(B, T, 1, D, 2)
    apart = wide[..., 0]
    before = q.clone()
    for first in (q, q.as_subclass(other)):  # eager, and by the operator
        with pytest.raises(ValueError, match="k.*stride"):
            phasor.apply_rotaries_(ROPES, BY_ROW, first, apart)
        with pytest.raises(ValueError, match="q and k share an element"):
            phasor.apply_rotaries_(ROPES, BY_ROW, first, first[:, :, :1])
    assert torch.equal(q, before) and not wide.any()
    words = [rope._words for rope in ROPES]
    torch.library.opcheck(torch.ops.phasor.rotaries_.qk, (q, k, words, torch.tensor(BY_ROW), None, 9, 0))


def test_a_batch_of_none_has_a_gradient_of_none():
    for direction in ("forward", "inverse", "transpose"):
        x = torch.zeros(0, T, 2, D, requires_grad=True)
        phasor.apply_rotaries(ROPES, torch.zeros(0, dtype=torch.long), x, direction=direction).sum().backward()
        assert x.grad.shape == x.shape


def test_a_tensor_of_inference_mode_is_not_written_outside_of_it():
    with torch.inference_mode():
        q = torch.from_numpy(heads(1)).clone()
        phasor.apply_rotaries_(ROPES, BY_ROW, q)
    before = q.clone()
    with pytest.raises(RuntimeError, match="inference tensor"):
        phasor.apply_rotaries_(ROPES, BY_ROW, q)
    assert torch.equal(q, before)


@pytest.mark.parametrize(
    "spec_of, says",
    [
        ([0, 1, 3], r"apply_rotaries: spec_of\[2\] is 3, wanted 0 to 2"),
        ([0, -1, 0], r"spec_of\[1\] is -1, wanted 0 to 2"),
        ([0, 1], "spec_of has 2 entries, wanted 3 .one per batch row. or 15"),
        (None, "spec_of has 0 entries"),
        (np.zeros(6, np.int64)[::2], "spec_of: is not contiguous"),
    ],
)
def test_wrong_indices_are_refused_and_nothing_is_written(spec_of, says):
    q = heads(1)
    before = q.copy()
    with pytest.raises(ValueError, match=says):
        phasor.apply_rotaries_(ROPES, spec_of, q)
    assert np.array_equal(q, before)


def test_wrong_types_and_specs_are_refused():
    with pytest.raises(TypeError, match="spec_of: is of float64, wanted integers"):
        phasor.apply_rotaries(ROPES, [0.5, 1, 2], heads(1))
    with pytest.raises(TypeError, match="spec_of: wanted int32 or int64"):
        phasor.apply_rotaries(ROPES, np.zeros(3, np.int16), heads(1))
    with pytest.raises(ValueError, match="rotaries differ in more than base, scaling and axes"):
        phasor.apply_rotaries([ROPES[0], phasor.Rotary(D, pairing="interleaved")], [0, 1, 0], heads(1))
    with pytest.raises(ValueError, match="rotaries has 0 entries, wanted 1 at least"):
        phasor.apply_rotaries([], None, heads(1))
    with pytest.raises(ValueError, match="direction"):
        phasor.apply_rotaries(ROPES, BY_ROW, heads(1), direction="up")


def test_one_rotary_needs_no_indices():
    q = heads(1)
    assert np.array_equal(phasor.apply_rotaries(ROPES[:1], None, q, None, 3), ROPES[0](q, None, 3))
