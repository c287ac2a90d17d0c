# SPDX-License-Identifier: Apache-2.0
"""phasor.prepare_attention as an operator of PyTorch: compiled, exported, with fake tensors, checked by PyTorch's own tests of operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor
from phasor._prepare.call import Lists, tensor_cache
from phasor._torch import words_of

HEADS, KEY_HEADS, DIM, BLOCK = 4, 2, 32, 3
ROPE = phasor.Rotary(head_dim=DIM, base=5e5)
BACKENDS = ("aot_eager", "inductor")


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def heads(count: int, tokens: int = 7, seed: int = 0, dim: int = DIM, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(tokens, count, dim, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(tokens: int = 7, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """q, k, v, a weight, a cache of vLLM's flash layout, slots of which one is skipped."""
    slots = torch.randperm(12 * BLOCK, generator=torch.Generator().manual_seed(3))[:tokens]
    slots[1] = -1
    return {
        "q": heads(HEADS, tokens, 0, dtype=dtype),
        "k": heads(KEY_HEADS, tokens, 1, dtype=dtype),
        "v": heads(KEY_HEADS, tokens, 2, dtype=dtype),
        "weight": heads(1, 1, 4, dtype=dtype)[0, 0],
        "kv": torch.zeros(2, 12, BLOCK, KEY_HEADS, DIM, dtype=dtype),
        "slots": slots,
    }


def step(q: Tensor, k: Tensor, v: Tensor, weight: Tensor, kv: Tensor, slots: Any, at: Any = 5) -> Tensor:
    """A layer of a model with norms of q and k (Qwen 3)."""
    norm = phasor.HeadNorm(weight=weight, cast="before_weight")
    caches = {"k_cache": phasor.Cache(kv[0]), "v_cache": phasor.Cache(kv[1])}
    q = phasor.prepare_attention(q * 1, k, v, rotary=ROPE, positions=at, q_norm=norm, k_norm=norm, slots=slots, **caches)
    return q + kv[0, 0, 0, 0]  # which must see what was written


def mla(kv: Tensor, weight: Tensor, rows: Tensor, slots: Tensor) -> Tensor:
    """DeepSeek's rows of 656 bytes: three slices of one tensor, of three storages, are written."""
    rope = MLA_ROPE
    scales = phasor.CacheScales(kind="made", array=rows[..., 512:528], storage="float32", axes="block token group", group=128)
    latent = phasor.Cache(rows[..., :512], "block token inner", storage="float8_e4m3fn", scales=scales)
    rotated = phasor.Cache(rows[..., 528:], "block token inner", storage="bfloat16", first_channel=512)
    norm = phasor.HeadNorm(weight=weight, width=512, cast="before_weight")
    phasor.prepare_attention(k=kv, rotary=rope, positions=50, k_cache=(latent, rotated), k_norm=norm, slots=slots)
    return rows.int().sum()


MLA_ROPE = phasor.Rotary(head_dim=576, rotary_width=64, rotary_offset=512, pairing="interleaved")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("at", [5, torch.arange(7) * 1000])
def test_compiled_it_writes_what_an_eager_call_writes(backend: str, dtype: torch.dtype, at: Any) -> None:
    eager, compiled = inputs(dtype=dtype), inputs(dtype=dtype)
    want = step(**eager, at=at)
    got = torch.compile(step, fullgraph=True, backend=backend)(**compiled, at=at)
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert torch.equal(compiled["kv"], eager["kv"]) and eager["kv"].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_in_place_and_in_rows_of_several_dtypes(backend: str) -> None:
    def in_place(q: Tensor) -> Tensor:
        phasor.prepare_attention(q, rotary=ROPE, positions=3, q_out=q, query_scale=0.5)
        return q * 2

    eager, compiled = heads(HEADS), heads(HEADS)
    assert torch.equal(torch.compile(in_place, fullgraph=True, backend=backend)(compiled), in_place(eager))
    assert torch.equal(compiled, eager)
    kv, weight = heads(1, dim=576, dtype=torch.bfloat16), torch.rand(512).to(torch.bfloat16)
    before = (torch.arange(4 * 2 * 656) % 251).to(torch.uint8).view(4, 2, 656)  # which must stay in rows that are not written
    rows = [before.clone() for _ in range(2)]
    slots = torch.tensor([5, -1, 0, 3])
    want = mla(kv, weight, rows[0], slots)
    assert torch.compile(mla, fullgraph=True, backend=backend)(kv, weight, rows[1], slots) == want
    assert torch.equal(rows[0], rows[1]) and not torch.equal(rows[0], before)


def test_compiled_views_of_other_dtypes_are_refused() -> None:
    def views(k: Tensor, rows: Tensor) -> Tensor:
        parts = (phasor.Cache(rows[..., :64].view(torch.bfloat16), "block token inner"), phasor.Cache(rows[..., 64:], "block token inner", "int8", first_channel=32))
        phasor.prepare_attention(k=k, k_cache=parts, slots=torch.tensor([1]))
        return rows

    k, rows = heads(1, dim=64, dtype=torch.bfloat16), torch.zeros(4, 2, 96, dtype=torch.uint8)
    views(k, rows)
    with pytest.raises(Exception, match="wanted slices of uint8, each with its storage"):
        torch.compile(views, fullgraph=True, backend="aot_eager")(k, rows)


def test_one_graph_serves_every_length() -> None:
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    counts = torch._dynamo.utils.counters["stats"]
    for tokens in (5, 9, 31):
        eager, given = inputs(tokens), inputs(tokens)
        assert torch.equal(compiled(**given, at=tokens), step(**eager, at=tokens)) and torch.equal(given["kv"], eager["kv"])
        before = counts["unique_graphs"] if tokens == 5 else before  # noqa: F821
    assert counts["unique_graphs"] == before


@pytest.mark.parametrize("slots", [[4, 1, -1, 0, 9, 2], (3, 1), np.array([4, 1, -1, 0, 9, 2], np.int32)])
def test_lists_of_the_host_are_taken_too(slots: Any) -> None:
    eager, compiled, tensor = inputs(), inputs(), inputs()
    tensor["slots"], eager["slots"], compiled["slots"] = torch.as_tensor(slots), slots, slots
    want = step(**tensor)
    assert torch.equal(step(**eager), want) and torch.equal(eager["kv"], tensor["kv"])
    if not isinstance(slots, np.ndarray):
        assert torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(**compiled), want)
        assert torch.equal(compiled["kv"], tensor["kv"])


def arguments(**more: Any) -> tuple[Any, ...]:
    """Of the operator: q to a new tensor, k and v to caches by slots."""
    given = inputs()
    call, norm = Lists(), phasor.HeadNorm(weight=given["weight"])
    call.spec((norm, norm, None), "norm_first", "rounded", 0.5, None)
    call.numbers.extend([-1, -1])
    call.tables(None, None, None)
    call.places({"starts": None, "slots": given["slots"], "kv_indptr": None, "kv_indices": None, "requests": None, "places": None}, 0)
    call.caches(tensor_cache(torch.empty_like(given["q"])), "q_out")
    call.caches(phasor.Cache(given["kv"][0]), "k_cache")
    call.caches(phasor.Cache(given["kv"][1]), "v_cache")
    heads = (given["q"], given["k"], given["v"])
    return *heads, [words_of(ROPE)], torch.arange(7), 0, call.read, call.written, call.numbers, call.reals


def test_opcheck_accepts_the_operator() -> None:
    torch.library.opcheck(torch.ops.phasor.prepare_attention_.default, arguments())


@pytest.mark.parametrize("cut", [0, 1, 5, 30])
def test_numbers_that_are_no_call_are_refused_and_nothing_is_written(cut: int) -> None:
    *rest, written, numbers, reals = arguments()
    written = [torch.zeros_like(x) for x in written]
    for wrong in (numbers[:cut], numbers[:cut] + [99] + numbers[cut + 1 :], [*numbers, 0]):
        with pytest.raises((ValueError, TypeError), match="prepare_attention|weight|slots"):
            torch.ops.phasor.prepare_attention_(*rest, written, wrong, reals)
    with pytest.raises(ValueError, match="reals"):
        torch.ops.phasor.prepare_attention_(*rest, written, numbers, reals[:1])
    assert not any(x.any() for x in written)


def test_fake_and_meta_tensors_have_shapes_only() -> None:
    given = inputs()
    on_meta = {name: x.to("meta") for name, x in given.items()}
    assert step(**on_meta).shape == given["q"].shape
    with FakeTensorMode() as mode:
        fake = {name: mode.from_tensor(x) for name, x in given.items()}
        assert step(**fake).shape == given["q"].shape


def test_exported_with_any_length(tmp_path: Any) -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(inputs()["weight"], requires_grad=False)
            self.register_buffer("kv", inputs()["kv"])

        def forward(self, q: Tensor, k: Tensor, v: Tensor, slots: Tensor, at: Tensor) -> Tensor:
            return step(q, k, v, self.weight, self.kv, slots, at)

    def call(tokens: int) -> tuple[Tensor, ...]:
        given = inputs(tokens)
        return given["q"], given["k"], given["v"], given["slots"], torch.arange(tokens) + 10**9

    length = torch.export.Dim("length", min=2, max=30)
    program = torch.export.export(Layer(), call(7), dynamic_shapes=tuple({0: length} for _ in range(5)))
    torch.export.save(program, tmp_path / "layer.pt2")
    loaded, eager = torch.export.load(tmp_path / "layer.pt2").module(), Layer()
    assert torch.equal(loaded(*call(23)), eager(*call(23)))
    assert torch.equal(loaded.kv, eager.kv) and eager.kv.any()


def test_who_saved_what_is_written_hears_of_it() -> None:
    def by_operator(**given: Any) -> None:
        *rest, written, numbers, reals = arguments()
        torch.ops.phasor.prepare_attention_(*rest, [written[0], given["kv"][0], given["kv"][1]], numbers, reals)

    for call in (step, by_operator):
        given = inputs()
        x = torch.ones(DIM, requires_grad=True)
        product = (given["kv"][0] * x).sum()
        call(**given)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_gradients_are_refused_rather_than_lost() -> None:
    for name in ("q", "k", "v", "weight", "kv"):
        given = inputs()
        given[name].requires_grad_()
        with pytest.raises((ValueError, RuntimeError), match="requires a gradient|leaf Variable"):
            step(**given)
        with pytest.raises(Exception, match="requires a gradient|leaf Variable"):
            torch.compile(step, fullgraph=True, backend="aot_eager")(**given)
        with torch.no_grad():
            step(**given)
    call = list(arguments())
    call[0] = call[0].requires_grad_()
    with pytest.raises(ValueError, match="requires a gradient"):
        torch.ops.phasor.prepare_attention_(*call)
    with torch.inference_mode():
        cache = inputs()["kv"]
        step(**inputs())
    with pytest.raises(RuntimeError, match="inference tensor"):
        step(**{**inputs(), "kv": cache})


NAMES = {"k": "k", "v": "v", "weight": "weight of q_norm", "kv": "k_cache", "slots": "slots"}


@pytest.mark.parametrize("moved", NAMES)
def test_one_tensor_on_another_device_is_refused(moved: str) -> None:
    given = inputs()
    given[moved] = given[moved].to("meta")
    with pytest.raises(ValueError, match=f"prepare_attention: {NAMES[moved]} on meta and q on cpu, wanted one device"):
        step(**given)
    with pytest.raises(ValueError, match="wanted one device"):
        step(**inputs(), at=torch.arange(7, device="meta"))


class Wrapped(torch.Tensor):
    """A subclass that sees the operators of its tensors."""

    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("name", ["q", "k", "kv"])
@pytest.mark.parametrize("slots", ["tensor", "list", "array"])
def test_a_subclass_goes_through_the_operator(name: str, slots: str) -> None:
    eager, wrapped = inputs(), inputs()
    want = step(**eager)
    wrapped["slots"] = {"tensor": wrapped["slots"], "list": wrapped["slots"].tolist(), "array": wrapped["slots"].numpy()}[slots]
    kv = wrapped["kv"]
    wrapped[name] = wrapped[name].as_subclass(Wrapped)
    Wrapped.seen.clear()
    got = step(**wrapped)
    assert any("phasor.prepare_attention_" in name for name in Wrapped.seen)
    assert torch.equal(got.as_subclass(Tensor), want) and torch.equal(kv, eager["kv"])


@pytest.mark.parametrize("slots", ["tensor", "list", "array"])
def test_whoever_looks_on_sees_the_operator(slots: str) -> None:
    seen: list[Any] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    eager, watched, counted, placed = inputs(), inputs(), inputs(), inputs()
    want = step(**eager)
    for given in (watched, counted, placed):
        given["slots"] = {"tensor": given["slots"], "list": given["slots"].tolist(), "array": given["slots"].numpy()}[slots]
    with Watch():
        got = [step(**watched)]
    assert torch.ops.phasor.prepare_attention_.default in seen
    with torch.utils.flop_counter.FlopCounterMode(display=False):
        got.append(step(**counted))
    with torch.device("cpu"):
        got.append(step(**placed))
    assert all(torch.equal(x, want) for x in got)
    assert all(torch.equal(given["kv"], eager["kv"]) for given in (watched, counted, placed))


def test_places_to_be_checked_on_a_gpu_travel_with_the_call() -> None:
    """A GPU alone heeds it: here, that the operator says so, by one of its numbers."""
    seen: list[Any] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.extend([list(args[8])] if function is torch.ops.phasor.prepare_attention_.default else [])
            return function(*args, **(kwargs or {}))

    def call(k: Tensor, cache: Tensor, on_gpu: str) -> Tensor:
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=torch.tensor([3, 2]), places_on_gpu=on_gpu)
        return cache * 1

    k, cache = heads(KEY_HEADS), torch.zeros(4, BLOCK, KEY_HEADS, DIM)
    with Watch():
        want = [call(k, cache.clone(), on_gpu) for on_gpu in ("trusted", "checked")]
    assert [(a, b) for a, b in zip(*seen, strict=True) if a != b] == [(0, 1)]
    got = torch.compile(call, fullgraph=True, backend="aot_eager")(k, cache, "checked")
    assert torch.equal(got, want[0]) and torch.equal(got, want[1]) and torch.equal(cache, got)
    with pytest.raises(ValueError, match="token 1 goes to token 0 of block 4, wanted one of 4 blocks of 3"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=torch.tensor([3, 12]), places_on_gpu="checked")


def test_specs_by_token_are_compiled() -> None:
    ropes = [phasor.Rotary(head_dim=DIM), phasor.Rotary(head_dim=DIM, scaling=phasor.YarnScaling(factor=4, original_length=64))]
    spec_of = torch.tensor([0, 1, 1, 0, 1, 0, 0])

    def call(q: Tensor, spec_of: Tensor) -> Tensor:
        return phasor.prepare_attention(q, rotary=ropes, positions=1000, spec_of=spec_of)

    q = heads(HEADS)
    want = call(q, spec_of)
    assert torch.equal(torch.compile(call, fullgraph=True, backend="aot_eager")(q, spec_of), want)
    each = [rope(q, positions=1000) for rope in ropes]
    assert torch.equal(want, torch.stack([each[s][t] for t, s in enumerate(spec_of.tolist())]))
