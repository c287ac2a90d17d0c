# SPDX-License-Identifier: Apache-2.0
"""phasor in transformers' own hook, with the package `kernels`: not collected with the other tests, because it changes all of transformers.

Run by tools/python/python_test.sh with requirements-kernels.txt beside the packages of the other tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import kernels
import pytest
import torch

import phasor.hf
from hf_zoo.compare import Count
from hf_zoo.models import build
from hf_zoo.samples import token_ids


def kernelize(model: torch.nn.Module, mapping: dict) -> None:
    with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
        kernels.kernelize(model, mode=kernels.Mode.INFERENCE, device="cpu")


@pytest.fixture
def model() -> Iterator[torch.nn.Module]:
    """A Llama; the hook is the architecture's, so it is taken away afterwards."""
    made = build("llama")
    yield made
    kernelize(made, {})


def served(model: torch.nn.Module) -> tuple[torch.Tensor, int]:
    """The logits, and the calls that phasor served."""
    with torch.no_grad(), Count() as count:
        return model(token_ids()).logits, count.ours


def test_kernels_takes_the_mapping_for_every_model_of_the_architecture(model: torch.nn.Module) -> None:
    twin = build("llama")
    wanted, ours = served(model)
    assert ours == 0
    kernelize(model, phasor.hf.kernel_mapping())
    for one in (model, model, twin):
        logits, ours = served(one)
        assert ours == 2 and torch.equal(logits, wanted)
    kernelize(model, {})
    logits, ours = served(model)
    assert ours == 0 and torch.equal(logits, wanted)


def test_a_model_that_is_compiled_first_has_its_own_bits(model: torch.nn.Module) -> None:
    wanted, _ = served(model)
    kernelize(model, phasor.hf.kernel_mapping())
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="eager")(token_ids()).logits, wanted)
    torch._dynamo.reset()
    logits, ours = served(model)
    assert ours == 2 and torch.equal(logits, wanted)


def test_a_model_whose_rotation_is_a_module_is_patched(model: torch.nn.Module) -> None:
    wanted, _ = served(model)
    assert phasor.hf.patch(model).rotations
    logits, ours = served(model)
    assert ours == 2 and torch.equal(logits, wanted)
