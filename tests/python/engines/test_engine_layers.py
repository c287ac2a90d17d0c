# SPDX-License-Identifier: Apache-2.0
"""phasor.engines without an engine: layers read by their attributes, and turned, against formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stand_ins
import torch

import phasor
from phasor.engines import Unlike, profile_named, read, turner_of

LAYERS = stand_ins.known()


def naive(x, cos, sin, half, offset=0, rounds=False):
    """(T, H, D) by rows (T, P): float32 products and sums, each rounded (to x's dtype if `rounds`), one rounding at the end."""
    out, pairs = x.clone(), cos.shape[-1]
    step = (lambda t: t.to(x.dtype).float()) if rounds else (lambda t: t)
    c, s = cos.float()[:, None], sin.float()[:, None]
    first = [offset + (i if half else 2 * i) for i in range(pairs)]
    second = [offset + (i + pairs if half else 2 * i + 1) for i in range(pairs)]
    a, b = x[..., first].float(), x[..., second].float()
    out[..., first] = (step(a * c) - step(b * s)).to(x.dtype)
    out[..., second] = (step(b * c) + step(a * s)).to(x.dtype)
    return out


def own_rows(name, layer, positions):
    """Rows of the layer's own table, chosen one value at a time."""
    table = layer.long_short_cos_sin_cache if name == "longrope" else layer.cos_sin_cache
    pairs = table.shape[-1] // 2
    axis = stand_ins.AXES.get(name, (0,) * pairs)
    rows = torch.empty(positions.shape[-1], 2 * pairs, dtype=table.dtype)
    for t in range(positions.shape[-1]):
        for c in range(2 * pairs):
            at = positions[t] if positions.ndim == 1 else positions[axis[c % pairs], t]
            rows[t, c] = table[int(at), c]
    return rows[:, :pairs], rows[:, pairs:]


def positions_of(name, tokens=7):
    generator = torch.Generator().manual_seed(tokens)
    axes = 1 + max(stand_ins.AXES.get(name, (0,)))
    shape = (axes, tokens) if axes > 1 else (tokens,)
    return torch.randint(0, 200, shape, generator=generator)


def heads_of(name, layer, tokens, dtype=torch.float32, heads=3):
    generator = torch.Generator().manual_seed(tokens + heads)
    x = torch.randn(tokens, heads, layer.head_size, generator=generator).to(dtype)
    return x if name.startswith("deepseek") else x.reshape(tokens, -1)


@pytest.mark.parametrize("name", LAYERS)
def test_reading_is_that_of_the_table(name):
    reading = read(LAYERS[name])
    assert not reading.corrected
    assert reading.off < 1e-6  # the stand-ins' tables are rounded once
    assert reading.spec.axes.axis_of_pair == stand_ins.AXES.get(name, ())
    assert reading.spec.pairing == ("half" if getattr(LAYERS[name], "is_neox_style", True) else "interleaved")
    assert reading.spec.rotary_offset == (8 if name == "deepseek v4" else 0)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("where", ["first", "last"])
def test_table_that_says_otherwise_is_not_believed(name, where):
    made = stand_ins.known()[name]
    table = made.long_short_cos_sin_cache if name == "longrope" else made.cos_sin_cache
    pairs = table.shape[-1] // 2
    used = table[:40] if "several" in name else table
    if where == "first":
        used[-1, 0] += 1e-3
    else:
        used[:, pairs - 1].mul_(0.999)
    with pytest.raises(Unlike, match="pair .* at position .* by its attributes"):
        read(made)


def test_unknown_class_and_learned_tables_are_not_read():
    with pytest.raises(Unlike, match="NewRotaryEmbedding is not known"):
        read(stand_ins.plain("NewRotaryEmbedding"))
    with pytest.raises(Unlike, match="learned"):
        read(stand_ins.plain("FourierRotaryEmbedding"))


def test_missing_attribute_and_meta_table_are_said():
    made = stand_ins.yarn_layer()
    del made.beta_fast
    with pytest.raises(Unlike, match="beta_fast"):
        read(made)
    made = stand_ins.plain()
    made.cos_sin_cache = made.cos_sin_cache.to("meta")
    with pytest.raises(Unlike, match="meta device"):
        read(made)


def mrope_yarn():
    """As vLLM: made with 75 trained positions, a table and a ramp over four times as many."""
    amplitude = 0.1 * math.log(4) + 1
    return stand_ins.layer(
        "MRotaryEmbedding", stand_ins.yarn(16, 10000.0, 4.0, 300), amplitude=amplitude, max_position_embeddings=300, scaling_factor=4.0,
        beta_fast=32, beta_slow=1, truncate=True, mscale=amplitude, mrope_section=[2, 3, 3], mrope_interleaved=False,
    )  # fmt: skip


def test_ramp_of_vllm_over_four_times_the_length_is_corrected_in_exact_alone():
    made, arguments = mrope_yarn(), {"max_position_embeddings": 75}
    reading = read(made, arguments)
    assert reading.corrected and reading.as_engine.scaling.original_length == 300 and reading.spec.scaling.original_length == 75
    true = np.array(stand_ins.yarn(16, 10000.0, 4.0, 75))
    rope = turner_of(made, "exact", arguments).exact.rope
    assert np.allclose(rope.frequencies, true, rtol=1e-13)
    assert not np.allclose(stand_ins.yarn(16, 10000.0, 4.0, 300), true, rtol=1e-3)  # the defect is one
    assert turner_of(made, "engine", arguments).exact is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_engine_profile_is_the_formula_bit_for_bit(name, rounds, in_place, dtype):
    layer, positions = LAYERS[name], positions_of(name)
    q, k = heads_of(name, layer, 7, dtype), heads_of(name, layer, 7, dtype, heads=1)
    table = (layer.long_short_cos_sin_cache if name == "longrope" else layer.cos_sin_cache).to(dtype)
    kept = layer.long_short_cos_sin_cache if name == "longrope" else layer.cos_sin_cache
    cos, sin = (t.to(dtype) for t in own_rows(name, layer, positions))
    half, offset = getattr(layer, "is_neox_style", True), 8 if name == "deepseek v4" else 0
    wanted = [naive(x.reshape(7, -1, layer.head_size), cos, sin, half, offset, rounds).reshape(x.shape) for x in (q, k)]
    before = [x.clone() for x in (q, k)]
    got = turner_of(layer, "engine").turn(table, positions, q, k, in_place, rounds)
    for x, own, out, true in zip((q, k), before, got, wanted):
        assert torch.equal(out, true) and out.shape == x.shape
        assert torch.equal(x, true if in_place else own) and (out is x) == in_place
    assert kept.dtype == torch.float32


@pytest.mark.parametrize("name", [n for n in LAYERS if n != "linear of several factors"])
def test_exact_profile_is_the_true_angle_at_any_position(name):
    """Against cosines in double of whole angles that a long integer keeps exact, at positions no table has."""
    layer = LAYERS[name]
    rope = read(layer).spec
    positions = positions_of(name) + 2**40
    at = positions if positions.ndim == 1 else positions[:, None]
    q = heads_of(name, layer, 7)
    wanted = phasor.Rotary.from_spec(rope)(q.reshape(7, -1, layer.head_size), positions=at).reshape(q.shape)
    got = turner_of(layer, "exact").turn(None, positions, q.clone(), None, True, False)
    assert got[1] is None and torch.equal(got[0], wanted)
    small = positions_of(name)
    cos, sin = own_rows(name, layer, small + (40 if name == "longrope" else 0))
    half, offset = getattr(layer, "is_neox_style", True), 8 if name == "deepseek v4" else 0
    near = naive(q.reshape(7, -1, layer.head_size), cos, sin, half, offset).reshape(q.shape)
    got = turner_of(layer, "exact").turn(None, small, q, None, False, False)[0]
    assert (got - near).abs().max() <= 4 * torch.finfo(torch.float32).eps * 2 * near.abs().max()


def test_factor_of_each_request_by_its_offset():
    """vLLM's way to several linear factors: a position is a row of one of the tables, which begin at the layer's offsets."""
    layer = LAYERS["linear of several factors"]
    rows = torch.tensor([0, 39, 40, 41, 139, 140, 259, 3])
    factors = torch.tensor([1.0, 1.0, 2.5, 2.5, 2.5, 3.0, 3.0, 1.0], dtype=torch.float64)
    offsets = torch.tensor([0, 0, 40, 40, 40, 140, 140, 0])
    q = heads_of("plain", layer, 8)
    got = turner_of(layer, "exact").turn(None, rows, q, None, False, False)[0]
    angles = ((rows - offsets).double() / factors)[:, None] * torch.tensor(stand_ins.ladder(16, 10000.0), dtype=torch.float64)
    wanted = naive(q.reshape(8, -1, 24), angles.cos().float(), angles.sin().float(), True).reshape(q.shape)
    assert torch.equal(got, wanted)
    own = turner_of(layer, "engine").turn(layer.cos_sin_cache, rows, q, None, False, False)[0]
    assert torch.equal(own, naive(q.reshape(8, -1, 24), *own_rows("x", layer, rows), True).reshape(q.shape))


def test_slices_of_packed_rows_are_turned_where_they_are():
    layer, positions = LAYERS["plain"], torch.tensor([5, 0, 299, 17, 17])
    packed = torch.randn(5, 24 * 7)
    q, k, v = packed.split((24 * 4, 24 * 2, 24), dim=-1)
    before, kept = packed.clone(), v.clone()
    turner_of(layer, "engine").turn(layer.cos_sin_cache, positions, q, k, True, False)
    cos, sin = own_rows("plain", layer, positions)
    assert torch.equal(packed[:, : 24 * 6], naive(before.view(5, 7, 24)[:, :6], cos, sin, True).reshape(5, -1))
    assert torch.equal(v, kept)


def test_heads_of_another_width_than_the_layer_says():
    """DeepSeek V4's indexer: the last channels of narrower heads."""
    layer, positions = LAYERS["deepseek v4"], torch.tensor([3, 250])
    q = torch.randn(2, 5, 20)
    cos, sin = own_rows("deepseek v4", layer, positions)
    for profile, table in (("engine", layer.cos_sin_cache), ("exact", None)):
        got = turner_of(layer, profile).turn(table, positions, q, None, False, False)[0]
        assert (got - naive(q, cos, sin, False, 4)).abs().max() < 2e-6
        back = turner_of(layer, profile).turn(table, positions, got, None, False, False, inverse=True)[0]
        assert (back[..., :4] == q[..., :4]).all() and (back / layer.mscale**2 - q)[..., 4:].abs().max() < 2e-6


def test_text_positions_on_every_axis():
    layer, text = LAYERS["m-rope"], torch.arange(9)
    q = heads_of("m-rope", layer, 9)
    for profile, table in (("engine", layer.cos_sin_cache), ("exact", None)):
        turner = turner_of(layer, profile)
        one = turner.turn(table, text, q, None, False, False)[0]
        three = turner.turn(table, text.expand(3, -1), q, None, False, False)[0]
        assert torch.equal(one, three)


def test_positions_of_several_axes_in_a_layer_of_one():
    with pytest.raises(ValueError, match=r"positions: are \(3, 2\), wanted \(T\)"):
        turner_of(LAYERS["plain"], "engine").turn(LAYERS["plain"].cos_sin_cache, torch.zeros(3, 2, dtype=torch.long), torch.zeros(2, 24), None, False, False)


@pytest.mark.parametrize(("name", "profile"), [("m-rope", "engine"), ("plain", "exact")])
def test_survives_torch_compile(name, profile):
    layer, positions = LAYERS[name], positions_of(name)
    turner = turner_of(layer, profile)
    table = layer.cos_sin_cache if profile == "engine" else None

    def forward(q, k, positions):
        new = turner.turn(table, positions, q, k, False, False)
        return *new, *turner.turn(table, positions, q, k, True, False)

    torch._dynamo.reset()
    compiled = torch.compile(forward, backend="aot_eager", fullgraph=True, dynamic=True)
    for tokens in (7, 3):
        q, k = heads_of(name, layer, tokens), heads_of(name, layer, tokens, heads=1)
        wanted = forward(q.clone(), k.clone(), positions[..., :tokens])
        for got, true in zip(compiled(q, k, positions[..., :tokens]), wanted, strict=True):
            assert torch.equal(got, true)


def test_profile_names():
    assert profile_named("X", "vllm", "vllm") == "engine" and profile_named("X", "exact", "vllm") == "exact"
    with pytest.raises(ValueError, match="X: is 'Exact', wanted 'sglang' .* or 'exact'"):
        profile_named("X", "Exact", "sglang")
