# SPDX-License-Identifier: Apache-2.0
"""A scheme as a value: what it is of each class, that it survives its text, and that calls with equal ones share a plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import phasor
from phasor import _core
from phasor._attention import call_of, plan_of, types
from phasor._torch.attention.text import encoded, template

H, D = 4, 8
TABLE = np.zeros((H, 32), np.float32)
ROPE = phasor.Rotary(D, scaling=phasor.LinearScaling(4.0))
SCHEMES = {
    "none": None,
    "alibi": phasor.Alibi(),
    "fire": phasor.Fire(phasor.Mlp((1, H), tuple(range(2 * H)))),
    "t5": phasor.T5(TABLE, gate=np.ones((1, 3, H))),
    "learned": phasor.LearnedBias(TABLE, 30, 1),
    "shaw": phasor.Shaw(np.zeros((5, D)), np.zeros((5, D))),
    "xlnet": phasor.XLNet(phasor.TransformerXL(np.zeros((5, H, D)), 2, np.zeros((H, D)), np.zeros((H, D))), np.zeros((2, H, D)), None, [0] * 3, [1] * 3),
    "deberta": phasor.Deberta(np.zeros((512, H, D)), np.zeros((512, H, D))),
    "inkling": phasor.Inkling(torch.zeros(1, 3, H, 2), torch.zeros(2, 5)),
    "cope": phasor.Cope(np.zeros((4, D))),
    "grid": phasor.Grid(np.zeros((H, 9)), (2, 2)),
    "decomposed": phasor.Decomposed(np.zeros((3, D)), np.zeros((5, D)), (2, 3), (1, 3)),
    "dense": phasor.Dense(np.zeros((H, 3, 3))),
    "rope": phasor.Rope(ROPE, map=phasor.positions.SelfExtend(4, 2)),
    "xpos": phasor.Xpos(ROPE),
    "several": [phasor.Alibi(), phasor.Rope(ROPE, keys_rotated=True), phasor.Dense(np.zeros((1, 3, 3)))],
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_survives_its_text(name):
    scheme = phasor.scheme_of(SCHEMES[name], causal=True, heads=H, window=(9, None), softcap=2.0)
    text = phasor.spec_to_json(scheme)
    back = phasor.spec_from_json(text)
    assert back == scheme and hash(back) == hash(scheme) and phasor.spec_to_json(back) == text
    assert plan_of(scheme) is plan_of(back) and plan_of(scheme).text == text


@pytest.mark.parametrize("name", SCHEMES)
def test_operators_carry_the_same_scheme(name):
    """The text of a call, with its integers put in, is that of the scheme."""
    call = call_of(H, SCHEMES[name], True, None, {"window": 5})
    tensors, sizes, text = encoded(call)
    made = template(text, tuple(sizes))
    assert made.plan.text == plan_of(call.scheme).text
    filled = made.filled(tensors)
    assert [sorted(term) for term in filled["terms"]] == [sorted(term) for term in call.tensors["terms"]]
    assert all(isinstance(x, torch.Tensor) for term in filled["terms"] for x in term.values())


def test_parts_are_named_by_what_they_are():
    scheme = phasor.scheme_of([phasor.T5(TABLE), phasor.Rope(ROPE)], sinks=np.zeros(H), skip=False, dropout=0.5)
    assert scheme.terms == (types.BiasScheme(phasor.T5Buckets(heads=H), parameters=True),)
    assert scheme.content == types.RotaryScheme(ROPE.spec)
    assert scheme.sinks and scheme.dropout == 0.5 and scheme.mask == "full"


def test_what_is_no_scheme_is_refused_with_words():
    with pytest.raises(ValueError, match="softcap is -1"):
        _core.Attention(phasor.scheme_of(softcap=-1.0))
    with pytest.raises(TypeError, match="AttentionScheme.terms: is Alibi, wanted one of BiasScheme, TableScheme"):
        _core.Attention(phasor.AttentionScheme(terms=(phasor.Alibi(heads=2),)))
    with pytest.raises(ValueError, match='type is "Alibi", wanted AttentionScheme'):
        _core.attention_from_json(phasor.spec_to_json(phasor.Alibi(heads=2)))
    q = torch.zeros(1, 2, H, D)
    with pytest.raises(ValueError, match="wanted the text that phasor.attention makes"):
        torch.ops.phasor.attention(q, q, q, [], [], "{}")
