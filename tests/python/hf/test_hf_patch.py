# SPDX-License-Identifier: Apache-2.0
"""phasor.hf.patch on whole models: bits, gradients, generation, one model at a time, and everything back afterwards."""

from __future__ import annotations

import copy
import functools
import pickle
import types

import pytest
import torch

import phasor.hf
from hf_zoo.compare import Count, state
from hf_zoo.models import build
from hf_zoo.samples import token_ids


def llama(dtype=torch.float32, seed=0):
    return build("llama", seed).to(dtype)


def logits(model):
    with torch.no_grad():
        return model(token_ids()).logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_logits_stay_bit_for_bit(dtype):
    model = llama(dtype)
    before = logits(model)
    phasor.hf.patch(model)
    with Count() as count:
        after = logits(model)
    assert (count.ours, count.own) == (2, 0)
    assert torch.equal(before, after)


def test_another_model_of_the_class_stays_as_it_is():
    one, other = llama(), llama(seed=1)
    phasor.hf.patch(one)
    with Count() as count:
        logits(other)
    assert (count.ours, count.own) == (0, 0)
    import transformers.models.llama.modeling_llama as module

    assert not hasattr(module.apply_rotary_pos_emb, "phasor_rotation")


@pytest.mark.parametrize("numerics", ["model", "exact"])
def test_unpatch_restores_every_attribute(numerics):
    model = llama()
    before = state(model)
    phasor.hf.patch(model, numerics=numerics)
    assert state(model) != before
    assert phasor.hf.unpatch(model) == (2 if numerics == "model" else 3)
    assert state(model) == before
    assert phasor.hf.unpatch(model) == 0


def test_patching_twice_is_patching_once():
    model = llama()
    before = state(model)
    phasor.hf.patch(model, numerics="exact")
    report = phasor.hf.patch(model)
    assert report.tables == [] and [e.modules for e in report.rotations] == [2]
    phasor.hf.unpatch(model)
    assert state(model) == before


def test_a_copy_of_a_patched_model_is_patched_and_on_its_own():
    model = llama()
    wanted = logits(model)
    phasor.hf.patch(model)
    twin = copy.deepcopy(model)
    phasor.hf.unpatch(model)
    with Count() as count:
        got = logits(twin)
    assert count.ours == 2 and torch.equal(got, wanted)
    assert twin.model.layers[0].self_attn.forward.__self__ is twin.model.layers[0].self_attn
    assert phasor.hf.unpatch(twin) == 2


def test_a_pickle_of_a_patched_model_loads_as_the_unpatched_one():
    model = llama()
    wanted = logits(model)
    phasor.hf.patch(model, numerics="exact")
    loaded = pickle.loads(pickle.dumps(model))
    with Count() as count:
        assert torch.equal(logits(loaded), wanted)
    assert count.ours == 0
    assert phasor.hf.patch(loaded)
    with Count() as count:
        assert torch.equal(logits(loaded), wanted)
    assert count.ours == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("numerics", ["model", "exact"])
def test_generation_with_a_cache_gives_the_same_tokens(dtype, numerics):
    model = llama(dtype)
    ask = functools.partial(model.generate, token_ids(), max_new_tokens=12, do_sample=False, pad_token_id=0)
    wanted = ask()
    phasor.hf.patch(model, numerics=numerics)
    with Count() as count:
        assert torch.equal(ask(), wanted)
    assert count.ours == 2 * 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model_type", ["llama", "deepseek_v3", "glm", "cohere", "gptj"])
def test_training_steps_give_the_same_gradients(model_type, dtype):
    model = build(model_type).to(dtype)

    def steps():
        twin = copy.deepcopy(model)
        if patched:
            phasor.hf.patch(twin)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            twin(token_ids(), labels=token_ids()).loss.backward()
            optimizer.step()
        return [p.grad for p in twin.parameters() if p.grad is not None]

    patched = False
    wanted = steps()
    patched = True
    with Count() as count:
        got = steps()
    assert count.ours >= 4 and len(got) == len(wanted) > 0
    assert all(torch.equal(a, b) for a, b in zip(got, wanted))


def test_a_compiled_patched_model_agrees_with_the_eager_one_at_every_length():
    model = llama()
    phasor.hf.patch(model)
    ids = [token_ids(tokens=n) for n in (9, 12, 17)]
    with torch.no_grad():
        wanted = [model(i).logits for i in ids]
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
        got = [compiled(i).logits for i in ids]
    torch._dynamo.reset()
    assert all(torch.equal(a, b) for a, b in zip(got, wanted))


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="numerics is 'approximate', wanted one of"):
        phasor.hf.patch(llama(), numerics="approximate")
    with pytest.raises(TypeError, match="model is int, wanted a torch.nn.Module"):
        phasor.hf.patch(3)


def test_a_model_without_rotation_says_so():
    report = phasor.hf.patch(torch.nn.Linear(2, 2))
    assert not report and "nothing in this model rotates" in str(report)
    with pytest.raises(ValueError, match="strict"):
        phasor.hf.patch(torch.nn.Linear(2, 2), strict=True)


# ---- Shapes of code that transformers has, or may have: in small ----


def halves(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def rotate_by_tables(q, k, cos, sin):
    return q * cos + halves(q) * sin, k * cos + halves(k) * sin


def helper_that_rotates(q, k, tables):
    return rotate_by_tables(q, k, *tables)


def rotary_by_positions(x, positions):
    return x * positions


def decorated(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    return wrapper


class Plain(torch.nn.Module):
    def forward(self, q, k, cos, sin):
        return rotate_by_tables(q, k, cos, sin)


class Decorated(torch.nn.Module):
    @torch.no_grad()
    @decorated
    def forward(self, q, k, cos, sin):
        return rotate_by_tables(q, k, cos, sin)


class ByHelper(torch.nn.Module):
    def forward(self, q, k, cos, sin):
        return helper_that_rotates(q, k, (cos, sin))


class ByMethod(torch.nn.Module):
    def turn(self, q, k, cos, sin):
        return rotate_by_tables(q, k, cos, sin)

    def forward(self, q, k, cos, sin):
        return self.turn(q, k, cos, sin)


class InClosure(torch.nn.Module):
    def forward(self, q, k, cos, sin):
        turn = lambda q, k: rotate_by_tables(q, k, cos, sin)  # noqa: E731  nested code, as list comprehensions have
        return turn(q, k)


class Static(torch.nn.Module):
    @staticmethod
    def apply_rotary(q, k, cos, sin):
        return q * cos + halves(q) * sin, k * cos + halves(k) * sin

    def forward(self, q, k, cos, sin):
        return self.apply_rotary(q, k, cos, sin)


class Bound(torch.nn.Module):
    def apply_rotary(self, q, k, cos, sin):
        return q * cos + halves(q) * sin, k * cos + halves(k) * sin

    def forward(self, q, k, cos, sin):
        return self.apply_rotary(q, k, cos, sin)


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary_fn = rotate_by_tables

    def forward(self, q, k, cos, sin):
        return self.rotary_fn(q, k, cos, sin)


@pytest.mark.parametrize("kind", [Plain, Decorated, ByHelper, ByMethod, InClosure, Static, Bound, Held], ids=lambda k: k.__name__)
def test_a_rotation_is_found_wherever_it_is_called_from(kind):
    module = kind()
    q, k, cos, sin = torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 8), torch.randn(5, 8), torch.randn(5, 8)
    wanted = module(q, k, cos, sin)
    before = state(module)
    assert phasor.hf.patch(module).rotations
    twin = copy.deepcopy(module)
    for one in (module, twin):
        with Count() as count:
            got = one(q, k, cos, sin)
        assert count.ours == 1 and all(torch.equal(a, b) for a, b in zip(got, wanted))
    phasor.hf.unpatch(module)
    assert state(module) == before
    with Count() as count:
        module(q, k, cos, sin)
    assert count.ours == 0


def test_a_method_that_a_hook_keeps_is_patched_where_it_is_kept():
    module = Plain()
    module._old_forward = module.forward  # as accelerate does
    module.forward = functools.partial(lambda self, *args: self._old_forward(*args), module)
    before = state(module)
    assert phasor.hf.patch(module).rotations
    with Count() as count:
        module(torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8), torch.randn(5, 8), torch.randn(5, 8))
    assert count.ours == 1
    phasor.hf.unpatch(module)
    assert state(module) == before


def test_a_forward_that_is_not_the_classes_is_left_and_reported():
    module = Plain()
    module.forward = types.MethodType(lambda self, *args: args[:2], module)
    report = phasor.hf.patch(module)
    assert not report.rotations and "method of its own" in report.left[0].how


def test_a_rotation_by_positions_is_left_and_reported():
    class ByPositions(torch.nn.Module):
        def forward(self, x, positions):
            return rotary_by_positions(x, positions)

    report = phasor.hf.patch(ByPositions())
    assert not report and report.left[0].what == "rotary_by_positions" and "makes its own" in report.left[0].how


def test_a_rotation_reached_by_super_is_left_and_reported():
    class Derived(Plain):
        def forward(self, q, k, cos, sin):
            return super().forward(q, k, cos, sin)

    report = phasor.hf.patch(Derived())
    assert not report and "super()" in report.left[0].how
