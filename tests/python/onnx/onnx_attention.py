# SPDX-License-Identifier: Apache-2.0
"""Attention in files: every kind that opset 23 can say in one program with open lengths, each held to PyTorch's call and to softmax in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx_run import ROUNDING, File

import phasor
import phasor.onnx

HEADS, KV_HEADS, WIDTH, VALUES, LENGTH, DYNAMIC = 4, 2, 8, 6, 40, torch.export.Dim.DYNAMIC
SHAPES = [(2, 5, 9), (1, 1, 7), (3, 8, 8), (2, 17, 40)]  # batch, queries, keys; the file was made with the first
Tensors = dict[str, torch.Tensor]
torch.manual_seed(0)
T5_TABLE, CLIP_TABLE = torch.randn(HEADS, 8), torch.randn(HEADS, 6)
KERPLE = phasor.Kerple(r1=(0.5, 1.0, 2.0, 0.1), r2=(1.0, 0.3, 0.7, 2.0))


def on(**options: Any) -> Callable[[Tensors], Any]:
    """q over keys and values of their own length."""
    return lambda x: phasor.attention(x["q"], x["k"], x["v"], **options)


def alone(**options: Any) -> Callable[[Tensors], Any]:
    """q over as many keys."""
    return lambda x: phasor.attention(x["q"], x["q"][:, :, :KV_HEADS], x["q"][:, :, KV_HEADS:], **options)


CASES: dict[str, Callable[[Tensors], Any]] = {
    "plain": on(),
    "causal": on(causal=True),
    "causal, as many keys": alone(causal=True),
    "scale": on(scale=1.0),
    "alibi": on(scheme=phasor.Alibi(), causal=True),
    "alibi, as many keys": alone(scheme=phasor.Alibi(), causal=True),
    "t5": on(scheme=phasor.T5(T5_TABLE, max_distance=16), scale=1.0),
    "t5 behind": on(scheme=phasor.T5(T5_TABLE, bidirectional=False, max_distance=16), causal=True),
    "clipped": on(scheme=phasor.LearnedBias(CLIP_TABLE, 3, 2)),
    "kerple": on(scheme=KERPLE, causal=True),
    "sandwich": on(scheme=phasor.Sandwich(heads=HEADS, width=8), causal=True),
    "two": on(scheme=[phasor.Alibi(), phasor.LearnedBias(CLIP_TABLE, 3, 2)], causal=True),
    "window": on(causal=True, window=3),
    "window of two sides": on(window=(2, 1)),
    "window and bias": on(scheme=phasor.Alibi(), window=(4, 3)),
    "softcap": on(causal=True, softcap=2.0),
    "key mask": lambda x: phasor.attention(x["q"], x["k"], x["v"], key_mask=x["mask"]),
    "dense": lambda x: phasor.attention(x["q"], x["k"], x["v"], scheme=phasor.Dense(x["bias"]), causal=True),
    "positions": lambda x: phasor.attention(x["q"], x["k"], x["v"], scheme=phasor.Alibi(), causal=True, query_positions=x["at"], key_positions=x["keys_at"]),
    "first query": on(scheme=phasor.Alibi(), query_positions=3),
    "float16": lambda x: phasor.attention(x["q"].half(), x["k"].half(), x["v"].half(), scheme=phasor.Alibi(), causal=True).float(),
    "bfloat16": lambda x: phasor.attention(x["q"].bfloat16(), x["k"].bfloat16(), x["v"].bfloat16(), causal=True).float(),
    "to float32": lambda x: phasor.attention(x["q"].half(), x["k"].half(), x["v"].half(), out_dtype=torch.float32),
}
AT = {name: number for number, name in enumerate(CASES)}
NAMES = ("q", "k", "v", "bias", "mask", "at", "keys_at")


class Attentions(torch.nn.Module):
    """All cases."""

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        given = dict(zip(NAMES, tensors))
        return [case(given) for case in CASES.values()]


def inputs(batch: int, queries: int, keys: int) -> Tensors:
    torch.manual_seed(batch * 100 + queries)
    mask = torch.rand(batch, keys) < 0.7
    mask[:, 0] = True
    return {
        "q": torch.randn(batch, queries, HEADS, WIDTH),
        "k": torch.randn(batch, keys, KV_HEADS, WIDTH),
        "v": torch.randn(batch, keys, KV_HEADS, VALUES),
        "bias": torch.randn(1, HEADS, queries, keys),
        "mask": mask,
        "at": torch.randint(0, LENGTH, (batch, queries)),
        "keys_at": torch.randint(0, LENGTH, (batch, keys)) * (torch.arange(keys) > 0),  # every query sees the first key
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> File:
    path = tmp_path_factory.mktemp("onnx") / "attention.onnx"
    given = inputs(*SHAPES[0])
    shapes = tuple({2: DYNAMIC, 3: DYNAMIC} if name == "bias" else {0: DYNAMIC, 1: DYNAMIC} for name in NAMES)
    options: dict[str, Any] = {"max_position": LENGTH, "dynamic_shapes": (shapes,), "input_names": NAMES}
    made = phasor.onnx.export(Attentions(), tuple(given[name] for name in NAMES), path, **options)
    onnx.checker.check_model(str(path), full_check=True)
    return File(made)


def bound(given: Tensors, keys: int) -> float:
    """How far two float32 softmax attentions may be apart: sums of WIDTH products move scores, those move weights, and sums over keys round again."""
    products = float(given["q"].norm(dim=-1).max() * max(given["k"].norm(dim=-1).max(), given["q"].norm(dim=-1).max()))
    scores = (WIDTH + 4) * (products + LENGTH)  # ALiBi's greatest slope is 1/4, tables are of some units
    values = float(max(given["v"].abs().max(), given["q"].abs().max()))
    return 2 * ROUNDING[torch.float32] * (2 * scores + keys + 8) * values


@pytest.mark.parametrize("shape", SHAPES)
def test_every_call_is_pytorch_s_up_to_rounding(file: File, shape: tuple[int, int, int]) -> None:
    given = inputs(*shape)
    found, wanted = file.run(given), Attentions()(*(given[name] for name in NAMES))
    for name, number in AT.items():
        apart = np.abs(found[number].astype(np.float64) - wanted[number].numpy())
        allowed = bound(given, shape[2])
        if "float16" in name:  # float32 inside both: the last rounding may fall to the other side
            allowed += 2 * ROUNDING[torch.float16 if name == "float16" else torch.bfloat16] * np.abs(wanted[number].numpy())
        assert found[number].shape == wanted[number].shape and (apart <= allowed).all(), (name, apart.max())


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(B, T, H, D) in float64, with a bias (H or 1, Tq, Tk)."""
    k, v = (np.repeat(x.astype(np.float64), HEADS // KV_HEADS, axis=2) for x in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k) / math.sqrt(WIDTH) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("name", ["plain", "causal", "alibi", "window"])
def test_calls_are_the_formula_s(file: File, name: str) -> None:
    """The last query at the last key; ALiBi's slopes are 2^(-8 h / heads)."""
    batch, queries, keys = SHAPES[0]
    given = inputs(batch, queries, keys)
    distance = (np.arange(queries) + keys - queries)[:, None] - np.arange(keys)
    bias = np.zeros((1, queries, keys)) if name != "alibi" else -np.abs(distance) * 2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)[:, None, None]
    seen = {"plain": distance < 1000, "window": (distance >= 0) & (distance <= 3)}.get(name, distance >= 0)
    wanted = softmax_attention(*(given[x].numpy() for x in "qkv"), np.where(seen, bias, -np.inf))
    (found,) = file.run(given, AT[name])
    assert np.abs(found - wanted).max() <= bound(given, keys)


def test_a_causal_call_over_as_many_keys_needs_no_mask(file: File) -> None:
    (node,) = [node for node in file.nodes(AT["causal, as many keys"]) if node.op_type == "Attention"]
    assert node.attributes["is_causal"].as_int() == 1 and len([x for x in node.inputs if x is not None]) == 3
    assert [node.attributes[name].as_int() for name in ("q_num_heads", "kv_num_heads")] == [HEADS, KV_HEADS]
    (node,) = [node for node in file.nodes(AT["causal"]) if node.op_type == "Attention"]
    assert node.attributes["is_causal"].as_int() == 0  # the node's own mask begins at the first key


@pytest.mark.parametrize(("at", "keys_at"), [(LENGTH, 0), (0, LENGTH), (2 * LENGTH, 0), (0, 2 * LENGTH + 5), (-LENGTH, 0)])
def test_distances_beyond_the_table_are_refused_by_the_runtime(file: File, at: int, keys_at: int) -> None:
    given = inputs(*SHAPES[0])
    file.run(given, AT["positions"])
    given["at"][1, 2], given["keys_at"][1, 3] = at, keys_at
    with pytest.raises(Exception, match="out of data bounds"):
        file.run(given, AT["positions"])


class Plain(torch.nn.Module):
    """A call of attention of one tensor with itself."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor) -> Any:
        return phasor.attention(x, x, x, **self.options)


TABLE = torch.randn(5, WIDTH)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"scheme": phasor.Alibi()}, "max_position is not given, wanted it for a bias by distance"),
    ({"scheme": phasor.Shaw(TABLE, left=2, right=2)}, "a term TableScheme, wanted a bias by distance or one given in full"),
    ({"scheme": phasor.Rope(phasor.Rotary(WIDTH))}, r"the content RotaryScheme, wanted q and k that are rotated before: rope\(q, k, positions\)"),
    ({"scheme": phasor.Alibi(), "softcap": 3.0}, "a softcap and a bias, wanted one of them"),
    ({"sinks": torch.zeros(HEADS)}, "attention has sinks, which opset 23's Attention cannot say"),
    ({"return_lse": True}, "the model uses the lse of attention"),
    ({"causal": True, "prefix": torch.tensor([2])}, "attention has prefix"),
    ({"scheme": phasor.Fire(phasor.Mlp((1, HEADS), (1.0,) * 2 * HEADS))}, "the bias Fire, wanted one of Alibi"),
    ({"scheme": phasor.Alibi(form="key_position")}, "Alibi by key_position, wanted"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_attention_cannot_say_is_refused_and_nothing_is_written(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=words):
        phasor.onnx.export(Plain(options), (torch.randn(1, 5, HEADS, WIDTH),), tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())
