# SPDX-License-Identifier: Apache-2.0
"""Sinusoidal encoding through Python: values, dtypes, strides, libraries, gradients and what is refused."""

import math
import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import phasor
import pytest
import torch


def reference(positions, width, base=10000.0):
    """The paper's formula in float64, interleaved."""
    out = np.empty((*np.shape(positions), width))
    for index in np.ndindex(*np.shape(positions)):
        for i in range(width // 2):
            angle = float(np.asarray(positions)[index]) * base ** (-2 * i / width)
            out[(*index, 2 * i)], out[(*index, 2 * i + 1)] = math.sin(angle), math.cos(angle)
    return out


def test_values_are_those_of_the_paper():
    positions = np.array([[0, 1, 7], [100, 3, 12]])
    found = phasor.sinusoidal(positions, 6)
    assert found.dtype == np.float32 and found.shape == (2, 3, 6)
    assert np.abs(found - reference(positions, 6)).max() < 6e-8


def test_a_position_of_a_quintillion_is_exact():
    # By mpmath at 300 bits.
    found = phasor.sinusoidal([10**15, 10**18], 2, dtype="float64")
    assert found.tolist() == [[0.8582727931702359, -0.5131937377869703], [-0.9929693207404051, 0.11837199021871073]]


def test_orders_are_permutations_of_each_other():
    at = np.arange(5)
    interleaved = phasor.sinusoidal(at, 8)
    assert (phasor.sinusoidal(at, 8, order="sin_cos") == np.concatenate([interleaved[:, ::2], interleaved[:, 1::2]], axis=1)).all()
    assert (phasor.sinusoidal(at, 8, order="cos_sin") == np.concatenate([interleaved[:, 1::2], interleaved[:, ::2]], axis=1)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types_are_the_float32_rounded(dtype):
    at = np.arange(77)
    narrow = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    wide = phasor.sinusoidal(at, 10)
    assert (phasor.sinusoidal(at, 10, dtype=dtype) == wide.astype(narrow)).all()
    from_torch = phasor.sinusoidal(torch.arange(77), 10, dtype=getattr(torch, dtype))
    assert torch.equal(from_torch, torch.from_numpy(wide).to(getattr(torch, dtype)))


def test_adding_is_one_addition_in_place_and_out_of_place():
    x = np.random.default_rng(1).standard_normal((2, 3, 6)).astype(np.float32)
    encoding = phasor.Sinusoidal(6)
    at = np.array([[5, 6, 7], [0, 2, 1]], np.int32)
    wanted = x + encoding(at)
    assert (encoding.add(x, at) == wanted).all()
    assert encoding.add_(x, at) is x and (x == wanted).all()


def test_a_slice_of_a_wider_tensor_is_concatenated_to():
    wide = np.zeros((3, 16), np.float32)
    encoding = phasor.Sinusoidal(6)
    encoding(np.arange(3), out=wide[:, 8:14])
    assert (wide[:, 8:14] == encoding(np.arange(3))).all() and not wide[:, :8].any() and not wide[:, 14:].any()


def test_pytorch_and_numpy_have_the_same_bits():
    at = torch.tensor([3, 1, 4])
    found = phasor.sinusoidal(at, 10)
    assert isinstance(found, torch.Tensor) and (found.numpy() == phasor.sinusoidal(at.numpy(), 10)).all()
    x = torch.randn(2, 3, 10).transpose(0, 1)
    assert torch.equal(phasor.add_sinusoidal_(x.clone(), 5), x + phasor.sinusoidal(torch.arange(5, 7), 10))


def test_jax_gets_arrays_of_its_own_and_is_never_written():
    x = jnp.ones((2, 3, 6), jnp.bfloat16)
    found = phasor.Sinusoidal(6).add(x, jnp.arange(3, dtype=jnp.int32))
    assert isinstance(found, jax.Array) and found.dtype == jnp.bfloat16
    assert (np.asarray(found) == phasor.Sinusoidal(6).add(np.asarray(x))).all()
    assert isinstance(phasor.sinusoidal(jnp.arange(3), 6), jax.Array)
    with pytest.raises(ValueError, match="JAX"):
        phasor.add_sinusoidal_(x)
    assert (np.asarray(x) == 1).all()


def test_pytorch_gets_its_gradients():
    x = torch.randn(2, 3, 6, requires_grad=True)
    added = phasor.Sinusoidal(6).add(x, 4)
    in_place = phasor.add_sinusoidal_(x.clone(), 4)
    assert torch.equal(added, in_place) and in_place.requires_grad
    (2 * added + 3 * in_place).sum().backward()
    assert (x.grad == 5).all()


def test_a_compiled_program_has_no_break():
    encoding = phasor.Sinusoidal(6)
    x = torch.randn(2, 3, 6)

    def program(x):
        return encoding.add(x, 4) + encoding(torch.arange(3)) + encoding.add_(x * 1)

    assert torch.equal(torch.compile(program, fullgraph=True, backend="eager")(x), program(x))


def test_who_saved_a_tensor_hears_that_it_changed():
    x, weight = torch.randn(3, 6), torch.randn(3, 6, requires_grad=True)
    product = x * weight
    phasor.add_sinusoidal_(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_each_axis_has_its_channels():
    at = np.stack([np.arange(4), 10 * np.arange(4)])[:, None]
    both = phasor.Sinusoidal(10, axis_widths=[4, 6])(at)
    assert both.shape == (1, 4, 10)
    assert (both[0, :, :4] == phasor.sinusoidal(at[0, 0], 4)).all() and (both[0, :, 4:] == phasor.sinusoidal(at[1, 0], 6)).all()


def test_shift_takes_an_encoding_further_on():
    encoding = phasor.Sinusoidal(12)
    rows = encoding(np.arange(9), dtype="float64")
    shift = encoding.shift(5)
    assert np.abs(shift(rows[2]) - rows[7]).max() < 1e-15 and np.abs(shift.matrix @ rows[3] - rows[8]).max() < 1e-15
    assert len(shift.pairs) == 6


def test_the_gradient_by_the_amplitude_is_a_sum_of_products():
    gradient = np.random.default_rng(2).standard_normal((3, 4, 6))
    encoding = phasor.Sinusoidal(6, amplitude=3.0)
    wanted = (gradient * phasor.Sinusoidal(6)(np.arange(4), dtype="float64")).sum()
    assert abs(encoding.amplitude_gradient(gradient) - wanted) < 1e-13
    assert (encoding(np.arange(4), amplitude=1.0) == phasor.sinusoidal(np.arange(4), 6)).all()


def test_ladders_and_the_rest_of_the_spec_arrive():
    given = phasor.Sinusoidal(4, ladder=phasor.GivenLadder([0.5, -2.0]), unit="turns", position_scale=0.25, zero_position=8)
    assert np.allclose(given.frequencies, [math.pi / 4, -math.pi], rtol=1e-15)
    rows = given(np.array([8, 1]), dtype="float64")
    assert not rows[0].any() and abs(rows[1, 0] - math.sin(math.pi / 4)) < 1e-15
    assert phasor.Sinusoidal(6, base=100).spec == phasor.SinusoidalSpec(6, ladder=phasor.GeometricLadder(base=100))
    assert phasor.Sinusoidal(7, odd="unpaired").frequencies.size == 4 and phasor.Sinusoidal(7).frequencies.size == 3
    assert phasor.Sinusoidal(6, ladder=phasor.LogSpacedLadder(fastest=2.0, slowest=0.5)).frequencies.tolist() == [2.0, 1.0, 0.5]
    assert np.allclose(phasor.Sinusoidal(4, ladder=phasor.BandLadder(highest=8)).frequencies, [math.pi, 4 * math.pi])


def test_encodings_are_values():
    encoding = phasor.Sinusoidal(6, order="sin_cos")
    assert pickle.loads(pickle.dumps(encoding)) == encoding and hash(pickle.loads(pickle.dumps(encoding))) == hash(encoding)
    assert encoding != phasor.Sinusoidal(6) and encoding.order == "sin_cos" and "sin_cos" in repr(encoding)
    with pytest.raises(AttributeError):
        encoding.colour  # noqa: B018 - asking is what is tested


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: phasor.Sinusoidal(-1), ValueError, "width"),
        (lambda: phasor.Sinusoidal(4.5), TypeError, "an integer"),
        (lambda: phasor.Sinusoidal(4, order="sideways"), ValueError, "wanted interleaved, sin_cos or cos_sin"),
        (lambda: phasor.Sinusoidal(4, base=2, ladder=phasor.GivenLadder([1, 2])), ValueError, "both given"),
        (lambda: phasor.Sinusoidal(4, ladder=phasor.GivenLadder([1.0])), ValueError, "frequencies"),
        (lambda: phasor.Sinusoidal(4, ladder="geometric"), TypeError, "GeometricLadder"),
        (lambda: phasor.Sinusoidal(4, axis_widths=[1.5]), TypeError, "integers"),
        (lambda: phasor.sinusoidal(3, 4), TypeError, "wanted an array"),
        (lambda: phasor.sinusoidal(np.arange(3, dtype=np.float32), 4), TypeError, "int32, int64 or float64"),
        (lambda: phasor.sinusoidal(np.zeros((1, 1, 1, 2), int), 4), ValueError, "axes"),
        (lambda: phasor.add_sinusoidal_(np.zeros((3, 4), int)), TypeError, "float32"),
        (lambda: phasor.add_sinusoidal_(np.zeros(4, np.float32)), ValueError, "axes"),
        (lambda: phasor.Sinusoidal(6).add(np.zeros((3, 4), np.float32)), ValueError, "6"),
        (lambda: phasor.Sinusoidal(4).add(np.zeros((3, 4), np.float32), np.arange(5)), ValueError, "5"),
        (lambda: phasor.add_sinusoidal_(np.zeros((8, 3), np.float32).T), ValueError, "stride"),
        (lambda: phasor.Sinusoidal(3, odd="unpaired").shift(1), ValueError, "unpaired"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_read_only_array_is_refused_in_place():
    x = np.zeros((2, 4), np.float32)
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        phasor.add_sinusoidal_(x)
    assert (phasor.Sinusoidal(4).add(x) == phasor.sinusoidal(range(2), 4)).all()


def test_an_amplitude_that_learns_keeps_its_gradient_or_is_refused():
    encoding, x, amplitude = phasor.Sinusoidal(6), torch.randn(3, 6), torch.tensor(0.5, requires_grad=True)
    want = encoding.amplitude_gradient(np.ones((3, 6)))
    for call in (encoding.add, lambda x, amplitude: encoding.add_(x.clone(), amplitude=amplitude)):
        amplitude.grad = None
        out = call(x, amplitude=amplitude)
        assert torch.equal(out, encoding.add(x, amplitude=0.5))
        out.sum().backward()
        assert amplitude.grad.item() == pytest.approx(want, rel=1e-6)
    for call in (lambda: encoding.add(x.numpy(), amplitude=amplitude), lambda: encoding(torch.arange(3), amplitude=amplitude)):
        with pytest.raises(ValueError, match="requires a gradient"):
            call()
