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


@pytest.mark.parametrize("call", CALLS)
def test_a_tensor_that_wants_a_gradient_is_refused(call):
    at = torch.arange(T, dtype=torch.float64).requires_grad_()
    q, k = torch.from_numpy(heads(1)), torch.from_numpy(heads(2))
    for given in ((q.clone().requires_grad_(),), (q, k.clone().requires_grad_()), (q, None, at), (q.numpy(), None, at)):
        with pytest.raises(ValueError, match=f"{call}: a tensor requires a gradient"):
            CALLS[call](ROPES, BY_ROW, *given)
    with torch.no_grad():
        CALLS[call](ROPES, BY_ROW, q.clone().requires_grad_(), None, at)


@pytest.mark.parametrize("call", CALLS)
def test_whoever_looks_on_is_refused_with_words_and_nothing_is_written(call):
    given = torch.from_numpy(heads(1))

    def run(q):
        out = CALLS[call](ROPES, BY_ROW, q)
        return out.sum()

    def refused():
        return pytest.raises(NotImplementedError, match=f"{call}: ")

    ways = {
        "jit.trace": lambda q: torch.jit.trace(run, (q,), check_trace=False),
        "make_fx": lambda q: torch.fx.experimental.proxy_tensor.make_fx(run)(q),
        "jvp": lambda q: torch.func.jvp(run, (q,), (torch.ones_like(q),)),
        "vmap": lambda q: torch.func.vmap(run)(q[None]),
        "meta": lambda q: run(q.to("meta")),
        "sparse": lambda q: run(q.to_sparse()),
        "nested": lambda q: run(torch.nested.nested_tensor(list(q))),
        "subclass of indices": lambda q: CALLS[call](ROPES, torch.tensor(BY_ROW).as_subclass(type("Other", (torch.Tensor,), {})), q),
        "subclass": lambda q: run(q.as_subclass(type("Other", (torch.Tensor,), {}))),
    }
    for name, way in ways.items():
        q = given.clone()
        with refused():
            way(q)
            raise AssertionError(name)
        assert torch.equal(q, given)
    forward = torch.autograd.forward_ad
    with forward.dual_level(), refused():
        run(forward.make_dual(given.clone(), torch.ones_like(given)))
    assert torch.equal(torch.compile(run, backend="eager")(given.clone()), run(given.clone()))  # by a break of the graph


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
