# SPDX-License-Identifier: Apache-2.0
"""Patched models in the hands of other tools: torch.export, torch.compile, pickle, the meta device, and what patch does when it fails."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import phasor.hf  # noqa: E402
from hf_zoo.models import build  # noqa: E402
from hf_zoo.samples import token_ids  # noqa: E402


class Logits(torch.nn.Module):
    """A model as export wants it: tensors in, a tensor out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


@pytest.mark.parametrize("strict", [False, True])
def test_a_patched_model_is_exported_with_a_length_that_may_change(strict):
    model = build("llama")
    assert phasor.hf.patch(model)
    with torch.no_grad():
        tokens = torch.export.Dim("tokens", min=2, max=64)
        program = torch.export.export(Logits(model), (token_ids(),), dynamic_shapes=({1: tokens},), strict=strict)
        assert "phasor.rotary_tables" in str(program.graph)
        for length in (9, 17):
            ids = token_ids(tokens=length)
            assert torch.equal(program.module()(ids), model(ids, use_cache=False).logits)
