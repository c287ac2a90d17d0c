# SPDX-License-Identifier: Apache-2.0
"""Every rotary class of the installed SGLang, before and after its own registry of hooks has put phasor around it: the same layer, the same calls,
bits compared. Run by tools/python/sglang_test.sh; not collected by make test."""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil

import absent  # noqa: F401  before SGLang
import phasor_sglang
import pytest
import torch
from sglang.srt.plugins.hook_registry import HookRegistry

PACKAGE = importlib.import_module(phasor_sglang.PACKAGE)
MODULES = [importlib.import_module(f"{PACKAGE.__name__}.{info.name}") for info in pkgutil.iter_modules(PACKAGE.__path__)]
OWN = {name: thing for m in MODULES for name, thing in vars(m).items() if isinstance(thing, type) and thing.__module__ == m.__name__}
F32 = torch.float32
PLAIN = (24, 16, 300, 10000)  # head_size, rotary_dim, positions, base
YARN = (24, 16, 75, 10000)
SECTIONS = {"mrope_section": [2, 3, 3]}

# Arguments of each class that is turned by phasor: of the style (neox or not) and the dtype.
TURNED = {
    "RotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), {}),
    "LinearScalingRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 4.0, t), {}),
    "DynamicNTKScalingRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 2.0, t), {}),
    "DynamicNTKAlphaRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 6.0, t), {}),
    "YaRNScalingRotaryEmbedding": lambda neox, t: ((*YARN, neox, 4.0, t), {"truncate": neox}),
    "Llama3RotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t, 8.0, 1.0, 4.0, 64), {}),
    "Gemma4RotaryEmbedding": lambda neox, t: ((24, 10, 300, 10000, neox, t), {}),
    "DeepseekScalingRotaryEmbedding": lambda neox, t: ((*YARN, neox, 4.0, t), {"mscale": 0.707, "mscale_all_dim": 1.0, "device": "cpu"}),
    "MRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), SECTIONS | {"mrope_interleaved": not neox}),
    "YaRNScalingMRotaryEmbedding": lambda neox, t: ((*YARN, neox, 4.0, t), SECTIONS),
}
# SGLang's own DeepSeek has results of another shape for half pairs, or fails: models have interleaved ones.
CASES = [(name, neox) for name in TURNED for neox in (True, False) if not (neox and name.startswith("Deepseek"))]
# Classes that are left to SGLang: docs/vllm.md says so, too.
LEFT = {
    "Phi3LongRoPEScaledRotaryEmbedding", "FourierRotaryEmbedding", "Llama4VisionRotaryEmbedding", "DualChunkRotaryEmbedding",
    "Ernie4_5_VLRotaryEmbedding", "BailingMRotaryEmbedding",
}  # fmt: skip


def test_every_class_of_sglang_is_known():
    assert {n for n in OWN if n.endswith("RotaryEmbedding")} == set(TURNED) | LEFT


def test_methods_to_go_around_are_there_with_the_arguments_we_pass():
    for module, cls, method in phasor_sglang.HOOKS:
        own = getattr(importlib.import_module(f"{PACKAGE.__name__}.{module}"), cls)
        assert list(inspect.signature(own.__dict__[method]).parameters)[:4] == ["self", "positions", "query", "key"]


@pytest.fixture
def hooked(monkeypatch):
    """Hooks applied by SGLang's registry, in `hooked(profile)`, and taken away after the test."""
    methods = [(getattr(importlib.import_module(f"{PACKAGE.__name__}.{m}"), c), name) for m, c, name in phasor_sglang.HOOKS]
    kept = [own.__dict__[name] for own, name in methods]

    def apply(profile):
        monkeypatch.setenv(phasor_sglang.VARIABLE, profile)
        phasor_sglang.calls.clear()
        phasor_sglang.register()
        HookRegistry.apply_hooks()
        assert all(own.__dict__[name] is not before for (own, name), before in zip(methods, kept))

    yield apply
    for (own, name), before in zip(methods, kept):
        setattr(own, name, before)
    HookRegistry.reset()


def made(name, neox=True, dtype=F32):
    args, named = TURNED[name](neox, dtype)
    layer = OWN[name](*args, **named)
    generator = torch.Generator().manual_seed(3)
    axes = (3, 7) if name.endswith("MRotaryEmbedding") else (7,)
    positions = torch.randint(0, 250, axes, generator=generator)
    shapes = [(7, h, 24) if name.startswith("Deepseek") else (7, 24 * h) for h in (3, 1)]
    return layer, positions, *(torch.randn(s, generator=generator).to(dtype) for s in shapes)


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16])
@pytest.mark.parametrize("name, neox", CASES)
def test_same_bits_as_sglang(hooked, name, neox, dtype):
    """By the layer's own choice of a forward, and by each that runs on a CPU without AMX."""
    layer, positions, q, k = made(name, neox, dtype)
    call = {"forward": layer, "forward_native": layer.forward_native, "forward_cpu": layer.forward_cpu}
    wanted = {n: [t.clone() for t in f(positions, q.clone(), k.clone())] for n, f in call.items()}
    hooked("sglang")
    layer, positions, q, k = made(name, neox, dtype)
    for method, want in wanted.items():
        kept = q.clone()
        got = getattr(layer, method)(positions, q, k)
        assert all(g.shape == w.shape and g.dtype == w.dtype and torch.equal(g, w) for g, w in zip(got, want))
        assert torch.equal(q, kept)
    assert phasor_sglang.calls[name] >= len(wanted)  # one forward may call another


@pytest.mark.parametrize("name", TURNED)
def test_exact_is_near_sglang_where_its_table_is_good(hooked, name):
    layer, positions, q, k = made(name, False)
    wanted = layer(positions, q.clone(), k.clone())
    hooked("exact")
    got = made(name, False)[0](positions, q, k)  # a layer chooses its forward at its first call
    assert phasor_sglang.calls[name] == 1
    assert all(0 < (g - w).abs().max() < 1e-4 for g, w in zip(got, wanted))  # a float32 angle at position 250 is off by some 1e-5


def test_offsets_and_layers_of_another_formula_stay(hooked, caplog):
    class YaRNScalingRotaryEmbedding(OWN["YaRNScalingRotaryEmbedding"]):
        def _compute_inv_freq(self, scaling_factor):
            return super()._compute_inv_freq(scaling_factor) * 1.01

    args, _ = TURNED["YaRNScalingRotaryEmbedding"](True, F32)
    layer, positions, q, k = made("RotaryEmbedding")

    def both():
        return layer.forward_native(positions, q, k, torch.ones_like(positions)), YaRNScalingRotaryEmbedding(*args)(positions, q, k)

    wanted = both()
    hooked("exact")
    with caplog.at_level(logging.WARNING, "sglang.phasor"):
        got = both()
    assert all(torch.equal(a, b) for g, w in zip(got, wanted) for a, b in zip(g, w))
    assert not phasor_sglang.calls and "YaRNScalingRotaryEmbedding is left to SGLang: its cosine" in caplog.text


def test_longer_tables_are_followed(hooked):
    """SGLang lengthens a table when a longer context comes: rows are the layer's of that moment, and exact angles need none."""
    layer, *_ = made("RotaryEmbedding")
    q = torch.randn(1, 24, generator=torch.Generator().manual_seed(1))
    at = torch.tensor([500])
    hooked("sglang")
    layer(torch.tensor([1]), q, q)
    layer._ensure_cos_sin_cache_length(600)
    cos, sin = layer.cos_sin_cache[500].chunk(2)
    a, b = q[0, :8], q[0, 8:16]
    assert torch.equal(layer(at, q, q)[0][0], torch.cat((a * cos - b * sin, b * cos + a * sin, q[0, 16:])))


def test_what_sglang_does_with_a_wrong_profile(monkeypatch, caplog):
    """Its loader finds the plugin by its entry point, writes what that raised into the log, and goes on with its own layers."""
    from sglang.srt import plugins

    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    monkeypatch.setenv(phasor_sglang.VARIABLE, "precise")
    before = OWN["RotaryEmbedding"].forward_native
    with caplog.at_level(logging.ERROR, "sglang"):
        plugins.load_plugins()
    assert "Failed to execute general plugin: phasor" in caplog.text and "PHASOR_SGLANG_PROFILE: is 'precise'" in caplog.text
    assert OWN["RotaryEmbedding"].forward_native is before
