# SPDX-License-Identifier: Apache-2.0
"""phasor.nn.AlibiBias and T5Bias: values against the formulas and Hugging Face's buckets, gradients, compilation."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import phasor
import phasor.nn


@pytest.mark.parametrize("form", ["symmetric", "causal", "key_position"])
def test_alibi_is_its_formula(form):
    module = phasor.nn.AlibiBias(6, form=form)
    slopes = torch.tensor(phasor.alibi_slopes(6))
    queries, keys = torch.tensor([3, 10, 0]), torch.tensor([[0, 3, 4, 10], [7, 1, 2, 2]])
    distance = queries[:, None] - keys[:, None, :]
    size = {"symmetric": -distance.abs(), "causal": -distance.clamp(min=0), "key_position": keys[:, None, :].expand_as(distance)}[form]
    want = (slopes[:, None, None] * size[:, None]).float()
    assert torch.equal(module(queries, keys), want)
    assert module.state_dict() == {} and not list(module.parameters())


def test_learned_slopes_have_gradients():
    module = phasor.nn.AlibiBias(3, learned=True, form="causal").double()
    fixed = phasor.nn.AlibiBias(3, form="causal")
    assert torch.equal(module(5, 7).float(), fixed(5, 7)) and list(module.state_dict()) == ["slopes"]

    def bias(slopes):
        return torch.func.functional_call(
            module, {"slopes": slopes}, (torch.tensor([1, 5]), torch.tensor([0, 5, 2])), {"dtype": torch.float64}
        )

    assert torch.autograd.gradcheck(bias, (module.slopes,))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_t5_has_the_buckets_of_hugging_face(bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    module = phasor.nn.T5Bias(3, buckets=32, max_distance=128, bidirectional=bidirectional)
    at = torch.arange(300)
    relative = at[None, :] - at[:, None]  # theirs is key - query
    want = T5Attention._relative_position_bucket(relative, bidirectional, 32, 128)
    assert torch.equal(module.rows(300), want)
    assert torch.equal(module(300), module.weight[:, want])


def test_the_gradient_of_the_table_counts_the_scores_of_a_bucket():
    module = phasor.nn.T5Bias(2, buckets=8, max_distance=20).double()
    queries, keys = torch.tensor([[0, 5, 9], [1, 2, 3]]), torch.tensor([0, 4, 8, 100])
    assert module(queries, keys).shape == (2, 2, 3, 4)

    def bias(weight):
        return torch.func.functional_call(module, {"weight": weight}, (queries, keys))

    assert torch.autograd.gradcheck(bias, (module.weight,))
    module(queries, keys).sum().backward()
    rows = phasor.t5_buckets((queries[..., None] - keys).numpy(), 8, 20)
    assert np.array_equal(module.weight.grad[0].numpy(), np.bincount(rows.reshape(-1), minlength=8))


def test_the_last_queries_are_a_part_of_all():
    for module in (phasor.nn.AlibiBias(3), phasor.nn.T5Bias(3)):
        assert torch.equal(module(2, 9), module(9)[:, -2:])
        assert torch.equal(module(torch.arange(9), torch.arange(9)), module(9))


def test_configs_give_biases():
    t5 = {"model_type": "t5", "d_model": 64, "num_heads": 4, "num_layers": 2, "relative_attention_num_buckets": 16}
    module = phasor.nn.T5Bias.from_config(t5)
    assert module.weight.shape == (4, 16)
    bloom = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2}
    assert phasor.nn.AlibiBias.from_config(bloom, form="key_position").spec.heads == 4
    with pytest.raises(ValueError, match="wanted alibi"):
        phasor.nn.AlibiBias.from_config(t5)
    with pytest.raises(ValueError, match="layer is 9"):
        phasor.nn.T5Bias.from_config(t5, 9)


def test_biases_compile_without_recompiling():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    alibi, t5 = phasor.nn.AlibiBias(3), phasor.nn.T5Bias(3)
    compiled = torch.compile(lambda x: alibi(x.shape[0]) + t5(x.shape[0]) * x, backend=counter, fullgraph=True, dynamic=True)
    for length in (5, 17, 33):
        x = torch.randn(length, length)
        want = alibi(length) + t5(length) * x
        torch.testing.assert_close(compiled(x), want)
        a, b = (torch.autograd.grad(out.sin().sum(), t5.weight)[0] for out in (want, compiled(x)))
        torch.testing.assert_close(a, b)
    assert counter.frame_count == 1


def test_opcheck_accepts_the_bias_operator():
    queries, keys = torch.tensor([[0, 5, 9], [1, 2, 3]]), torch.tensor([0, 4, 8, 100])
    torch.library.opcheck(torch.ops.phasor.bias.default, (queries, keys, phasor.nn.AlibiBias(3).text, torch.float32))


def test_bad_positions_are_refused_with_words():
    module = phasor.nn.T5Bias(2)
    for queries, keys, kind, words in (
        (3, 2, ValueError, "at least as many keys"),
        (3, torch.arange(3), TypeError, "both alike"),
        (torch.arange(3), 3, TypeError, "both alike"),
        (2.5, None, TypeError, "float"),
        (torch.arange(3.0), torch.arange(3), TypeError, "float32"),
        (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(3, 3, dtype=torch.int64), ValueError, "batch rows"),
        (torch.zeros(1, 1, 3, dtype=torch.int64), torch.arange(3), ValueError, "3 axes"),
    ):
        with pytest.raises(kind, match=words):
            module(queries, keys)
    with pytest.raises(ValueError):
        phasor.nn.AlibiBias(3, slopes=(1.0, 2.0))


def test_modules_copy_and_print():
    module = phasor.nn.T5Bias(2)
    assert torch.equal(copy.deepcopy(module)(4), module(4))
    assert repr(module) == "T5Bias(heads=2, buckets=32, max_distance=128, bidirectional=True)"
    assert repr(phasor.nn.AlibiBias(2, learned=True)) == "AlibiBias(heads=2, form='symmetric', learned=True)"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_learned_slopes_of_16_bits_round_once(dtype):
    module = phasor.nn.AlibiBias(3, slopes=(0.3, 0.7, 1.1), learned=True).to(dtype)  # no powers of two: with those two roundings are one
    positions = torch.tensor([0, 257, 300, 2049, 2151])
    got = module(positions, positions, dtype)
    distances = (positions[:, None] - positions[None]).abs().double()
    assert got.dtype == dtype and torch.equal(got, (-module.slopes.double()[:, None, None] * distances).to(dtype))
    got.float().sum().backward()
    assert module.slopes.grad.dtype == dtype
