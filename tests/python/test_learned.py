# SPDX-License-Identifier: Apache-2.0
"""Learned tables through Python: rows added, their gradient, longer and resized tables, tables read from files."""

import ml_dtypes
import numpy as np
import phasor
import pytest
import torch
from safetensors.numpy import save_file

RANDOM = np.random.default_rng(3)


def test_a_row_is_added_to_each_token():
    x = RANDOM.standard_normal((2, 5, 7)).astype(np.float32)
    table = RANDOM.standard_normal((9, 7)).astype(np.float32)
    at = np.array([[0, 8, 3, 3, 1], [2, 2, 0, 7, 5]])
    wanted = x + table[at]
    assert (phasor.lookup_add(x, table, at) == wanted).all()
    assert phasor.lookup_add_(x, table, at) is x and (x == wanted).all()


def test_consecutive_rows_begin_at_the_offset():
    table = RANDOM.standard_normal((9, 4)).astype(np.float32)
    zeros = np.zeros((3, 4), np.float32)
    assert (phasor.lookup_add(zeros, table) == table[:3]).all()
    assert (phasor.lookup_add(zeros, table, offset=2) == table[2:5]).all()
    assert (phasor.lookup_add(zeros, table, 4, offset=2) == table[6:9]).all()


def test_a_bfloat16_table_serves_a_float32_tensor():
    table = RANDOM.standard_normal((6, 4)).astype(ml_dtypes.bfloat16)
    x = RANDOM.standard_normal((6, 4)).astype(np.float32)
    wanted = x + table.astype(np.float32)
    assert (phasor.lookup_add(x, table) == wanted).all()
    found = phasor.lookup_add(torch.from_numpy(x), torch.from_numpy(table.astype(np.float32)).bfloat16())
    assert isinstance(found, torch.Tensor) and (found.numpy() == wanted).all()


def test_a_table_for_each_axis_has_its_channels():
    columns, rows = RANDOM.standard_normal((5, 2)), RANDOM.standard_normal((4, 3))
    at = np.array([[[0, 4, 2]], [[3, 3, 1]]])
    found = phasor.lookup_add(np.zeros((1, 3, 5)), [columns, rows], at)
    assert (found[0] == np.concatenate([columns[at[0, 0]], rows[at[1, 0]]], axis=1)).all()


@pytest.mark.parametrize("padding_row", [None, 3])
def test_the_gradient_is_that_of_an_embedding(padding_row):
    at = torch.tensor([[1, 3, 1], [0, 3, 5]])
    gradient = torch.randn(2, 3, 4, dtype=torch.float64)
    table = torch.zeros(6, 4, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.embedding(at, table, padding_idx=padding_row).backward(gradient)
    found = phasor.scatter_gradient_(torch.zeros(6, 4, dtype=torch.float64), gradient, at, padding_row=padding_row)
    assert torch.allclose(found, table.grad, rtol=0, atol=1e-15)


def test_pytorch_gets_the_gradient_of_the_table():
    table = torch.randn(6, 4, requires_grad=True)
    at = torch.tensor([1, 1, 5])
    phasor.lookup_add(torch.zeros(3, 4), table, at).sum().backward()
    phasor.lookup_add_(torch.zeros(3, 4), table, at).sum().backward()
    assert table.grad[:, 0].tolist() == [0, 4, 0, 0, 0, 2]


def test_hierarchical_rows_follow_su():
    table, alpha = RANDOM.standard_normal((3, 4)), 0.4
    u = (table - alpha * table[:1]) / (1 - alpha)
    wanted = np.array([alpha * u[i] + (1 - alpha) * u[j] for i in range(3) for j in range(3)])
    found = phasor.hierarchical_table(table, 9)
    assert np.allclose(found, wanted, rtol=0, atol=1e-14) and (found[:3] == table).all()
    assert phasor.hierarchical_table(torch.from_numpy(table), 5, alpha=0.3).shape == (5, 4)


@pytest.mark.parametrize(("kernel", "mode"), [("linear", "bilinear"), ("cubic", "bicubic")])
@pytest.mark.parametrize("align_corners", [False, True])
def test_resampling_is_that_of_pytorch(kernel, mode, align_corners):
    table = torch.randn(3, 5, 4, dtype=torch.float64)
    size = (7, 4)
    wanted = torch.nn.functional.interpolate(table.permute(2, 0, 1)[None], size=size, mode=mode, align_corners=align_corners)
    found = phasor.resample_table(table, size, kernel=kernel, align_corners=align_corners)
    assert torch.allclose(found, wanted[0].permute(1, 2, 0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_table_is_read_as_it_is_in_the_file(tmp_path, dtype):
    table = RANDOM.standard_normal((5, 3)).astype(dtype)
    save_file({"wpe.weight": table, "other": np.zeros(2, np.float32)}, tmp_path / "model.safetensors")
    found = phasor.read_learned_table(tmp_path / "model.safetensors", "wpe.weight")
    assert found.dtype == dtype and (found == table).all()
    found[0] = 0  # it is the caller's own


def test_a_bfloat16_table_is_read_as_ml_dtypes_has_it(tmp_path):
    from safetensors.torch import save_file as save_tensors

    table = torch.randn(5, 3).bfloat16()
    save_tensors({"table": table}, tmp_path / "model.safetensors")
    found = phasor.read_learned_table(str(tmp_path / "model.safetensors"), "table")
    assert found.dtype == ml_dtypes.bfloat16 and (found.astype(np.float32) == table.float().numpy()).all()


def test_a_table_that_is_not_there_is_named(tmp_path):
    save_file({"wpe.weight": np.zeros((2, 2), np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="wte"):
        phasor.read_learned_table(tmp_path / "model.safetensors", "wte")
    with pytest.raises(FileNotFoundError, match="other.safetensors: cannot be found"):
        phasor.read_learned_table(tmp_path / "other.safetensors", "wpe.weight")


X = np.zeros((2, 4), np.float32)
TABLE = np.zeros((3, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: phasor.lookup_add(X, TABLE, [0, 3]), ValueError, "3"),
        (lambda: phasor.lookup_add(X, TABLE, [0, -1]), ValueError, "-1"),
        (lambda: phasor.lookup_add(X, TABLE, [0.0, 1.0]), ValueError, "position"),
        (lambda: phasor.lookup_add(X, np.zeros((3, 5), np.float32)), ValueError, "5"),
        (lambda: phasor.lookup_add(X, TABLE.astype(np.float64)), ValueError, "f64"),
        (lambda: phasor.lookup_add(X, None), TypeError, "table"),
        (lambda: phasor.hierarchical_table(TABLE, 10), ValueError, "at most 3 x 3"),
        (lambda: phasor.hierarchical_table(TABLE, 4, alpha=0.5), ValueError, "alpha"),
        (lambda: phasor.resample_table(TABLE, 4, kernel="lanczos"), ValueError, "linear or cubic"),
        (lambda: phasor.resample_table(TABLE, (4, 5)), ValueError, "size"),
        (lambda: phasor.lookup_add(torch.zeros(1, 2, 4), [torch.zeros(3, 4, requires_grad=True)]), ValueError, "requires a gradient"),
        (lambda: phasor.lookup_add_(torch.zeros(1, 2, 4), [torch.zeros(3, 4, requires_grad=True)]), ValueError, "requires a gradient"),
        (lambda: phasor.lookup_add_(X.copy(), torch.zeros(3, 4, requires_grad=True)), ValueError, "requires a gradient"),
        (lambda: phasor.lookup_add(X, torch.zeros(3, 4, requires_grad=True)), ValueError, "requires a gradient"),
        (lambda: phasor.resample_table(torch.zeros(3, 4, requires_grad=True), 5), ValueError, "requires a gradient"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_nothing_is_written_when_a_position_is_outside_the_table():
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ValueError):
        phasor.lookup_add_(x, TABLE + 1, [0, 1, 9])
    assert (x == 1).all()


def test_a_numpy_array_takes_rows_of_a_tensor_in_place():
    x, table = np.zeros((2, 4), np.float32), torch.nn.Parameter(torch.ones(3, 4))
    with torch.no_grad():
        assert phasor.lookup_add_(x, table) is x and (x == 1).all()


@pytest.mark.parametrize(
    "write",
    [
        lambda out: phasor.scatter_gradient_(out, torch.ones(3, 4), torch.arange(3)),
        lambda out: phasor.Sinusoidal(4)(torch.arange(3), out=out),
        lambda out: phasor.Bias(phasor.Alibi(heads=3)).diagonal(0, 4, out=out),
        lambda out: phasor.Bias(phasor.Alibi(heads=1))(torch.arange(3), torch.arange(4), out=out[None]),
        lambda out: phasor.xl_sinusoids(torch.arange(3), phasor.XlSinusoids(width=4), out=out),
    ],
)
def test_outputs_that_pytorch_would_not_write_are_refused(write):
    want = write(torch.zeros(3, 4)).clone()
    learning = torch.zeros(3, 4, requires_grad=True)
    for out in (learning, learning * 1):
        with pytest.raises(RuntimeError, match="requires grad"):
            write(out)
        assert not out.any()
        with torch.no_grad():
            assert torch.equal(write(out.detach()), want)
    with torch.inference_mode():
        inner = torch.zeros(3, 4)
        assert torch.equal(write(inner), want)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        write(inner)


def test_gradients_of_gradients_are_refused_where_they_would_be_lost():
    learning = torch.ones(3, 4, requires_grad=True)
    for call in (
        lambda: phasor.scatter_gradient_(torch.zeros(3, 4), learning),
        lambda: phasor.Sinusoidal(4).amplitude_gradient(learning),
        lambda: phasor.Bias(phasor.Alibi(heads=3)).gradient(learning, 0),
    ):
        with pytest.raises(ValueError, match="requires a gradient"):
            call()
