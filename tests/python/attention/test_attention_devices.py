# SPDX-License-Identifier: Apache-2.0
"""phasor.attention on a GPU as far as a machine without one can tell: where tensors go, memory that a call works in, what stays on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from attention_oracle import B, CASES, D, HK, TK, TQ, H, Mask, qkv
from fake_gpu import FakeGpuArray
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor
from phasor import _core
from phasor._attention import arrays, call_of, core_tensors, plan_of
from phasor._torch.attention import place as attention_place


def arrays_of(dtype: type = np.float64) -> list[np.ndarray]:
    return [x.detach().numpy().astype(dtype) for x in qkv()]


class Maker:
    """Makes what a call works in, and remembers it; `kind` makes an array of so many bytes."""

    def __init__(self, kind: Any = lambda size: np.full(size, 255, np.uint8)) -> None:
        self.kind, self.asked = kind, []

    def __call__(self, size: int) -> Any:
        self.asked.append(size)
        return self.kind(size)


def called(workspace: Any, name: str = "several") -> tuple[np.ndarray, np.ndarray]:
    """out and the gradient of q, straight from the core."""
    q, k, v = arrays_of()
    case = CASES[name]
    call = call_of(H, case.scheme({key: x.detach().numpy() for key, x in case.tensors().items()}), True, None, {})
    out, lse, by_q = np.empty(q.shape), np.empty((*q.shape[:3], 1)), np.empty(q.shape)
    plan, tensors = plan_of(call.scheme), core_tensors(call.tensors)
    _core.attention((q, k, v), plan, tensors, out, lse, workspace)
    _core.attention_backward((q, k, v), plan, tensors, (out, lse, np.ones_like(out), None), (by_q, None, None, None, None), None, workspace)
    return out, by_q


@pytest.mark.parametrize("kind", [lambda size: np.full(size, 255, np.uint8), lambda size: torch.full((size,), 255, dtype=torch.uint8)])
def test_a_call_works_in_memory_that_it_is_given(kind: Any) -> None:
    make = Maker(kind)
    assert all(np.array_equal(a, b) for a, b in zip(called(make), called(None)))
    assert make.asked and all(size > 0 for size in make.asked)


class NoMemory(Exception):
    pass


def test_what_making_memory_raises_is_raised() -> None:
    def fails(size: int) -> Any:
        raise NoMemory(f"{size} bytes")

    with pytest.raises(NoMemory, match="bytes"):
        called(fails)
    assert np.isfinite(called(None)[0]).all()  # the next call is as ever


@pytest.mark.parametrize(
    "kind",
    [
        lambda size: np.empty(size // 2, np.uint8),
        lambda size: np.empty(2 * size, np.uint8)[::2],
        lambda size: np.empty(size, np.float64),
        lambda size: np.empty((size, 1), np.uint8),
    ],
)
def test_memory_of_another_kind_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="workspace made another array than .* bytes"):
        called(kind)


def test_weights_work_in_memory_that_they_are_given() -> None:
    q, k, _ = arrays_of()
    call, make = call_of(H, phasor.Alibi(), True, None, {}), Maker()
    made = np.empty((B, TQ, H, TK))
    _core.attention_weights((q, k, k), plan_of(call.scheme), core_tensors(call.tensors), (0, 0, 0), made, None, make)
    assert make.asked and np.array_equal(made, phasor.attention_weights(q, k, phasor.Alibi(), causal=True))


def test_memory_is_made_beside_arrays_of_a_gpu_alone() -> None:
    assert arrays.workspace_beside(np.ones(3)) is None and arrays.workspace_beside(torch.ones(3)) is None
    assert callable(arrays.workspace_beside(FakeGpuArray(np.ones(3))))


def test_arrays_of_a_gpu_are_not_brought_to_the_host() -> None:
    there = FakeGpuArray(np.arange(4))
    assert arrays.on_host_or_gpu(there) is there and arrays.integer_list(there, "prefix") is there
    assert arrays.on_host_or_gpu([1.0]).tolist() == [1.0]


# ---- Tensors that are not on the CPU: those of the meta device have shapes alone. A PyTorch without CUDA has fake tensors of it, but neither
# indices nor gradients of them: what takes those is in tests/python/gpu. ----


@pytest.mark.parametrize("name", CASES)
def test_every_scheme_has_its_gradients_where_its_tensors_are(name: str) -> None:
    case = CASES[name]
    tokens = case.tokens
    shapes = ((B, tokens[0], H, D), (B, tokens[1], HK, D), (B, tokens[1], HK, D))
    inputs = [torch.empty(shape, device="meta", requires_grad=True) for shape in shapes]
    x = {key: torch.empty(shape, device="meta", requires_grad=True) for key, shape in case.shapes.items()}
    scheme = case.scheme(x)
    if name == "xlnet":
        scheme = phasor.XLNet(scheme.xl, x["e"], x["s"], *(torch.zeros(B, n, dtype=torch.int64, device="meta") for n in tokens))
    out, lse = phasor.attention(*inputs, scheme, return_lse=True, **Mask(**case.mask).options())
    (out.sum() + lse.sum()).backward()
    assert out.is_meta and lse.is_meta and out.shape == inputs[0].shape
    for given in (*inputs, *x.values()):
        assert given.grad.is_meta and given.grad.shape == given.shape and given.grad.dtype == given.dtype


def test_a_call_may_have_everything_that_goes_with_it() -> None:
    q, k, v = (x.detach().to("meta", torch.bfloat16) for x in qkv())
    mask, at = torch.ones(B, TK, dtype=torch.bool, device="meta"), torch.arange(TQ, device="meta")
    options = {"sinks": torch.zeros(H, device="meta"), "key_mask": mask, "query_positions": at, "dropout": 0.5}
    out, lse = phasor.attention(q, k, v, phasor.Alibi(), True, out_dtype=torch.float32, return_lse=True, **options)
    assert out.is_meta and out.dtype == torch.float32 and lse.shape == (B, TQ, H)
    starts = torch.zeros(3, dtype=torch.int32, device="meta")
    assert phasor.attention(q[0], k[0], v[0], cu_seqlens=(starts, starts), prefix=starts).shape == (TQ, H, D)


# ---- What is on no device goes to that of q ----


def test_lists_and_arrays_of_the_host_go_where_q_is() -> None:
    q, k, v = (x.detach().to("meta") for x in qkv())
    mask = np.ones((B, TK), bool)
    options = {"prefix": [1, 2], "key_mask": mask, "query_positions": [1, 5, 2, 3, 4], "key_positions": 3, "sinks": np.zeros(H)}
    assert phasor.attention(q, k, v, phasor.T5(np.ones((H, 32))), True, **options).is_meta
    call = call_of(H, phasor.T5(np.ones((H, 32))), True, None, dict(options))
    attention_place.put_beside(call, q, k)
    moved = [*(call.tensors[name] for name in ("prefix", "key_mask", "query_positions", "sinks")), call.tensors["terms"][0]["parameters"]]
    assert all(x.is_meta for x in moved) and call.tensors["key_positions"] == 3
    segments = phasor.XLNet(phasor.TransformerXL(torch.ones(3, H, D, device="meta"), 1), torch.ones(2, H, D, device="meta"))
    segments = phasor.XLNet(segments.xl, segments.segment_table, None, [0] * TQ, np.zeros(TK, np.int64))
    assert phasor.attention(q, k, v, segments).is_meta


def on_cuda() -> Any:
    """q and k of a GPU, of which a fake tensor says no more than where it is."""
    with FakeTensorMode():
        return [torch.empty(shape, device="cuda") for shape in ((B, TQ, H, D), (B, TK, HK, D))]


def test_what_the_host_has_is_refused_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k = on_cuda()
    for name in ("is_initialized", "is_current_stream_capturing"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    for name, value in (("prefix", [1, 2]), ("key_mask", np.ones((B, TK), bool)), ("sinks", np.zeros(H, np.float32))):
        with pytest.raises(ValueError, match=f"attention: {name} is on the CPU while a CUDA graph is captured, wanted a tensor on cuda"):
            attention_place.put_beside(call_of(H, None, True, None, {name: value}), q, k)
    with pytest.raises(ValueError, match="while a CUDA graph is captured"):
        attention_place.put_beside(call_of(H, None, True, None, {"query_positions": [0, 2, 1, 3, 4]}), q, k)
    call = call_of(H, None, True, None, {"query_positions": range(2, 2 + TQ), "key_positions": np.arange(TK)})
    attention_place.put_beside(call, q, k)
    assert (call.tensors["query_positions"], call.tensors["key_positions"]) == (2, 0)  # offsets need no memory


# ---- A dropout seed is the CPU's ----


def test_the_seed_stays_on_the_cpu() -> None:
    q, k, v = qkv()
    state = torch.get_rng_state()
    with torch.device("meta"):  # a default device
        out = phasor.attention(q, k, v, dropout=0.5)
    torch.set_rng_state(state)
    assert torch.equal(out, phasor.attention(q, k, v, dropout=0.5))


def test_a_seed_is_drawn_without_asking_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    q, _ = on_cuda()
    assert attention_place.seed_beside(q, None).is_cpu
    given = torch.tensor([1, 2])
    assert attention_place.seed_beside(q, given) is given
    with pytest.raises(ValueError, match="attention: dropout_seed is on cuda:0, wanted it on the CPU"):
        attention_place.seed_beside(q, q)
    for name in ("is_initialized", "is_current_stream_capturing"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    with pytest.raises(ValueError, match="dropout without dropout_seed while a CUDA graph is captured"):
        attention_place.seed_beside(q, None)
    assert attention_place.seed_beside(q, given) is given


def test_a_seed_on_the_cpu_goes_with_tensors_elsewhere() -> None:
    q, k, v = (x.detach().to("meta").requires_grad_() for x in qkv())
    phasor.attention(q, k, v, dropout=0.5, dropout_seed=torch.tensor([1, 2])).sum().backward()
    assert q.grad.is_meta
