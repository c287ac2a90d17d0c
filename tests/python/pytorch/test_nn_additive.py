# SPDX-License-Identifier: Apache-2.0
"""phasor.nn.Sinusoidal and Learned: values, gradients, longer and resized tables, states."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import phasor
import phasor.nn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_sinusoids_are_added_as_by_the_function(dtype):
    module, x = phasor.nn.Sinusoidal(6, order="sin_cos"), torch.randn(2, 5, 6).to(dtype)
    encoding = phasor.Sinusoidal(6, order="sin_cos")
    for positions in (None, 7, torch.tensor([0, 10**12, 5, 1, 2]), torch.rand(2, 5, dtype=torch.float64)):
        assert torch.equal(module(x, positions), encoding.add(x, positions))
    rows = module.encode(torch.arange(5), dtype)
    assert rows.dtype == dtype and torch.equal(rows, encoding(torch.arange(5), dtype=dtype))
    assert module.state_dict() == {}


def test_the_gradient_by_the_amplitude_and_by_the_tokens():
    module = phasor.nn.Sinusoidal(6, learned_amplitude=True, amplitude=0.5).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)

    def add(x, amplitude):
        return torch.func.functional_call(module, {"amplitude": amplitude}, (x, torch.tensor([3, 1, 10**6])))

    assert module.amplitude.item() == 0.5 and list(module.state_dict()) == ["amplitude"]
    assert torch.autograd.gradcheck(add, (x, module.amplitude))


@pytest.mark.parametrize("padding_row", [None, 2])
def test_learned_rows_and_their_gradient_are_those_of_an_embedding(padding_row):
    module = phasor.nn.Learned(7, 6, offset=2, padding_row=padding_row).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    positions = torch.tensor([[0, 1, 1], [4, 0, 3]])
    twin = torch.nn.Embedding.from_pretrained(module.weight.detach().clone(), freeze=False, padding_idx=padding_row)
    got, want = module(x, positions), x + twin(positions + 2)
    assert torch.equal(got, want)
    weights = torch.randn(2, 3, 6, dtype=torch.float64)
    (got * weights).sum().backward()
    (want * weights).sum().backward()
    torch.testing.assert_close(module.weight.grad, twin.weight.grad)
    assert torch.equal(module(x), x + twin(torch.arange(2, 5)))


def test_lookups_have_second_derivatives():
    table = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    positions = torch.tensor([[0, 1, 1], [3, 2, 0]])

    def add(x, table):
        return torch.ops.phasor.lookup_add(x * x, table.sin(), positions, 0, 0, None)

    assert torch.autograd.gradcheck(add, (x, table))
    assert torch.autograd.gradgradcheck(add, (x, table))


def test_a_longer_table_is_the_hierarchical_one_and_learns():
    module = phasor.nn.Learned(4, 6, length=13, alpha=0.3).double()
    table = module.table()
    assert torch.equal(table[:4], module.weight)
    assert np.array_equal(table.detach().numpy(), phasor.hierarchical_table(module.weight.detach().numpy(), 13, 0.3))
    assert list(module.state_dict()) == ["weight"] and module.state_dict()["weight"].shape == (4, 6)

    def extended(weight):
        return torch.func.functional_call(module, {"weight": weight}, (torch.zeros(13, 6, dtype=torch.float64),))

    assert torch.autograd.gradcheck(extended, (module.weight,))
    with pytest.raises(ValueError, match="16"):
        phasor.nn.Learned(4, 6, length=17)
    with pytest.raises(ValueError, match="alpha"):
        phasor.nn.Learned(4, 6, alpha=0.5)


def test_a_padding_row_is_a_row_of_the_table_and_not_of_an_extension():
    for row in (-1, 4, 99):
        with pytest.raises(ValueError, match=f"padding_row is {row}"):
            phasor.nn.Learned(4, 6, padding_row=row)
    with pytest.raises(ValueError, match="length above rows"):
        phasor.nn.Learned(4, 6, padding_row=1, length=9)
    assert phasor.nn.Learned(4, 6, padding_row=3, length=4).padding_row == 3


def test_a_table_is_resampled_as_pytorch_does():
    module = phasor.nn.Learned(6, 5).double()
    before = module.weight.detach().clone()
    module.resample(10, kernel="linear", align_corners=True)
    want = torch.nn.functional.interpolate(before.T[None], size=10, mode="linear", align_corners=True)[0].T
    torch.testing.assert_close(module.weight.detach(), want)
    assert isinstance(module.weight, torch.nn.Parameter) and module(torch.zeros(10, 5, dtype=torch.float64)).shape == (10, 5)
    grid = phasor.nn.Learned.from_table(before)
    grid.resample((4, 5), grid=(2, 3))
    want = torch.nn.functional.interpolate(before.T.reshape(1, 5, 2, 3), size=(4, 5), mode="bicubic").reshape(5, 20).T
    torch.testing.assert_close(grid.weight.detach(), want)
    with pytest.raises(ValueError, match="2 numbers"):
        phasor.nn.Learned.from_table(before).resample((4, 5))


def test_tables_come_from_files_and_configs(tmp_path):
    import json

    table = torch.randn(5, 4).to(torch.bfloat16)
    header = json.dumps({"wpe.weight": {"dtype": "BF16", "shape": [5, 4], "data_offsets": [0, 40]}}).encode()
    content = table.view(torch.int16).numpy().tobytes()
    path = tmp_path / "table.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)
    assert torch.equal(phasor.nn.Learned.from_file(path, "wpe.weight").weight, table)
    gpt2 = {"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 50}
    assert phasor.nn.Learned.from_config(gpt2).weight.shape == (50, 32)
    opt = {"model_type": "opt", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 50}
    module = phasor.nn.Learned.from_config(opt)
    assert module.weight.shape == (52, 32) and module.offset == 2
    with pytest.raises(ValueError, match="sinusoidal"):
        phasor.nn.Sinusoidal.from_config(gpt2, order="sin_cos")


def test_additive_modules_compile_without_recompiling():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    sinusoidal, learned = phasor.nn.Sinusoidal(6, learned_amplitude=True), phasor.nn.Learned(8, 6, length=40)
    compiled = torch.compile(lambda x: learned(sinusoidal(x), 1), backend=counter, fullgraph=True, dynamic=True)
    counts = []
    for length in (5, 17, 33):
        x = torch.randn(2, length, 6)
        want = learned(sinusoidal(x), 1)
        assert torch.equal(compiled(x), want)
        gradients = [torch.autograd.grad(out.sin().sum(), (learned.weight, sinusoidal.amplitude)) for out in (want, compiled(x))]
        for a, b in zip(*gradients):
            torch.testing.assert_close(a, b)
        counts.append(counter.frame_count)
    assert len(set(counts)) == 1  # PyTorch compiles twice at first, because alpha is a float


def test_opcheck_accepts_the_additive_operators():
    ops, text = torch.ops.phasor, phasor.nn.Sinusoidal(6).text
    x, table = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True), torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    positions, amplitude = torch.tensor([[0, 1, 1], [3, 2, 0]]), torch.tensor(2.0, requires_grad=True)
    torch.library.opcheck(ops.sinusoidal.default, (positions, text, torch.bfloat16))
    torch.library.opcheck(ops.add_sinusoidal.default, (x, text, None, 5, amplitude))
    torch.library.opcheck(ops.sinusoidal_amplitude_gradient.default, (x.detach(), text, positions, 0))
    torch.library.opcheck(ops.lookup_add.default, (x, table, positions, 0, 0, None))
    torch.library.opcheck(ops.lookup_gradient.default, (x, table.detach(), positions, 0, 0, 1))
    torch.library.opcheck(ops.hierarchical_table.default, (table, 13, 0.3))


def test_bad_tokens_are_refused_with_words():
    sinusoidal, learned = phasor.nn.Sinusoidal(6), phasor.nn.Learned(4, 6)
    for module in (sinusoidal, learned):
        for x, positions, kind, words in (
            (torch.randn(3, 5), None, ValueError, "5"),
            (torch.randn(6), None, ValueError, "1 axes"),
            (torch.randn(3, 6).int(), None, TypeError, "int32"),
            (torch.randn(3, 6), torch.arange(2), ValueError, "position"),
            (torch.randn(3, 6), torch.arange(3.0), TypeError, "float32"),
            (torch.randn(3, 12)[:, ::2], None, ValueError, "stride"),
            (torch.randn(3, 6).to_sparse(), None, NotImplementedError, "sparse"),
        ):
            with pytest.raises(kind, match=words) as error:
                module(x, positions)
            assert len(str(error.value)) < 300
    with pytest.raises(ValueError, match="4"):
        learned(torch.randn(5, 6))
    with pytest.raises(ValueError):
        learned(torch.randn(1, 6), -1)


def test_copies_of_modules_agree_and_print():
    module = phasor.nn.Sinusoidal(6, position_scale=math.pi)
    x = torch.randn(3, 6)
    assert torch.equal(copy.deepcopy(module)(x), module(x))
    assert "order='interleaved'" in repr(module)
    assert repr(phasor.nn.Learned(4, 6, offset=2, length=9)) == "Learned(rows=4, width=6, offset=2, length=9)"


def by_finite_differences(function, x, tangent):
    step = 1e-6
    return (function(x + step * tangent) - function(x - step * tangent)) / (2 * step)


@pytest.mark.parametrize(
    "module, name",
    [(phasor.nn.Sinusoidal(6, learned_amplitude=True).double(), "amplitude"), (phasor.nn.Learned(3, 6, length=7).double(), "weight")],
)
def test_tangents_and_nested_gradients_of_additive_modules(module, name):
    x, along = torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)
    value = getattr(module, name).detach()
    aside = torch.randn_like(value)

    def call(x, value):
        return torch.func.functional_call(module, {name: value}, (x, torch.tensor([[3, 1, 4, 1, 5]])))

    moved = torch.func.jvp(call, (x, value), (along, aside))[1]
    torch.testing.assert_close(moved, call(x + along, value + aside) - call(x, value))  # it is linear in both
    moved = torch.func.jvp(lambda value: call(x, value), (value,), (aside,))[1]
    torch.testing.assert_close(moved, call(x, value + aside) - call(x, value))
    assert torch.equal(torch.func.jvp(lambda x: call(x, value), (x,), (along,))[1], along)
    with torch.autograd.forward_ad.dual_level():
        dual = call(torch.autograd.forward_ad.make_dual(x, along), value)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(dual).tangent, along)

    def cubed(value):
        return call(x, value).pow(3).sum()

    gradient = torch.func.grad(cubed)
    torch.testing.assert_close(gradient(value).mul(aside).sum(), by_finite_differences(cubed, value, aside), rtol=1e-6, atol=1e-6)
    second = by_finite_differences(gradient, value, aside)
    torch.testing.assert_close(torch.func.jvp(gradient, (value,), (aside,))[1], second, rtol=1e-6, atol=1e-6)
    nested = torch.func.grad(lambda value: gradient(value).mul(aside).sum())(value)
    torch.testing.assert_close(nested, second, rtol=1e-6, atol=1e-6)


def test_the_amplitude_has_second_derivatives():
    text = phasor.nn.Sinusoidal(6).text
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    amplitude = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def add(x, amplitude):
        return torch.ops.phasor.add_sinusoidal(x, text, torch.tensor([3, 1, 10**6]), 0, amplitude).pow(2)

    assert torch.autograd.gradgradcheck(add, (x, amplitude), check_fwd_over_rev=True)


def test_positions_that_would_learn_are_refused_where_their_gradient_would_be_lost():
    encoding, x = phasor.Sinusoidal(6), torch.randn(3, 6)
    positions = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for call in (
        lambda at: encoding(at),
        lambda at: encoding.add(x, at),
        lambda at: phasor.nn.Sinusoidal(6)(x, at),
        lambda at: phasor.Rotary(8).cos_sin(at),
    ):
        with pytest.raises(NotImplementedError, match="positions"):
            call(positions)
        with pytest.raises(NotImplementedError, match="positions"):
            torch.func.jvp(call, (positions.detach(),), (torch.ones(3, dtype=torch.float64),))
        with torch.no_grad():
            call(positions)
    for call in (lambda at: encoding.add_(x.clone(), at), lambda at: encoding(at, out=torch.empty(3, 6))):
        with pytest.raises(ValueError, match="requires a gradient"):
            call(positions)
        with torch.no_grad():
            call(positions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("positions", [7, torch.arange(5) * 1000, torch.arange(10).reshape(2, 5)])
def test_the_gradient_by_an_amplitude_as_it_is_made_on_a_gpu(dtype, positions):
    from phasor._torch import additive

    gradient = torch.randn(2, 5, 12).to(dtype)
    encoding = phasor.Sinusoidal(12, amplitude=0.25)
    text = phasor._torch.text_of(encoding.spec)
    got = additive._amplitude_gradient_there(gradient, text, positions)
    assert got.dtype == torch.float64 and got.ndim == 0
    bound = gradient.numel() * 2.0**-52 * float(gradient.double().abs().sum())  # additions in another order, of terms up to |gradient|
    assert abs(float(got) - encoding.amplitude_gradient(gradient, positions)) <= bound
