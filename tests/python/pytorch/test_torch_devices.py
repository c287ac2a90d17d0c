# SPDX-License-Identifier: Apache-2.0
"""Tensors of one call are on one device: every function that takes several refuses others, as PyTorch does, and says which."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import phasor
from fake_gpu import FakeGpuArray

ROPE = phasor.Rotary(head_dim=8)
SINUSOID = phasor.Sinusoidal(8)
BIAS = phasor.Bias(phasor.Alibi(heads=2))


def q() -> torch.Tensor:
    return torch.ones(1, 5, 2, 8)


def x() -> torch.Tensor:
    return torch.ones(1, 5, 8)


def at() -> torch.Tensor:
    return torch.arange(5)


def table() -> torch.Tensor:
    return torch.ones(5, 4)


def rows() -> torch.Tensor:
    return torch.ones(3, 8)


def shaw(**tensors: Any) -> Any:
    """Attention with the tables of Shaw's terms: keys, and values if given."""
    tables = [tensors.pop(name) for name in ("keys", "values") if name in tensors]
    return phasor.attention(**tensors, scheme=phasor.Shaw(*tables))


def two_schemes(buckets: torch.Tensor, distances: torch.Tensor, **qkv: Any) -> Any:
    return phasor.attention(**qkv, scheme=[phasor.T5(buckets), phasor.LearnedBias(distances, 1, 1)])


def merged(**parts: Any) -> Any:
    return phasor.merge_attention([(parts["out"], parts["lse"]), (parts["other"], parts["other_lse"])])


def several(**tensors: Any) -> Any:
    return phasor.apply_rotaries([ROPE] * 5, **tensors)


def several_(**tensors: Any) -> Any:
    return phasor.apply_rotaries_([ROPE] * 5, **tensors)


# name: the function, its tensors by name
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Callable[[], torch.Tensor]]]] = {
    "rotary": (ROPE, {"q": q, "k": q, "positions": at}),
    "rotary_": (ROPE.apply_, {"q": q, "k": q, "positions": at}),
    "rerotate_": (ROPE.rerotate_, {"k": q, "from_positions": at, "to_positions": at}),
    "rerotate_ of pages_": (ROPE.rerotate_, {"k": q, "from_positions": at, "to_positions": at, "slots": at}),
    "apply_rotary": (phasor.apply_rotary, {"q": q, "k": q, "cos": table, "sin": table}),
    "apply_rotary_": (phasor.apply_rotary_, {"q": q, "k": q, "cos": table, "sin": table}),
    "apply_rotaries": (several, {"q": q, "k": q, "positions": at, "spec_of": at}),
    "apply_rotaries_": (several_, {"q": q, "k": q, "positions": at, "spec_of": at}),
    "add": (SINUSOID.add, {"x": x, "positions": at, "amplitude": lambda: torch.ones((), dtype=torch.float64)}),
    "add_": (SINUSOID.add_, {"x": x, "positions": at}),
    "lookup_add": (phasor.lookup_add, {"x": x, "table": lambda: torch.ones(9, 8), "positions": at}),
    "lookup_add_": (phasor.lookup_add_, {"x": x, "table": lambda: torch.ones(9, 8), "positions": at}),
    "scatter_gradient_": (phasor.scatter_gradient_, {"table_gradient": lambda: torch.ones(9, 8), "gradient": x, "positions": at}),
    "bias": (BIAS, {"q_positions": at, "k_positions": at}),
    "attention": (phasor.attention, {"q": q, "k": q, "v": q}),
    "attention by positions": (phasor.attention, {"q": q, "k": q, "v": q, "query_positions": at, "key_positions": at}),
    "Shaw": (shaw, {"q": q, "k": q, "v": q, "keys": rows}),
    "Shaw of keys and values": (shaw, {"q": q, "k": q, "v": q, "keys": rows, "values": rows}),
    "two schemes": (
        two_schemes,
        {"q": q, "k": q, "v": q, "buckets": lambda: torch.ones(2, 32), "distances": lambda: torch.ones(2, 3)},
    ),
    "merge_attention": (
        merged,
        {"out": q, "lse": lambda: torch.ones(1, 5, 2), "other": q, "other_lse": lambda: torch.ones(1, 5, 2)},
    ),
    "nn.Rotary": (phasor.nn.Rotary(8), {"q": q, "k": q, "positions": at}),
    "nn.LearnedRotary": (phasor.nn.LearnedRotary(8), {"q": q, "k": q, "positions": at}),
    "nn.Sinusoidal": (phasor.nn.Sinusoidal(8), {"x": x, "positions": at}),
    "nn.Learned": (phasor.nn.Learned(9, 8), {"x": x, "positions": at}),
}
# Leaves are not written in place, positions of a bias do not learn: refused for that, in other tests.
LEARNING = [name for name in CALLS if not name.endswith("_") and name != "bias"]
EACH = [(name, moved, learns) for name, (_, made) in CALLS.items() for moved in made for learns in {False, name in LEARNING}]


@pytest.mark.parametrize("name, moved, learns", EACH)
def test_one_tensor_on_another_device_is_refused(name: str, moved: str, learns: bool) -> None:
    function, makers = CALLS[name]
    tensors = {key: make() for key, make in makers.items()}
    first = next(iter(tensors))
    tensors[first].requires_grad_(learns)
    function(**tensors) if not name.endswith("_") else function(**{key: t.clone() for key, t in tensors.items()})  # it is taken on one
    tensors[moved] = tensors[moved].to("meta")
    with pytest.raises(ValueError, match="wanted one device"):
        function(**tensors)


def test_consecutive_positions_of_the_host_are_an_offset() -> None:
    first, tokens_of = phasor._torch.eager._first_of_consecutive, phasor._torch.eager._tokens_of
    for tokens in map(tokens_of, (torch.ones(5, 8), torch.ones(5, 2, 8), q())):
        assert tokens == 5 and first(np.arange(3, 8), tokens) == 3 and first(np.arange(-2, 3, dtype=np.int32), tokens) == -2
        for other in (np.arange(4), np.arange(5)[::-1], np.arange(5.0), np.arange(10).reshape(2, 5), torch.arange(5), np.array([0, 1, 2, 3, 5])):
            assert first(other, tokens) is None
    assert first(np.arange(2**63 - 5, 2**63 - 1), 4) == 2**63 - 5


@pytest.mark.parametrize("positions", [[0, 1, 2, 3, 4], np.arange(5), range(5), 3, None])
def test_what_is_no_tensor_is_on_no_device(positions: Any) -> None:
    on_meta = q().to("meta")
    assert ROPE(on_meta, positions=positions).is_meta
    assert ROPE.apply_(on_meta, positions=positions) is on_meta
    assert SINUSOID.add(x().to("meta"), positions=positions).is_meta
    assert phasor.lookup_add(x().to("meta"), torch.ones(9, 8, device="meta"), positions).is_meta


def test_all_on_the_meta_device_gives_shapes() -> None:
    for name in ("rotary", "apply_rotary", "add", "lookup_add", "attention", "Shaw"):
        function, makers = CALLS[name]
        got = function(**{key: make().to("meta") for key, make in makers.items()})
        assert (got[0] if isinstance(got, tuple) else got).is_meta


class OfJax(FakeGpuArray):
    """What says that it is an array of JAX."""


OfJax.__module__ = "jaxlib.fake"


def test_work_that_read_arrays_of_jax_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX cannot be told until when its memory is read; a call into outputs of PyTorch alone came back before that."""
    waited: list[int] = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: SimpleNamespace(synchronize=lambda: waited.append(index)))
    monkeypatch.setattr(phasor._core, "prepare_attention", lambda *_: None)
    heads, factors = np.ones((5, 2, 8), np.float32), np.ones(5, np.float32)
    given = {"k_cache": phasor.Cache(torch.zeros(1, 5, 2, 8))}
    phasor.prepare_attention(k=heads, **given)
    assert waited == []  # NumPy's memory is the CPU's
    phasor.prepare_attention(k=OfJax(heads, 3), **given)
    assert waited == [3]
    phasor.prepare_attention(k=heads, query_factors=OfJax(factors, 2), **given)
    phasor.prepare_attention(q(), query_factors=OfJax(factors, 0))
    assert waited.pop() == 0
    phasor.prepare_attention(k=heads, positions=OfJax(np.arange(5), 1), **given)
    assert waited == [3, 2, 1]
    bias = phasor.Bias(phasor.Alibi(heads=1))
    bias._core = SimpleNamespace(parameter_count=1, gradient=lambda *_: None, heads=1, fill=lambda *_: None)
    monkeypatch.setattr(phasor._bias, "empty", lambda shape, *_: np.empty(shape))
    bias.gradient(OfJax(np.ones((1, 4)), 4), 0)
    bias(OfJax(np.arange(4), 5), 0, out=np.empty((1, 4, 4)))
    assert waited == [3, 2, 1, 4, 5]
    assert phasor._arrays.returned(OfJax(factors, 6), torch.ones(2)).tolist() == [1, 1] and waited.pop() == 6


def test_arrays_on_a_gpu_come_by_the_protocol_that_orders_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by __cuda_array_interface__ or a copy: torch.from_dlpack asks the array's library to let PyTorch's stream wait."""
    asked: list[Any] = []
    monkeypatch.setattr(torch, "from_dlpack", lambda array: asked.append(array) or torch.arange(5))
    foreign = FakeGpuArray(np.arange(5))
    assert torch.equal(phasor._torch.eager._tensor_of(foreign), torch.arange(5)) and asked == [foreign]
    assert torch.equal(phasor._torch.list_beside(q())(foreign, "slots"), torch.arange(5)) and asked == [foreign, foreign]
    assert phasor._torch.eager._tensor_of(np.arange(5)).tolist() == [0, 1, 2, 3, 4] and len(asked) == 2
