# SPDX-License-Identifier: Apache-2.0
"""Arrays of every library and every layout give the bits of a plain contiguous NumPy array, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import phasor

ROPE = phasor.Rotary(head_dim=24, rotary_width=16, rotary_offset=4, base=1e6)
POSITIONS = np.array([5, 0, -3, 10**12, 7])
SHAPE = (2, 5, 3, 24)  # (B, T, H, D)
TORCH = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}


def numbers(dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(SHAPE).astype(dtype)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


WANTED = ROPE(numbers(), positions=POSITIONS)


def spread(x: np.ndarray) -> np.ndarray:
    """x with a gap behind every head and every batch row."""
    room = np.full((3, 5, 7, 30), 99, x.dtype)
    room[:2, :, ::3, :24] = x
    return room[:2, :, ::3, :24]


def backwards(x: np.ndarray) -> np.ndarray:
    """x with negative strides in batch, token and head."""
    return np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]


def heads_first(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"gaps": spread, "negative strides": backwards, "heads first": heads_first}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_views_of_any_strides_rotate_in_place_where_they_lie(layout: str) -> None:
    x = LAYOUTS[layout](numbers())
    address = x.__array_interface__["data"]
    assert ROPE.apply_(x, positions=POSITIONS) is x
    assert bits(x) == bits(WANTED)
    assert x.__array_interface__["data"] == address
    if layout == "gaps":
        assert (x.base[2] == 99).all() and (x.base[:, :, 1] == 99).all() and (x.base[..., 24:] == 99).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_views_of_any_strides_rotate_into_new_arrays_and_stay_as_they_are(layout: str) -> None:
    x = LAYOUTS[layout](numbers())
    out = ROPE(x, positions=POSITIONS)
    assert bits(out) == bits(WANTED)
    assert bits(x) == bits(numbers())
    assert not np.shares_memory(out, x)


@pytest.mark.parametrize("front", ["new", "in place"])
@pytest.mark.parametrize("layout", ["Fortran order", "every other channel"])
def test_channels_that_do_not_lie_side_by_side_are_refused_before_anything_is_written(layout: str, front: str) -> None:
    room = np.asfortranarray(numbers()) if layout == "Fortran order" else np.repeat(numbers(), 2, axis=-1)
    x = room if layout == "Fortran order" else room[..., ::2]
    before = room.copy()
    with pytest.raises(ValueError, match="stride .* on its last axis, wanted 1"):
        (ROPE if front == "new" else ROPE.apply_)(x, positions=POSITIONS)
    assert bits(room) == bits(before)


def test_a_read_only_array_is_refused_in_place_and_read_otherwise() -> None:
    x = numbers()
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ROPE.apply_(x, positions=POSITIONS)
    assert bits(x) == bits(numbers())
    assert bits(ROPE(x, positions=POSITIONS)) == bits(WANTED)


def test_an_array_that_repeats_its_elements_is_refused_in_place() -> None:
    x = np.lib.stride_tricks.as_strided(numbers(), SHAPE, (0, 288, 96, 4))
    with pytest.raises(ValueError):
        ROPE.apply_(x, positions=POSITIONS)


@pytest.mark.parametrize("shape", [(0, 5, 3, 24), (2, 0, 3, 24), (0, 24)])
def test_arrays_without_elements_are_rotated_to_arrays_without_elements(shape: tuple[int, ...]) -> None:
    assert ROPE(np.empty(shape, np.float32)).shape == shape
    assert ROPE.apply_(np.empty(shape, np.float32)).shape == shape
    assert ROPE(torch.empty(shape)).shape == shape


def test_no_heads_are_refused() -> None:
    for x in (np.empty((2, 5, 0, 24), np.float32), torch.empty(2, 5, 0, 24)):
        with pytest.raises(ValueError, match="0 heads"):
            ROPE(x)


@pytest.mark.parametrize("shape", [(5, 3, 24), (5, 24)])
def test_fewer_axes_are_fewer_batches_and_heads(shape: tuple[int, ...]) -> None:
    x = numbers()[0, :, :, :] if len(shape) == 3 else numbers()[0, :, 0, :]
    wanted = WANTED[0] if len(shape) == 3 else WANTED[0, :, 0]
    assert bits(ROPE(x, positions=POSITIONS)) == bits(wanted)


# ---- Dtypes ----


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_numpy_and_torch_agree_bit_for_bit_in_every_dtype(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = numbers(kind)
    tensor = torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16) if dtype == "bfloat16" else torch.from_numpy(x.copy())
    assert tensor.dtype == TORCH[dtype]
    ours, theirs = ROPE(x, positions=POSITIONS), ROPE(tensor, positions=torch.from_numpy(POSITIONS))
    assert ours.dtype == x.dtype
    assert theirs.dtype == tensor.dtype
    assert bits(ours) == bits(theirs.view(torch.uint8).numpy())
    assert bits(ours) != bits(x)
    ROPE.apply_(x, positions=POSITIONS)
    assert bits(x) == bits(ours)


def test_sixteen_bits_are_the_float32_rotation_rounded_once() -> None:
    half = numbers(np.float16)
    wanted = ROPE(half.astype(np.float32), positions=POSITIONS).astype(np.float16)
    assert bits(ROPE(half, positions=POSITIONS)) == bits(wanted)
    brain = numbers(ml_dtypes.bfloat16)
    wanted = ROPE(brain.astype(np.float32), positions=POSITIONS).astype(ml_dtypes.bfloat16)
    assert bits(ROPE(brain, positions=POSITIONS)) == bits(wanted)


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.complex64, np.bool_, ml_dtypes.float8_e4m3fn])
def test_other_dtypes_are_a_type_error_that_names_the_wanted_ones(dtype: Any) -> None:
    with pytest.raises(TypeError, match="wanted"):
        ROPE(np.ones(SHAPE, dtype), positions=POSITIONS)
    with pytest.raises(TypeError, match="wanted"):
        ROPE.apply_(np.ones(SHAPE, dtype), positions=POSITIONS)


@pytest.mark.parametrize("dtype", [">f4", "object", "longdouble", "datetime64[s]"])
def test_dtypes_that_libraries_do_not_share_are_named(dtype: str) -> None:
    named = str(np.dtype(dtype)).replace("[", r"\[")
    x = np.ones(SHAPE).astype("i8" if dtype.startswith("date") else "f8").astype(dtype)
    with pytest.raises(TypeError, match=f"q: is of {named}, .*wanted"):
        ROPE(x, positions=POSITIONS)
    with pytest.raises(TypeError, match=f"q: is of {named}, .*wanted"):
        ROPE.apply_(x, positions=POSITIONS)
    with pytest.raises(TypeError, match=f"positions: is of {named}, .*wanted"):
        ROPE(numbers(), positions=x[0, :, 0, 0])


# ---- JAX ----


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_jax_arrays_give_new_jax_arrays(dtype: Any) -> None:
    x = jnp.asarray(numbers(dtype))
    out = ROPE(x, positions=POSITIONS)
    assert isinstance(out, jax.Array)
    assert out.dtype == x.dtype
    assert bits(np.asarray(out)) == bits(ROPE(numbers(dtype), positions=POSITIONS))


def test_jax_positions_are_taken() -> None:
    at = jnp.arange(5, dtype=jnp.int32)
    assert bits(ROPE(numbers(), positions=at)) == bits(ROPE(numbers()))


def test_tables_of_jax_positions_are_jax_arrays() -> None:
    at = jnp.arange(5, dtype=jnp.int32)
    for one, wanted in zip(ROPE.cos_sin(at), ROPE.cos_sin(np.arange(5))):
        assert isinstance(one, jax.Array)
        assert bits(np.asarray(one)) == bits(wanted)
    with pytest.raises(NotImplementedError, match="float64, which JAX has with jax_enable_x64"):
        ROPE.cos_sin(at, dtype="float64")


def test_jax_arrays_are_refused_in_place_and_stay_as_they_are() -> None:
    x = jnp.asarray(numbers())
    with pytest.raises(ValueError, match="JAX"):
        ROPE.apply_(x, positions=POSITIONS)
    with pytest.raises(ValueError, match="JAX"):
        ROPE.rerotate_(x, 0, 1)
    assert bits(np.asarray(x)) == bits(numbers())


# ---- Dtypes of tables ----


@pytest.mark.parametrize("dtype", [np.float64, np.dtype("float64"), "float64", torch.float64, float])
@pytest.mark.parametrize("kind", ["numpy", "torch", "int"])
def test_tables_are_of_the_dtype_that_is_asked_for_in_whatever_words(dtype: Any, kind: str) -> None:
    at = {"numpy": POSITIONS, "torch": torch.from_numpy(POSITIONS), "int": 5}[kind]
    cos, _ = ROPE.cos_sin(at, dtype=dtype)
    assert str(cos.dtype).removeprefix("torch.") == "float64"
    assert isinstance(cos, torch.Tensor) == (kind == "torch" or dtype is torch.float64)
    assert bits(cos) == bits(ROPE.cos_sin([5] if kind == "int" else POSITIONS, dtype="float64")[0])


@pytest.mark.parametrize("dtype", ["nope", "int32", torch.int64, int, "load"])
@pytest.mark.parametrize("at", [POSITIONS, torch.from_numpy(POSITIONS), 5], ids=["numpy", "torch", "int"])
def test_tables_of_what_is_no_floating_type_are_a_type_error(dtype: Any, at: Any) -> None:
    with pytest.raises(TypeError, match="wanted|not understood"):
        ROPE.cos_sin(at, dtype=dtype)


# ---- PyTorch's own kinds of tensors ----


def test_a_negative_view_is_rotated_as_the_numbers_that_it_shows() -> None:
    x = torch.from_numpy(numbers())
    negative = torch._neg_view(x.clone())
    assert negative.is_neg()
    at = torch.from_numpy(POSITIONS)
    assert torch.equal(ROPE(negative, positions=at), ROPE(-x, positions=at))
    ROPE.apply_(negative, positions=at)
    assert torch.equal(negative, ROPE(-x, positions=at))


def test_the_imaginary_part_of_a_conjugate_is_rotated_as_the_numbers_that_it_shows() -> None:
    z = torch.complex(torch.from_numpy(numbers()), torch.from_numpy(numbers())).conj()
    assert z.imag.is_neg()
    assert torch.equal(ROPE(z.imag), ROPE(-torch.from_numpy(numbers())))


def negative(x: Any) -> torch.Tensor:
    """A tensor that shows -x."""
    return torch._neg_view(torch.as_tensor(x).clone())


class Subclass(torch.Tensor):
    """A tensor that does not enter by the short way."""


@pytest.mark.parametrize("kind", ["plain", "subclass"])
def test_the_core_refuses_negative_views_that_nobody_has_asked_for(kind: str) -> None:
    def bad(x: Any) -> torch.Tensor:
        return negative(x) if kind == "plain" else negative(x).as_subclass(Subclass)

    core, sinusoidal = ROPE._core, phasor._core.Sinusoidal(phasor.SinusoidalSpec(24))
    bias = phasor._core.Bias(phasor.Alibi(heads=3))
    x, at, rows = numbers(), torch.from_numpy(POSITIONS), np.zeros((5, 24), np.float32)
    cos, sin = ROPE.cos_sin(POSITIONS)
    shift = sinusoidal.shift([1.0])
    layout = phasor._core.TableLayout(phasor.TableLayout(rotary_width=16, rotary_offset=4))
    phase = np.zeros((2, 5, 1, 8))
    calls: dict[str, Callable[[], Any]] = {
        "k": lambda: core.apply(x, bad(x), 0, 0, None, None),
        "positions": lambda: core.apply(x, None, bad(at), 0, None, None),
        "positions of tensors": lambda: core.apply(torch.from_numpy(x), None, bad(at), 0, None, None),
        "positions as real numbers": lambda: core.apply(x, None, torch.complex(at.double(), at.double()).conj().imag, 0, None, None),
        "cos": lambda: phasor._core.apply_tables(x, None, bad(cos), torch.from_numpy(sin), layout, 0, None, None),
        "k by tables": lambda: phasor._core.apply_tables(x, bad(x), cos, sin, layout, 0, None, None),
        "positions of tables": lambda: core.cos_sin(bad(at), cos[None], sin[None]),
        "tables to fill": lambda: core.cos_sin(at, bad(cos[None]), sin[None]),
        "from_positions": lambda: phasor._core.rerotate((core, core), x, (bad(at), 0), None, None),
        "to_positions": lambda: phasor._core.rerotate((core, core), torch.from_numpy(x), (0, bad(at)), None, None),
        "table": lambda: phasor._core.lookup_add(rows, bad(rows), 0, None),
        "x": lambda: phasor._core.lookup_add(bad(rows), rows, 0, None),
        "gradient": lambda: phasor._core.scatter_gradient(rows, bad(rows), 0),
        "resampled": lambda: phasor._core.resample_table(rows.copy(), bad(rows)),
        "hierarchy": lambda: phasor._core.fill_hierarchical(rows.copy(), bad(rows)),
        "out": lambda: sinusoidal.fill(bad(rows), 0),
        "positions of tokens": lambda: sinusoidal.add(rows, bad(at)),
        "amplitude": lambda: sinusoidal.amplitude_gradient(bad(rows), 0),
        "encoding": lambda: shift.apply(bad(np.ones(24))),
        "diagonal": lambda: bias.gradient(np.zeros(3), bad(rows[:3]), 0, (0, 0)),
        "sum of a bias": lambda: bias.gradient(bad(np.zeros(3)), rows[:3], 0, (0, 0)),
        "rotated": lambda: phasor._core.phase_gradient(phase, bad(x), x, layout, False),
        "sum": lambda: phasor._core.frequency_gradient(core, bad(np.zeros(8)), phase, 0),
    }
    for what, call in calls.items():
        with pytest.raises(NotImplementedError, match="is a negative view.*resolve_neg"):
            call()
            pytest.fail(f"{what} was taken")
    assert bits(x) == bits(numbers()) and not rows.any()


def test_negative_positions_are_not_taken_past_pytorch() -> None:
    x, at = torch.from_numpy(numbers()), torch.from_numpy(POSITIONS)
    assert ROPE._core.apply_past_torch(x, None, at, 0)
    before = x.clone()
    for positions in (negative(at), torch.complex(at.double(), at.double()).conj().imag):
        assert not phasor._core.may_write_past_torch(x, None, positions)
        assert not ROPE._core.apply_past_torch(x, None, positions, 0)
    assert torch.equal(x, before)


def test_complex_tensors_are_refused() -> None:
    with pytest.raises(TypeError):
        ROPE(torch.zeros(SHAPE, dtype=torch.complex64))


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_meta_and_fake_tensors_give_shapes_and_nothing_is_read() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    out = ROPE(torch.empty(SHAPE, device="meta", dtype=torch.bfloat16))
    assert out.is_meta and out.shape == SHAPE and out.dtype == torch.bfloat16
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = ROPE(torch.empty(SHAPE))
    assert fake.shape == SHAPE
    with pytest.raises(ValueError, match="has no memory"):  # past the front that knows them
        phasor._core.Rotary(ROPE.spec).apply(fake, None, None, 0, None, None)


def fake(numbers: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(torch.as_tensor(numbers))


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_tensors_without_memory_are_refused_wherever_values_are_read() -> None:
    zeros = torch._efficientzerotensor(5, dtype=torch.float64)
    for positions in (fake(POSITIONS), fake(np.arange(2**20)), zeros):
        with pytest.raises(ValueError, match="positions: has no memory"):
            ROPE(numbers(), positions=positions)
        with pytest.raises(ValueError, match="positions: has no memory"):
            ROPE.apply_(numbers(), positions=positions)
    with pytest.raises(ValueError, match="table: has no memory"):
        phasor.lookup_add(np.zeros((5, 24), np.float32), fake(np.ones((9, 24), np.float32)))
    with pytest.raises(ValueError, match="encoding: has no memory"):
        phasor._core.Sinusoidal(phasor.SinusoidalSpec(8)).shift([1.0]).apply(fake(np.ones(8)))
    assert ROPE(np.empty((0, 24), np.float32), positions=torch.empty(0, dtype=torch.int64)).shape == (0, 24)


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="sparse"):
        ROPE(torch.zeros(5, 24).to_sparse())


# ---- Anything else that speaks DLPack ----


class OnlyDlpack:
    """An array of nobody's library."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_an_object_with_nothing_but_dlpack_is_rotated_in_place_and_into_something_new() -> None:
    array = numbers()
    assert bits(ROPE(OnlyDlpack(array), positions=POSITIONS)) == bits(WANTED)
    assert bits(array) == bits(numbers())
    ROPE.apply_(OnlyDlpack(array), positions=OnlyDlpack(POSITIONS))
    assert bits(array) == bits(WANTED)


@pytest.mark.parametrize("thing", [[[1.0] * 24], "text", 3.5, None, object()])
def test_what_is_no_array_is_a_type_error(thing: Any) -> None:
    with pytest.raises(TypeError):
        ROPE(thing)
    with pytest.raises(TypeError):
        ROPE.apply_(thing)


def test_q_and_k_of_different_libraries_are_each_rotated_or_refused_by_pytorch() -> None:
    q_out, k_out = ROPE(numbers(), OnlyDlpack(numbers()), POSITIONS)
    assert bits(q_out) == bits(k_out) == bits(WANTED)
    with pytest.raises(TypeError, match="k is a ndarray"):
        ROPE(torch.from_numpy(numbers()), numbers(), torch.from_numpy(POSITIONS))
