# SPDX-License-Identifier: Apache-2.0
"""numerics="exact": tables of the true angles in every layout, what depends on the length kept; and exact initialisers by register."""

from __future__ import annotations

import mpmath
import pytest
import torch
import transformers

import phasor.hf
from hf_zoo.models import build
from hf_zoo.samples import token_ids
from hf_zoo.shrink import shrink
from phasor.hf import _exact
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FAR = 1_000_003


def llama(**rope):
    config = shrink(transformers.LlamaConfig)
    config.max_position_embeddings = 16
    if rope:
        config.rope_parameters = {"rope_theta": 10000.0, **rope}
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def true_tables(positions, width, base, scaling=1.0):
    """float64 cosines and sines by mpmath, (1, T, width)."""
    with mpmath.workdps(40):
        frequencies = [mpmath.power(base, -mpmath.mpf(2 * i) / width) for i in range(width // 2)]
        angles = [[f * int(p) for f in frequencies * 2] for p in positions]
        cos, sin = ([[float(fn(a) * scaling) for a in row] for row in angles] for fn in (mpmath.cos, mpmath.sin))
    return torch.tensor(cos, dtype=torch.float64)[None], torch.tensor(sin, dtype=torch.float64)[None]


def rotary(model):
    return next(m for m in model.modules() if _exact.is_rotary_embedding(m))


def test_far_positions_are_closer_to_a_float64_run_of_the_model():
    model = llama()
    ids, positions = token_ids(1), torch.arange(FAR, FAR + 9)[None]
    reference = llama().double()
    cos, sin = true_tables(positions[0], 16, 10000)
    rotary(reference).forward = lambda x, position_ids: (cos, sin)
    with torch.no_grad():
        wanted = reference(ids, position_ids=positions).logits
        plain = (model(ids, position_ids=positions).logits - wanted).abs().max()
        phasor.hf.patch(model, numerics="exact")
        exact = (model(ids, position_ids=positions).logits - wanted).abs().max()
    print(f"error of the logits at position {FAR}: {plain:.2e} unpatched, {exact:.2e} exact")
    assert exact < 1e-6 and exact < plain / 50


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 2.0**-25), (torch.float64, 2.0**-53), (torch.bfloat16, 2.0**-9 + 2.0**-25)])
def test_tables_are_the_nearest_numbers_at_far_positions(dtype, limit):
    model = llama()
    assert phasor.hf.patch(model, numerics="exact").tables[0].how == "frequencies of the config"
    positions = torch.tensor([[0, 1, 4095, 4096, FAR, 2**40 + 1]])
    for got, wanted in zip(rotary(model)(torch.zeros(1, 6, 4, dtype=dtype), positions), true_tables(positions[0], 16, 10000)):
        assert got.dtype == dtype and got.shape == wanted.shape
        assert (got.double() - wanted).abs().max() <= limit


def test_every_batch_row_has_its_own_positions():
    model = llama()
    phasor.hf.patch(model, numerics="exact")
    positions = torch.tensor([[3, 1, 2], [70, 0, 9]])
    cos, _ = rotary(model)(torch.zeros(2, 3, 4), positions)
    for row in range(2):
        assert (cos[row].double() - true_tables(positions[row], 16, 10000)[0][0]).abs().max() <= 2.0**-25


def close(model, lengths, tolerance=2e-5):
    """Patched and unpatched tables agree over a sequence of lengths; the largest cosine seen."""
    plain, amplitude = llama_like(model), 0.0
    assert [e.how for e in phasor.hf.patch(model, numerics="exact").tables] == ["frequencies of the config"]
    for length in lengths:
        positions = torch.arange(length)[None]
        theirs, ours = (rotary(m)(torch.zeros(1, length, 4), positions) for m in (plain, model))
        assert max((a - b).abs().max() for a, b in zip(ours, theirs)) < tolerance
        amplitude = max(amplitude, float(ours[0].abs().max()))
    return amplitude


def llama_like(model):
    torch.manual_seed(0)
    return type(model)(model.config).eval()


def test_dynamic_ntk_follows_the_length_as_the_model_does():
    model = llama(rope_type="dynamic", factor=4.0)
    close(model, [8, 40, 64, 10])
    long = rotary(model)(torch.zeros(1, 64, 4), torch.arange(64)[None])[0]
    phasor.hf.unpatch(model)
    unscaled = llama()
    assert (long - rotary(unscaled)(torch.zeros(1, 64, 4), torch.arange(64)[None])[0]).abs().max() > 0.1


def test_a_model_that_has_seen_long_inputs_can_still_be_patched():
    model = llama(rope_type="dynamic", factor=4.0)
    rotary(model)(torch.zeros(1, 64, 4), torch.arange(64)[None])
    assert phasor.hf.patch(model, numerics="exact").tables
    longer = torch.arange(70)[None]
    plain = rotary(llama(rope_type="dynamic", factor=4.0))(torch.zeros(1, 70, 4), longer)
    assert (rotary(model)(torch.zeros(1, 70, 4), longer)[0] - plain[0]).abs().max() < 2e-5


def test_longrope_changes_its_factors_with_the_length_as_the_model_does():
    factors = {"short_factor": [1.0] * 8, "long_factor": [1.0 + i / 2 for i in range(8)]}
    model = llama(rope_type="longrope", factor=4.0, original_max_position_embeddings=16, **factors)
    assert close(model, [8, 40, 8]) > 1.1  # LongRoPE's amplitude


def test_the_attention_scaling_of_yarn_stays():
    model = llama(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
    assert abs(close(model, [12]) - (0.1 * torch.log(torch.tensor(4.0)).item() + 1)) < 1e-6


def test_channels_that_do_not_turn_stay_still():
    model = llama(rope_type="proportional", factor=1.0, partial_rotary_factor=0.5)
    assert (rotary(model).inv_freq == 0).sum() == 4
    assert close(model, [9]) == 1


@pytest.mark.parametrize("model_type", ["qwen2_vl_text", "qwen3_vl_text", "ernie4_5_vl_moe_text", "glm4v_text", "hunyuan_vl_text"])
def test_axes_of_multimodal_positions_keep_their_channels(model_type):
    model = build(model_type)
    x, positions = torch.zeros(1, 6, 4), torch.tensor([[[0, 1, 2, 9, 4, 7]], [[3, 8, 0, 1, 5, 2]], [[6, 0, 11, 2, 2, 30]]])
    plain = rotary(model)(x, positions)
    assert phasor.hf.patch(model, numerics="exact").tables
    for ours, theirs in zip(rotary(model)(x, positions), plain):
        assert ours.shape == theirs.shape and (ours - theirs).abs().max() < 1e-5
        assert (ours - rotary(model)(x, positions.flip(0))[0]).abs().max() > 0.1


def test_frequencies_that_are_not_the_configs_are_taken_from_the_module():
    model = llama()
    rotary(model).inv_freq.mul_(1.25)
    report = phasor.hf.patch(model, numerics="exact")
    assert report.tables[0].how == "frequencies of inv_freq"
    cos, _ = rotary(model)(torch.zeros(1, 1, 4), torch.tensor([[1]]))
    assert abs(float(cos[0, 0, 0]) - float(mpmath.cos(1.25))) < 1e-7


def test_tables_that_depend_on_more_than_positions_are_left_and_reported():
    report = phasor.hf.patch(build("phimoe"), numerics="exact")
    assert report.rotations and not report.tables
    assert "reads the config" in report.left[0].how


# ---- inv_freq in 16 bits: model.half() rounds it, and what it means stays the same ----


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("when", ["before", "after", "after and back"])
@pytest.mark.parametrize("changed", [False, True], ids=["of the config", "its own"])
def test_rounded_frequencies_are_still_the_exact_ones(dtype, when, changed):
    model = llama()
    if changed:
        rotary(model).inv_freq.mul_(1.25)
    wanted = [1.25 * f if changed else f for f in phasor.Rotary.from_config(model.config).frequencies]
    model = model.to(dtype) if when == "before" else model
    report = phasor.hf.patch(model, numerics="exact")
    if when == "before" and changed:
        assert report.tables[0].how == "frequencies of inv_freq"  # nothing is left of what they were
        return
    model = model.to(dtype)
    model = model.float() if when == "after and back" else model
    assert not torch.equal(rotary(model).inv_freq.double(), torch.tensor(wanted))
    positions = torch.tensor([[3, 4095]])
    cos, sin = rotary(model)(torch.zeros(1, 2, 4), positions)
    angles = positions[0, :, None] * torch.tensor(wanted)[None].repeat(1, 2)
    # of the float32 frequencies that the module had where they are its own
    limit = 2.0**-25 if not changed else 4096 * 2.0**-23
    assert (cos[0].double() - angles.cos()).abs().max() <= limit and (sin[0].double() - angles.sin()).abs().max() <= limit


def test_a_small_frequency_that_float16_cannot_hold_well_is_still_the_configs():
    model = llama(rope_type="default", rope_theta=5e6)
    assert rotary(model.half()).inv_freq.min() < 6e-5  # below the normal numbers
    assert phasor.hf.patch(model, numerics="exact").tables[0].how == "frequencies of the config"


def test_encodings_of_lengths_that_never_come_again_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(_exact, "MOST", 4)
    module = rotary(llama(rope_type="dynamic", factor=4.0))
    tables = _exact.ExactTables(module)
    for length in range(20, 31):
        type(module).forward(module, torch.zeros(1, length, 4), torch.arange(length)[None])
        assert tables.rotary(_exact.Source.of(module, None)).frequencies.shape == (8,)
    assert 0 < len(tables._rotaries) <= 4


# ---- register ----

LENGTHS = {"original_max_position_embeddings": 16}
ROPE_TYPES = {
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 3.0},
    "yarn": {"factor": 3.0, **LENGTHS},
    "llama3": {"factor": 3.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **LENGTHS},
    "proportional": {"factor": 3.0, "partial_rotary_factor": 0.5},
    "longrope": {"factor": 3.0, "short_factor": [1.0 + i / 7 for i in range(8)], "long_factor": [2.0 + i / 3 for i in range(8)], **LENGTHS},
}


@pytest.mark.parametrize("rope_type", ROPE_TYPES)
def test_registered_initialisers_give_the_float32_nearest_to_exact_frequencies(rope_type):
    plain = rotary(llama(rope_type=rope_type, **ROPE_TYPES[rope_type]))
    with phasor.hf.register() as registration:
        assert rope_type in registration.rope_types
        module = rotary(llama(rope_type=rope_type, **ROPE_TYPES[rope_type]))
    exact = phasor.Rotary.from_config(module.config)
    assert torch.equal(module.inv_freq, torch.from_numpy(exact.frequencies).float())
    assert module.attention_scaling == exact.amplitude
    assert ((module.inv_freq - plain.inv_freq).abs() <= 1e-6 * plain.inv_freq).all()


def test_a_registration_can_be_undone_and_made_twice():
    before = dict(ROPE_INIT_FUNCTIONS)
    first = phasor.hf.register()
    second = phasor.hf.register()
    assert second.rope_types == () and set(first.rope_types) == set(before)
    assert all(ROPE_INIT_FUNCTIONS[name] is not before[name] for name in before)
    second.undo()
    first.undo()
    first.undo()
    assert before == ROPE_INIT_FUNCTIONS


def test_a_config_that_phasor_cannot_read_keeps_the_initialisers_numbers():
    config = shrink(transformers.LlamaConfig)
    config.rope_parameters = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}
    wanted = ROPE_INIT_FUNCTIONS["linear"](config)

    class Unreadable:
        def __getattr__(self, name):
            return getattr(config, name) if name != "to_dict" else (lambda: {"model_type": "t5"})

    with phasor.hf.register():
        got = ROPE_INIT_FUNCTIONS["linear"](Unreadable())
    assert torch.equal(got[0], wanted[0]) and got[1] == wanted[1]
