# SPDX-License-Identifier: Apache-2.0
"""transformers' own hook for rotations: functions that it has made modules of, and phasor as a kernel mapping."""

from __future__ import annotations

import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor.hf
from hf_zoo.compare import Count
from phasor.hf._hook import PhasorRepository, PhasorRotation
from test_hf_first_calls import halves, module_of, other, plain, same, tensors


class Func(torch.nn.Module):
    """A function as `kernels` wraps it: called like the function, its forward may be replaced."""

    kernel_layer_name = "rotary_pos_emb"

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return q * cos + halves(q) * sin, k * cos + halves(k) * sin


def batched(tokens=6, width=8):
    q, k, cos, sin = tensors(tokens, width)
    return q, k, cos[None], sin[None]


def test_a_rotation_that_is_a_module_is_patched():
    function = Func()
    module = module_of(function)
    report = phasor.hf.patch(module)
    assert [entry.what for entry in report.rotations] == ["rotary"]
    wanted = function(*batched())
    for _ in range(2):
        with Count() as count:
            assert same(module(*batched()), wanted)
        assert count.ours == 1


def kernelized(function):
    """What kernels.kernelize does with a mapping."""
    layer = PhasorRepository().load()
    function.forward = layer.forward.__get__(function)
    return function


def test_the_layer_of_the_mapping_has_the_bits_of_the_function_it_replaces():
    own, function = Func(), kernelized(Func())
    for args in (batched(), batched(), batched(40, 64)):
        with Count() as count:
            assert same(function(*args), own(*args))
        assert count.ours == 1
    q, k, cos, sin = batched()
    q, k = q.transpose(1, 2), k.transpose(1, 2)
    assert same(function(q, k, cos, sin, unsqueeze_dim=2), own(q, k, cos, sin, unsqueeze_dim=2))
    first, second = (f(*(t.clone().requires_grad_(i < 2) for i, t in enumerate(batched()))) for f in (own, function))
    assert second[0].requires_grad and same(first, second)


def test_a_function_that_is_no_rotation_stays_its_own_under_the_mapping():
    class Odd(Func):
        def forward(self, q, k, cos, sin, unsqueeze_dim=1):
            return other(q, k, cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim))

    with Count() as count:
        assert same(kernelized(Odd())(*batched()), Odd()(*batched()))
    assert count.ours == 0
    assert not same(Odd()(*batched()), plain(*tensors()))


def served(function, *args):
    """Whether phasor serves the call."""
    with Count() as count:
        assert same(function(*args), Func()(*args))
    return count.ours == 1


def test_a_first_call_that_is_compiled_tries_nothing_out():
    function = kernelized(Func())
    assert same(torch.compile(function, backend="eager", fullgraph=True)(*batched()), Func()(*batched()))
    torch._dynamo.reset()
    assert served(function, *batched())


def test_a_first_call_of_fake_tensors_tries_nothing_out():
    function = kernelized(Func())
    with FakeTensorMode() as mode:
        assert function(*(mode.from_tensor(t) for t in batched()))[0].shape == batched()[0].shape
    assert served(function, *batched())


def test_a_first_call_in_inference_mode_finds_the_gradients_too():
    function = kernelized(Func())
    with torch.inference_mode():
        assert served(function, *batched())
    q, k, *tables = batched()
    assert served(function, q.requires_grad_(), k.requires_grad_(), *tables)


def test_the_layer_is_such_as_kernels_takes():
    """What its validation asks for: no constructor, no members of its own, as many parameters as the function."""
    import inspect

    assert PhasorRotation.__init__ is torch.nn.Module.__init__
    assert set(dir(PhasorRotation)) - set(dir(torch.nn.Module)) <= {"can_torch_compile", "has_backward"}
    kinds = [[p.kind for p in inspect.signature(layer.forward).parameters.values()] for layer in (PhasorRotation, Func)]
    assert kinds[0] == kinds[1]


def test_without_kernels_the_mapping_asks_for_it_with_words(monkeypatch):
    """With it: kernels_hook.py."""
    monkeypatch.setitem(sys.modules, "kernels", None)
    with pytest.raises(ImportError, match="pip install kernels"):
        phasor.hf.kernel_mapping()
