# SPDX-License-Identifier: Apache-2.0
"""phasor-sglang on stand-ins: modules, classes, methods and the order of their arguments are those of SGLang 0.5.23 (facts); nothing else is.
SGLang itself is in the folder sglang, by make test-engines; its forwards for CUDA are tried here alone."""

from __future__ import annotations

import enum
import importlib
import logging
import sys
import types
from pathlib import Path

import pytest
import stand_ins
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "adapters/sglang"))
import phasor_sglang  # noqa: E402

PACKAGE = "sglang.srt.layers.rotary_embedding"


def rotary_class(name, bases, methods, **attributes):
    """A class whose methods only say that they were called: (self, positions, query, key, ...)."""

    def method(which):
        def call(self, positions, query, key, offsets=None, fused_set_kv_buffer_arg=None):
            return ("own", which, offsets, fused_set_kv_buffer_arg)

        return call

    return type(name, bases, {**{m: method(m) for m in methods}, **attributes})


@pytest.fixture
def sglang(monkeypatch):
    """SGLang as far as the plugin sees it; `apply` does what its registry does with hooks around a method."""
    hook_type = enum.Enum("HookType", {"BEFORE": "before", "AFTER": "after", "AROUND": "around", "REPLACE": "replace"})
    registered = {}

    class HookRegistry:
        @classmethod
        def register(cls, target, hook, hook_type=hook_type.AFTER, *, source=None):
            registered[target] = (hook, hook_type)

    base = rotary_class("RotaryEmbedding", (types.SimpleNamespace,), ("forward_native", "forward_cpu", "forward_cuda"))
    mrope = rotary_class("MRotaryEmbedding", (base,), ("forward_native", "forward_cpu", "forward_cuda"))
    deepseek = rotary_class("DeepseekScalingRotaryEmbedding", (base,), ("forward_native", "forward_cpu"))
    llama3 = type("Llama3RotaryEmbedding", (base,), {})
    modules = {
        "sglang": {"__version__": "0.5.23"},
        "sglang.srt": {}, "sglang.srt.layers": {}, "sglang.srt.plugins": {},
        "sglang.srt.plugins.hook_registry": {"HookRegistry": HookRegistry, "HookType": hook_type},
        PACKAGE: {}, f"{PACKAGE}.base": {"RotaryEmbedding": base}, f"{PACKAGE}.mrope": {"MRotaryEmbedding": mrope},
        f"{PACKAGE}.rope_variant": {"DeepseekScalingRotaryEmbedding": deepseek, "Llama3RotaryEmbedding": llama3},
    }  # fmt: skip
    for name, members in modules.items():
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)

    def apply():
        for target, (hook, kind) in registered.items():
            module, cls, method = target.rsplit(".", 2)
            owner = getattr(importlib.import_module(module), cls)
            original = owner.__dict__[method]  # the class has the method itself, else the target would be another
            assert kind is hook_type.AROUND
            setattr(owner, method, lambda *a, hook=hook, original=original, **n: hook(original, *a, **n))

    found = {c.__name__: c for c in (base, mrope, deepseek, llama3)}
    return types.SimpleNamespace(registered=registered, apply=apply, classes=found, module=sys.modules["sglang"])


def layer_of(sglang, name, made):
    return sglang.classes[name](**vars(made))


def test_every_method_is_gone_around_and_gives_the_table_or_the_truth(sglang, monkeypatch):
    for profile in ("sglang", "exact"):
        monkeypatch.setenv(phasor_sglang.VARIABLE, profile)
        sglang.registered.clear()
        phasor_sglang.register()
        assert len(sglang.registered) == len(phasor_sglang.HOOKS) == 8
    phasor_sglang.calls.clear()
    sglang.apply()
    known = stand_ins.known()
    positions = torch.tensor([4, 0, 130])
    for name, kind in (("RotaryEmbedding", "plain"), ("Llama3RotaryEmbedding", "llama 3"), ("MRotaryEmbedding", "m-rope")):
        layer = layer_of(sglang, name, known[kind])
        q, k = torch.randn(3, 72), torch.randn(3, 24)
        kept = q.clone()
        new = layer.forward_native(positions, q, k)
        assert torch.equal(q, kept) and not torch.equal(new[0], q)
        same = layer.forward_cuda(positions, q, k)
        assert same[0] is q and torch.equal(q, new[0]) and torch.equal(k, new[1])
    apart = layer_of(sglang, "DeepseekScalingRotaryEmbedding", known["deepseek"])
    q = torch.randn(3, 2, 24)
    assert apart.forward_cpu(positions, q, q[:, :1])[0].shape == (3, 2, 24)
    assert phasor_sglang.calls == {"RotaryEmbedding": 2, "Llama3RotaryEmbedding": 2, "MRotaryEmbedding": 2, "DeepseekScalingRotaryEmbedding": 1}


def test_calls_that_ask_for_more_and_layers_that_are_unlike_stay(sglang, caplog):
    phasor_sglang.register()
    sglang.apply()
    layer = layer_of(sglang, "RotaryEmbedding", stand_ins.plain())
    q = torch.randn(1, 24)
    at = torch.tensor([0])
    assert layer.forward_cuda(at, q, q, fused_set_kv_buffer_arg="cache") == ("own", "forward_cuda", None, "cache")
    assert layer.forward_native(at, q, q, at) == ("own", "forward_native", at, None)
    glm = layer_of(sglang, "MRotaryEmbedding", stand_ins.known()["m-rope"])
    glm.mrope_interleaved_glm = True
    with caplog.at_level(logging.WARNING, "sglang.phasor"):
        assert glm.forward_cpu(at, q, q)[0] == "own"
    assert "MRotaryEmbedding is left to SGLang: GLM's order of axes" in caplog.text


@pytest.mark.parametrize("version", ["0.4.9", "0.6.0", "1.0.0", "dev"])
def test_unknown_version_stays_with_a_warning(sglang, caplog, version):
    sglang.module.__version__ = version
    with caplog.at_level(logging.WARNING, "sglang.phasor"):
        phasor_sglang.register()
    assert not sglang.registered
    assert f"SGLang is {version}, wanted 0.5.20 to 0.6.0 (exclusive); its own rotary layers stay" in caplog.text


def test_wrong_profile_is_an_error(sglang, monkeypatch):
    monkeypatch.setenv(phasor_sglang.VARIABLE, "precise")
    with pytest.raises(ValueError, match="PHASOR_SGLANG_PROFILE: is 'precise', wanted 'sglang' .* or 'exact'"):
        phasor_sglang.register()
