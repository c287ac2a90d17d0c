# SPDX-License-Identifier: Apache-2.0
"""Schemes as modules: every parameter gets a gradient, compiled too; what they give is the scheme of their parameters."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import phasor
import phasor.nn as pn

H, D, T = 2, 4, 6
SEGMENTS = torch.tensor([[0, 0, 1, 1, 1, 2]])
MODULES = {
    "t5": (lambda: pn.T5Scheme(H, 8, 6), lambda module, x: module(T)),
    "wavlm": (lambda: pn.WavLMScheme(H, D, 8, 6), lambda module, x: module(x.flatten(2))),
    "alibi": (lambda: pn.AlibiScheme(H), lambda module, x: module(T)),
    "kerple": (lambda: pn.KerpleScheme(H), lambda module, x: module(T)),
    "kerple_power": (lambda: pn.KerpleScheme(H, "power"), lambda module, x: module(T)),
    "fire": (lambda: pn.FireScheme(H, 4, length=3.5), lambda module, x: module(T)),
    "learned": (lambda: pn.LearnedBiasScheme(H, 2, 1), lambda module, x: module(T)),
    "shaw": (lambda: pn.ShawScheme(D, 2, 1), lambda module, x: module(T)),
    "shaw_heads": (lambda: pn.ShawScheme(D, 2, 1, heads=H), lambda module, x: module(T)),
    "xl": (lambda: pn.TransformerXLScheme(H, D), lambda module, x: module(T)),
    "xl_conformer": (lambda: pn.TransformerXLScheme(H, D, 6, order="interleaved", clamp=3), lambda module, x: module(T, T)),
    "xlnet": (lambda: pn.XLNetScheme(H, D), lambda module, x: module(T, T, SEGMENTS)),
    "deberta": (lambda: pn.DebertaScheme(H, D, buckets=4, max_distance=6), lambda module, x: module(T)),
    "deberta_v1": (lambda: pn.DebertaScheme(H, D, buckets=0, max_distance=4, kinds=("p2c",)), lambda module, x: module(T)),
    "cope": (lambda: pn.CopeScheme(D, 3), lambda module, x: module(T)),
    "grid": (lambda: pn.GridScheme(H, (2, 3)), lambda module, x: module(T)),
    "decomposed": (lambda: pn.DecomposedScheme(D, (2, 3)), lambda module, x: module(T)),
}


def _gradients(name, module, compiled=False):
    x = torch.randn(1, T, H, D, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def attend(x):
        return phasor.attention(x, x.flip(1), x, scheme=MODULES[name][1](module, x), causal=name == "cope")

    if compiled:
        torch._dynamo.reset()
        attend = torch.compile(attend, backend="aot_eager", fullgraph=True)
    out = attend(x)
    names, parameters = zip(*module.named_parameters())
    return dict(zip(names, torch.autograd.grad(out.sin().sum(), parameters)))


@pytest.mark.parametrize("name", MODULES)
def test_every_parameter_of_every_module_learns(name):
    module = MODULES[name][0]().double()
    gradients = _gradients(name, module)
    for key, gradient in gradients.items():
        # Softmax does not see what all keys of a row have in common: q . bias of DeBERTa's keys, and FIRE's last bias.
        if key not in ("keys.bias", "out.bias"):
            assert gradient.abs().max() > 1e-12, key


@pytest.mark.parametrize("name", ["alibi", "kerple", "fire", "xlnet", "deberta", "wavlm"])
def test_modules_compile(name):
    module = MODULES[name][0]().double()
    want, got = _gradients(name, module), _gradients(name, module, True)
    assert all(torch.equal(got[key], want[key]) for key in want)


def test_t5_is_the_bias_of_its_sister():
    scheme, bias = pn.T5Scheme(H), pn.T5Bias(H)
    bias.weight = scheme.weight
    q, k, v = torch.randn(3, 1, 40, H, D).unbind()
    want = phasor.attention(q, k, v, scheme=phasor.Dense(bias(40)))
    torch.testing.assert_close(phasor.attention(q, k, v, scheme=scheme()), want, atol=1e-6, rtol=0)


def test_alibi_may_stay_as_it_is():
    fixed = pn.AlibiScheme(H, learned=False, form="causal")
    assert not list(fixed.parameters()) and repr(fixed) == "AlibiScheme(heads=2, form='causal', learned=False)"
    q, k, v = torch.randn(3, 1, 9, H, D).unbind()
    assert torch.equal(phasor.attention(q, k, v, scheme=fixed()), phasor.attention(q, k, v, scheme=phasor.Alibi(form="causal")))


def test_transformer_xl_rows_are_the_projected_sinusoids():
    scheme = pn.TransformerXLScheme(H, D, 6, clamp=2).double()
    rows = phasor.xl_sinusoids(np.arange(4, -3, -1), phasor.XlSinusoids(width=6, clamp=2), np.float64)
    want = (torch.from_numpy(rows) @ scheme.projection.weight.T).reshape(7, H, D)
    torch.testing.assert_close(scheme.rows(3, 5), want, atol=1e-15, rtol=0)
    assert scheme(3, 5).first_distance == 4


def test_deberta_says_its_scale():
    assert math.isclose(pn.DebertaScheme(H, D, buckets=4, max_distance=8).scale, (3 * D) ** -0.5, rel_tol=1e-15)
    assert math.isclose(pn.DebertaScheme(H, D, buckets=4, max_distance=8, kinds=("c2p",)).scale, (2 * D) ** -0.5, rel_tol=1e-15)
    with pytest.raises(ValueError, match="kinds"):
        pn.DebertaScheme(H, D, kinds=("p2p",))


def test_modules_copy_save_and_print():
    for make, _ in MODULES.values():
        module = make()
        twin = copy.deepcopy(module)
        twin.load_state_dict(module.state_dict())
        assert type(module).__name__ in repr(twin)
    assert repr(pn.T5Scheme(H)) == "T5Scheme(heads=2, buckets=32, max_distance=128, bidirectional=True)"
