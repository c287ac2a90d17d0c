# SPDX-License-Identifier: Apache-2.0
"""Gradients of patched models are bit for bit those of the unpatched ones; where ours would differ, the model's own function runs."""

from __future__ import annotations

import copy

import pytest
import torch

import phasor.hf
from hf_zoo.compare import Count
from hf_zoo.models import build
from hf_zoo.samples import token_ids
from phasor.hf._replace import replacement
from test_hf_recognise import KNOWN, known, llama

PAIRS = [(torch.float32,) * 2, (torch.bfloat16,) * 2, (torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float64,) * 2]
BY_TABLES = [f for f, _ in KNOWN if f.__name__ not in ("separate_products", "roformer", "gptj", "in_float64")]


def swapped(*shape):
    """Random numbers as a projection leaves them: heads and tokens the other way in memory."""
    return torch.randn(shape[0], shape[2], shape[1], shape[3]).transpose(1, 2)


def after_two_steps(model, patched, step):
    """The gradients of a second step, and the calls that phasor served."""
    twin = copy.deepcopy(model)
    if patched:
        assert phasor.hf.patch(twin).rotations
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    with Count() as count:
        for _ in range(2):
            optimizer.zero_grad()
            step(twin).backward()
            optimizer.step()
    return [p.grad for p in twin.parameters() if p.grad is not None], count


def loss(model):
    return model(token_ids(), labels=token_ids()).loss


def loss_under_autocast(model):
    with torch.autocast("cpu", torch.bfloat16):
        return loss(model)


# qwen3: the gradients of q_norm and k_norm are sums over heads and tokens, whose bits depend on the order in memory.
# The others have float32 tables or arithmetic in bfloat16: their own backward rounds every product.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model_type", ["qwen3", "glm4_moe", "olmo2", "ernie4_5", "deepseek_v4"])
def test_two_training_steps_have_the_gradients_of_the_unpatched_model(model_type, dtype):
    model = build(model_type).to(dtype)
    (wanted, _), (got, count) = (after_two_steps(model, patched, loss) for patched in (False, True))
    assert count.ours + count.own >= 4 and len(got) == len(wanted) > 0
    assert count.own == 0 or dtype is torch.bfloat16
    assert all(torch.equal(a, b) for a, b in zip(got, wanted))


def test_training_under_autocast_has_the_gradients_of_the_unpatched_model():
    model = build("llama")
    (wanted, _), (got, count) = (after_two_steps(model, patched, loss_under_autocast) for patched in (False, True))
    assert count.own == 4  # bfloat16 tensors by float32 tables: PyTorch rounds each product of the backward
    assert all(torch.equal(a, b) for a, b in zip(got, wanted))


def test_checkpointed_training_has_the_gradients_of_the_unpatched_model():
    model = build("llama").train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    (wanted, _), (got, count) = (after_two_steps(model, patched, loss) for patched in (False, True))
    assert (count.ours, count.own) == (2 * 2 * 2, 0)  # two steps, two layers, each once more in the backward
    assert len(got) == len(wanted) > 0 and all(torch.equal(a, b) for a, b in zip(got, wanted))


@pytest.mark.parametrize("dtypes", PAIRS, ids=lambda pair: "-".join(str(d).removeprefix("torch.") for d in pair))
@pytest.mark.parametrize("function", BY_TABLES, ids=lambda f: f.__name__)
def test_a_replaced_function_has_the_bits_and_strides_of_the_originals_gradient(function, dtypes):
    ours = replacement(function, known(function))
    count = sum(1 for name in known(function).form.roles if name == "tensor")
    shapes = [(2, 3, 7, 12), (2, 2, 7, 12)][:count]
    given = [swapped(*shape).to(dtypes[0]).requires_grad_() for shape in shapes]
    rows = (7,) if function.__name__ in ("dinov3", "vision") else (2, 7)
    tables = [torch.randn(*rows, 12).to(dtypes[1]) for _ in range(2)]
    if function.__name__ == "vision":  # (T, H, D)
        given = [t.detach()[0].transpose(0, 1).requires_grad_() for t in given]
    if function.__name__ == "deepseek_v4":  # one value per pair
        tables = [t[..., :6] for t in tables]
    by = [torch.randn(t.transpose(-3, -2).shape).transpose(-3, -2) for t in given]  # as attention leaves them
    gradients = []
    for rotation in (function, ours):
        results = rotation(*given, *tables)
        results = (results,) if isinstance(results, torch.Tensor) else results
        gradients.append(torch.autograd.grad(results, given, [g.to(t.dtype) for g, t in zip(by, results)]))
    for got, wanted in zip(*gradients[::-1]):
        assert got.dtype == wanted.dtype and got.stride() == wanted.stride() and torch.equal(got, wanted)


def test_without_a_gradient_the_rotation_is_phasors_in_every_pair_of_dtypes():
    ours = replacement(llama, known(llama))
    for tensors, tables in PAIRS:
        q, k = (swapped(2, 3, 5, 8).to(tensors).requires_grad_() for _ in range(2))
        cos, sin = (torch.randn(2, 5, 8).to(tables) for _ in range(2))
        for enabled in (False, True):
            with Count() as count, torch.set_grad_enabled(enabled):
                ours(q, k, cos, sin)
            assert (count.ours == 1) == (not enabled or tensors == tables)
