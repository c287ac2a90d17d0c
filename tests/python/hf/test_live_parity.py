# SPDX-License-Identifier: Apache-2.0
"""The installed transformers, live: frequencies of every rope_type, tables of the hf profile, rotations bit for bit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import phasor
from phasor.hf._complex import separate_roundings

transformers.logging.set_verbosity_error()  # random parameters contradict each other in ways that it warns of
CASES = 60  # random parameter sets of each rope_type


def ulps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances in float32 numbers."""
    order = lambda x: np.where(x.view(np.int32) < 0, np.int64(-(2**31)) - x.view(np.int32), x.view(np.int32)).astype(np.int64)  # noqa: E731
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    return np.abs(order(a) - order(b))


# ---- Frequencies and attention factors ----


def sizes(draw: random.Random) -> tuple[int, float, int]:
    """head_dim, base, trained length."""
    return draw.choice((16, 24, 64, 80, 96, 128, 256)), 10.0 ** draw.uniform(3.5, 7.5), draw.choice((2048, 4096, 8192, 32768))


def linear(draw: random.Random, head_dim: int, trained: int) -> dict[str, Any]:
    return {"factor": draw.uniform(1, 40)}


def proportional(draw: random.Random, head_dim: int, trained: int) -> dict[str, Any]:
    return {"partial_rotary_factor": draw.choice((0.25, 0.5, 0.75, 1.0)), "factor": draw.choice((1.0, draw.uniform(1, 16)))}


def dynamic(draw: random.Random, head_dim: int, trained: int) -> dict[str, Any]:
    return {"factor": draw.uniform(1, 8)}


def yarn(draw: random.Random, head_dim: int, trained: int) -> dict[str, Any]:
    found: dict[str, Any] = {"factor": draw.uniform(1.5, 64), "original_max_position_embeddings": trained}
    if draw.random() < 0.5:
        found |= {"beta_fast": draw.uniform(16, 64), "beta_slow": draw.uniform(1, 4)}
    if draw.random() < 0.3:
        found["truncate"] = False
    if draw.random() < 0.3:
        found["attention_factor"] = draw.uniform(0.5, 2)
    elif draw.random() < 0.5:
        found |= {"mscale": draw.uniform(0.5, 1.5), "mscale_all_dim": draw.uniform(0.5, 1.5)}
    return found


def longrope(draw: random.Random, head_dim: int, trained: int) -> dict[str, Any]:
    lists = {name: [draw.uniform(1, 60) for _ in range(head_dim // 2)] for name in ("short_factor", "long_factor")}
    found: dict[str, Any] = lists | {"original_max_position_embeddings": trained, "factor": draw.uniform(1, 40)}
    if draw.random() < 0.3:
        found["attention_factor"] = draw.uniform(0.5, 2)
    return found


def llama3(draw: random.Random, head_dim: int, trained: int) -> dict[str, Any]:
    return {
        "factor": draw.uniform(2, 40),
        "low_freq_factor": draw.uniform(0.5, 2),
        "high_freq_factor": draw.uniform(2.5, 8),
        "original_max_position_embeddings": trained,
    }


DRAWS: dict[str, Callable[[random.Random, int, int], dict[str, Any]]] = {
    "linear": linear,
    "proportional": proportional,
    "dynamic": dynamic,
    "yarn": yarn,
    "longrope": longrope,
    "llama3": llama3,
}


def test_every_rope_type_that_transformers_has_is_drawn() -> None:
    assert set(ROPE_INIT_FUNCTIONS) <= set(DRAWS) | {"default"}


def llama_config(draw: random.Random, rope_type: str) -> tuple[LlamaConfig, int]:
    """A config with random parameters, and the length of a sequence."""
    head_dim, base, trained = sizes(draw)
    length = draw.choice((trained // 2, trained * 3))
    parameters = {"rope_type": rope_type, "rope_theta": base} | (DRAWS[rope_type](draw, head_dim, trained) if rope_type in DRAWS else {})
    longest = trained if rope_type in ("dynamic", "default") else trained * 8
    config = LlamaConfig(
        head_dim=head_dim,
        hidden_size=head_dim * 2,
        num_attention_heads=2,
        num_hidden_layers=1,
        max_position_embeddings=longest,
        rope_parameters=parameters,
    )
    return config, length


def theirs(config: LlamaConfig, length: int) -> tuple[np.ndarray, float]:
    rope_type = config.rope_parameters["rope_type"]
    function = ROPE_INIT_FUNCTIONS.get(rope_type, LlamaRotaryEmbedding.compute_default_rope_parameters)
    inv_freq, factor = function(config, device=torch.device("cpu"), seq_len=length)
    return inv_freq.numpy(), float(factor)


# What one float32 frequency costs transformers, in ulps: its exponent is rounded, which turns base^x by ln(base) 2^-25, and pow,
# the reciprocal and the scaling round once each. The largest base here is 10^7.5, and dynamic's is 40 times that.
PLAIN_ULPS = 14


def float32_room(config: LlamaConfig, frequencies: np.ndarray) -> np.ndarray:
    """How many ulps each frequency of transformers may be off. A ramp adds a small share of the large w_i to the small w_i / factor, and so
    multiplies what is lost before by up to the factor."""
    given = config.rope_parameters
    unscaled = given["rope_theta"] ** (-2 * np.arange(config.head_dim // 2) / config.head_dim)
    with np.errstate(divide="ignore"):
        growth = unscaled / frequencies
    if given["rope_type"] == "yarn":
        return PLAIN_ULPS + 2 * growth  # the ramp itself is exact to 2^-24
    if given["rope_type"] == "llama3":
        turns = given["original_max_position_embeddings"] * unscaled / (2 * np.pi)  # in the trained length
        width = given["high_freq_factor"] - given["low_freq_factor"]
        return PLAIN_ULPS * (1 + np.where(turns < given["high_freq_factor"], turns / width * growth, 0))
    return np.full(frequencies.shape, PLAIN_ULPS)


@pytest.mark.parametrize("rope_type", sorted(set(ROPE_INIT_FUNCTIONS) | {"default"}))
def test_frequencies_and_attention_factors_are_those_of_transformers_up_to_its_float32(rope_type: str, record_property: Any) -> None:
    draw = random.Random(f"frequencies {rope_type}")
    worst = 0
    for _ in range(CASES):
        config, length = llama_config(draw, rope_type)
        inv_freq, factor = theirs(config, length)
        rope = phasor.Rotary.from_config(config, length=length)
        assert math.isclose(rope.amplitude, factor, rel_tol=1e-14), config.rope_parameters
        off = ulps(np.asarray(rope.frequencies, np.float32), inv_freq)
        assert (off <= float32_room(config, rope.frequencies)).all(), config.rope_parameters
        worst = max(worst, int(off.max()))
    record_property(
        "note",
        f"{rope_type}: {CASES} parameter sets, frequencies at most {worst} float32 ulps from transformers {transformers.__version__}",
    )


# ---- Tables of the hf profile ----

POSITIONS = torch.tensor([[0, 1, 2, 63, 1000, 4095, 65537, 131071, 1000003, 9999999]])


def hf_tables_of(module: LlamaRotaryEmbedding, amplitude: float, positions: torch.Tensor = POSITIONS) -> tuple[np.ndarray, np.ndarray]:
    """Tables of the hf profile on the module's own float32 frequencies, (T, P)."""
    frequencies = tuple(module.inv_freq.double().tolist())
    scaling = phasor.GivenFrequencies(frequencies, amplitude)
    return phasor.Rotary(head_dim=2 * len(frequencies), scaling=scaling, numerics="hf").cos_sin(positions[0].numpy())


def modules(draw: random.Random) -> list[LlamaRotaryEmbedding]:
    """A module of every rope_type whose tables do not change with the length of a call, and three of it."""
    fixed = sorted(set(DRAWS) - {"dynamic", "longrope"}) + ["default"]
    return [LlamaRotaryEmbedding(llama_config(draw, rope_type)[0]) for rope_type in fixed for _ in range(3)]


def test_tables_of_the_hf_profile_from_the_same_frequencies_are_within_one_ulp_of_the_cosine() -> None:
    values = other = 0
    for module in modules(random.Random("tables")):
        amplitude = np.float32(module.attention_scaling)
        for plain, ours, full in zip(
            hf_tables_of(module, 1.0), hf_tables_of(module, module.attention_scaling), module(torch.zeros(1), POSITIONS), strict=True
        ):
            theirs = full[0, :, : ours.shape[-1]].numpy()
            assert np.array_equal(ours, plain * amplitude)
            # Their cosine is the nearest float32 or a neighbour; an amplitude then multiplies either.
            near = [x * amplitude for x in (plain, np.nextafter(plain, np.float32(2)), np.nextafter(plain, np.float32(-2)))]
            assert np.logical_or.reduce([theirs == x for x in near]).all()
            other += int((ours != theirs).sum())
            values += ours.size
    assert 0 < other < values * 0.15  # PyTorch's cos and sin are not correctly rounded


def test_tables_in_bfloat16_are_equal_but_for_double_roundings_which_are_counted(record_property: Any) -> None:
    values = doubles = 0
    positions = torch.arange(0, 10**6, 251)[None]  # many: a double rounding is rare
    for module in modules(random.Random("bfloat16 tables")):
        cos, sin = hf_tables_of(module, module.attention_scaling, positions)
        rounded = module(torch.zeros(1, dtype=torch.bfloat16), positions)
        single = module(torch.zeros(1), positions)
        for ours, half, full in zip((cos, sin), rounded, single, strict=True):
            pairs = ours.shape[-1]
            mine = torch.from_numpy(ours).bfloat16()
            differs = mine.view(torch.int16) != half[0, :, :pairs].view(torch.int16)
            # Where they differ, one of the two float32 values lies on a midpoint of bfloat16 or just beside it.
            low = full[0, :, :pairs][differs].contiguous().view(torch.int32) & 0xFFFF
            assert ((low - 0x8000).abs() <= 1).all()
            doubles += int(differs.sum())
            values += ours.size
    record_property("note", f"hf tables in bfloat16: {doubles} double roundings in {values} values")
    assert doubles <= values * 2e-4


# ---- Rotations by transformers' own tables: the table of tools/record/record_hf.py, live ----


def model_file(name: str) -> Any:
    return getattr(__import__(f"transformers.models.{name}", fromlist=[f"modeling_{name}"]), f"modeling_{name}")


def heads_first(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Their function on (B, H, T, D), for tensors (B, T, H, D)."""
    return lambda x, cos, sin: function(x.transpose(1, 2), x.transpose(1, 2), cos, sin)[0].transpose(1, 2)


def complex_form(name: str, turned: bool) -> Callable[..., torch.Tensor]:
    function = model_file(name).apply_rotary_emb

    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        pairs = cos.shape[-1] // 2
        table = torch.complex(cos[..., :pairs], sin[..., :pairs])
        return function(x.transpose(1, 2), x.transpose(1, 2), table)[0].transpose(1, 2) if turned else function(x, x, table)[0]

    return rotate


def halved(name: str) -> Callable[..., torch.Tensor]:
    """Functions that take tables of P values."""
    function = model_file(name).apply_rotary_pos_emb
    if name == "gptj":
        return lambda x, cos, sin: function(x, sin[..., : sin.shape[-1] // 2], cos[..., : cos.shape[-1] // 2])
    return heads_first(lambda q, k, cos, sin: function(q, k, cos[..., : cos.shape[-1] // 2], sin[..., : sin.shape[-1] // 2]))


def repeated(name: str) -> Callable[..., torch.Tensor]:
    """Cohere's own module gives each value twice, as its pairs lie."""

    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        pairs = cos.shape[-1] // 2
        spread = [t[..., :pairs].repeat_interleave(2, dim=-1) for t in (cos, sin)]
        return heads_first(model_file(name).apply_rotary_pos_emb)(x, *spread)

    return rotate


# name: their function, ours, whether the tables are float32 whatever the tensor is
ROTATIONS: dict[str, tuple[Callable[[], Callable[..., torch.Tensor]], dict[str, str], bool]] = {
    "llama": (lambda: heads_first(model_file("llama").apply_rotary_pos_emb), {"numerics": "hf"}, False),
    "llama with float32 tables": (lambda: heads_first(model_file("llama").apply_rotary_pos_emb), {"numerics": "hf"}, True),
    "glm": (lambda: heads_first(model_file("glm").apply_rotary_pos_emb), {"pairing": "interleaved", "numerics": "hf"}, False),
    "gptj": (lambda: halved("gptj"), {"pairing": "interleaved", "numerics": "hf"}, False),
    "gpt_oss": (lambda: halved("gpt_oss"), {"numerics": "hf"}, False),
    "deepseek_v3": (
        lambda: heads_first(model_file("deepseek_v3").apply_rotary_pos_emb_interleave),
        {"pairing": "interleaved", "output_pairing": "half", "numerics": "hf"},
        False,
    ),
    "nanochat": (lambda: heads_first(model_file("nanochat").apply_rotary_pos_emb), {"sense": "clockwise", "numerics": "hf"}, False),
    "cohere": (lambda: repeated("cohere"), {"pairing": "interleaved", "numerics": "vllm"}, False),
    "ernie4_5": (lambda: heads_first(model_file("ernie4_5").apply_rotary_pos_emb), {"pairing": "interleaved", "numerics": "vllm"}, False),
    "llama4": (lambda: complex_form("llama4", False), {"pairing": "interleaved", "numerics": "hf_float32"}, True),
    "deepseek_v2": (lambda: complex_form("deepseek_v2", True), {"pairing": "interleaved", "numerics": "hf_float32"}, True),
}


COMPLEX = ("llama4", "deepseek_v2")  # PyTorch's complex product, whose bits are a processor's


def assert_one_fused_product_apart(ours: torch.Tensor, theirs: torch.Tensor, x: torch.Tensor, tables: tuple[torch.Tensor, ...]) -> None:
    """A fused product is not rounded: half an ulp of it less, and another rounding of the sum, and of the result to its dtype."""
    cos, sin = (t.unsqueeze(-2).abs().double() for t in tables)
    a, b = x.abs().double().unflatten(-1, (-1, 2)).unbind(-1)
    products = torch.stack((a * cos + b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    room = 2.0**-23 * products + torch.finfo(theirs.dtype).eps * theirs.abs().double()
    difference = (ours.double() - theirs.double()).abs()
    assert (difference <= room).all()
    assert 0 < (difference > 0).float().mean() < 0.5 or ours.dtype != torch.float32  # in 16 bits it hardly shows


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ROTATIONS)
def test_a_rotation_by_transformers_own_tables_is_theirs_bit_for_bit(name: str, dtype: torch.dtype) -> None:
    make, layout, float32_tables = ROTATIONS[name]
    function = make()
    draw = random.Random(f"{name} {dtype}")
    for head_dim in (32, 96):  # whole registers: what is left over of one, PyTorch's complex product rounds in another way
        config = llama_config(draw, draw.choice(("yarn", "llama3", "default")))[0]
        config.head_dim = head_dim
        table_dtype = torch.float32 if float32_tables else dtype
        cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=table_dtype), torch.tensor([[0, 1, 5, 4095, 131071]]))
        x = torch.randn(2, 5, 3, head_dim).mul(torch.randn(2, 5, 3, head_dim).exp()).to(dtype)
        wanted = function(x, cos, sin).to(dtype)
        pairs = head_dim // 2
        got = phasor.apply_rotary(x, None, cos[..., :pairs], sin[..., :pairs], **layout)
        assert got.dtype == wanted.dtype
        if name in COMPLEX and not separate_roundings():
            assert_one_fused_product_apart(got, wanted, x, (cos[..., :pairs], sin[..., :pairs]))
        else:
            assert torch.equal(got.view(torch.int16), wanted.contiguous().view(torch.int16)), (name, head_dim)
