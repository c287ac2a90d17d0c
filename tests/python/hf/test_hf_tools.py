# SPDX-License-Identifier: Apache-2.0
"""Patched models in the hands of other tools: torch.export, torch.compile, pickle, the meta device, and what patch does when it fails."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import phasor.hf
from hf_zoo.compare import Count, state
from hf_zoo.models import build
from hf_zoo.samples import token_ids
from phasor.hf import _exact
from test_hf_patch import Held, Static


class Logits(torch.nn.Module):
    """A model as export wants it: tensors in, a tensor out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


@pytest.mark.parametrize("strict, numerics", [(False, "model"), (True, "model"), (False, "exact")])
def test_a_patched_model_is_exported_with_a_length_that_may_change(strict, numerics):
    model = build("llama")
    assert phasor.hf.patch(model, numerics=numerics)
    with torch.no_grad():
        tokens = torch.export.Dim("tokens", min=2, max=64)
        program = torch.export.export(Logits(model), (token_ids(),), dynamic_shapes=({1: tokens},), strict=strict)
        assert "phasor.rotary_tables" in str(program.graph) and ("phasor_hf.cos_sin" in str(program.graph)) == (numerics == "exact")
        for length in (9, 17):
            ids = token_ids(tokens=length)
            assert torch.equal(program.module()(ids), model(ids, use_cache=False).logits)


@pytest.mark.parametrize("rope", ["default", "yarn"])
def test_exact_tables_are_in_one_graph_of_a_compiled_model(rope):
    model = build("llama")
    if rope == "yarn":
        model.config.rope_parameters = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
        model = type(model)(model.config).eval()
    assert phasor.hf.patch(model, numerics="exact").tables
    with torch.no_grad():
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
        for length in (9, 12, 17):
            ids, far = token_ids(1, length), torch.arange(1_000_003, 1_000_003 + length)[None]
            assert torch.equal(compiled(ids, position_ids=far).logits, model(ids, position_ids=far).logits)
    torch._dynamo.reset()


def test_a_compiled_graph_follows_frequencies_that_change_afterwards():
    model = build("llama")
    phasor.hf.patch(model, numerics="exact")
    with torch.no_grad():
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        first = compiled(token_ids()).logits
        next(m for m in model.modules() if _exact.is_rotary_embedding(m)).inv_freq.mul_(0.5)
        second = compiled(token_ids()).logits
        assert torch.equal(second, model(token_ids()).logits) and not torch.equal(first, second)
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", [Held, Static], ids=lambda k: k.__name__)
def test_a_pickle_of_a_function_that_is_held_is_the_models_own(kind):
    module = kind()
    assert phasor.hf.patch(module).rotations
    loaded = pickle.loads(pickle.dumps(module))
    given = torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 8), torch.randn(5, 8), torch.randn(5, 8)
    for one, ours in ((module, 1), (copy.deepcopy(module), 1), (loaded, 0)):
        with Count() as count:
            got = one(*given)
        assert count.ours == ours and all(torch.equal(a, b) for a, b in zip(got, kind()(*given)))
    assert phasor.hf.patch(loaded).rotations
    assert phasor.hf.unpatch(loaded) == 1


def test_a_patched_roformer_whose_rotation_is_a_static_method_can_be_pickled_and_is_wrapped_once():
    model = build("roformer")
    phasor.hf.patch(model)
    loaded = pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        with Count() as count:
            wanted = model(token_ids()).logits
        assert (count.ours, count.own) == (2, 0)
        with Count() as count:
            assert torch.equal(loaded(token_ids()).logits, wanted)
        assert (count.ours, count.own) == (0, 0)


def test_a_model_whose_tables_cannot_be_patched_is_left_as_it_was(monkeypatch):
    model = build("llama")
    before = state(model)
    monkeypatch.setattr(_exact, "find_layout", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        phasor.hf.patch(model, numerics="exact")
    assert state(model) == before


def test_a_model_on_the_meta_device_says_that_it_has_no_numbers():
    with torch.device("meta"):
        model = type(build("llama"))(build("llama").config)
    report = phasor.hf.patch(model, numerics="exact")
    assert "meta device" in report.left[0].how and not report.tables
    assert model(token_ids().to("meta")).logits.is_meta


@pytest.mark.parametrize("numerics", ["model", "exact"])
def test_a_patched_model_that_moves_to_the_meta_device_runs_there(numerics):
    model = build("llama")
    phasor.hf.patch(model, numerics=numerics)
    model = model.to("meta")
    with Count() as count:
        assert model(token_ids().to("meta")).logits.is_meta
    assert count.ours == 0
