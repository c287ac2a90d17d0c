# SPDX-License-Identifier: Apache-2.0
"""The step before attention on a GPU, from Python: the CPU's bits in every layout, compiled, captured and replayed, on any stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import phasor
from cases import DEVICE, ON_GPU, NotRun, module_or_not_run, needs_gpu, numbers, raises, same_bits
from phasor._arrays import gpu_of

TOKENS, HEADS, KEY_HEADS, DIM, BLOCK = 7, 5, 2, 64, 3
DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # float64 is refused: a step of inference
ROPE = phasor.Rotary(head_dim=DIM, base=5e5)
YARN = phasor.Rotary(head_dim=DIM, base=5e5, scaling=phasor.YarnScaling(factor=4, original_length=4096))
MLA = phasor.Rotary(head_dim=576, rotary_width=64, rotary_offset=512, pairing="interleaved")
MLA_584 = phasor.Rotary(head_dim=512, rotary_width=64, rotary_offset=448, pairing="interleaved")
SLOTS = torch.tensor([3, -1, 20, 11, 7, 2])  # one skipped, the last token beyond the list

Made = tuple[Tensor, ...]
Tensors = dict[str, Tensor]


def heads(dtype: torch.dtype, count: int, seed: int = 0, dim: int = DIM) -> Tensor:
    return numbers(TOKENS, count, dim, dtype=dtype, seed=seed)


def qkv(dtype: torch.dtype) -> Tensors:
    """Slices of one packed row, as a projection gives them, with something between them that is left alone."""
    packed = numbers(TOKENS, HEADS + 2 * KEY_HEADS + 1, DIM, dtype=dtype, seed=9)
    return {"q": packed[:, :HEADS], "k": packed[:, HEADS : HEADS + KEY_HEADS], "v": packed[:, -KEY_HEADS:]}


def weight_of(dtype: torch.dtype) -> Tensor:
    return heads(dtype, 1, 5)[0, 0]


# ---- Layouts: the tensors of a call, and the call, which gives all that it wrote ----


def flash_tensors(dtype: torch.dtype) -> Tensors:
    kv = torch.zeros(2, 8, BLOCK, KEY_HEADS, DIM, dtype=dtype)
    return {**qkv(dtype), "weight": weight_of(dtype), "kv": kv, "slots": SLOTS, "at": torch.arange(TOKENS) * 1000}


def flash(q: Tensor, k: Tensor, v: Tensor, weight: Tensor, kv: Tensor, slots: Any, at: Tensor) -> Made:
    """vLLM's flash layout by slots, with Qwen 3's norms."""
    norm = phasor.HeadNorm(weight=weight, cast="before_weight")
    caches = {"k_cache": phasor.Cache(kv[0]), "v_cache": phasor.Cache(kv[1])}
    return phasor.prepare_attention(q, k, v, rotary=ROPE, positions=at, q_norm=norm, k_norm=norm, slots=slots, **caches), kv


def older_tensors(dtype: torch.dtype) -> Tensors:
    found = qkv(dtype)
    keys, values = (torch.zeros(shape, dtype=torch.uint8) for shape in ((8, KEY_HEADS, DIM // 16, BLOCK, 16), (8, KEY_HEADS, DIM, BLOCK)))
    del found["q"]
    return {**found, "weight": weight_of(dtype), "keys": keys, "values": values, "scale": torch.tensor([0.5, 3.0]), "slots": SLOTS.int()}


def older(k: Tensor, v: Tensor, weight: Tensor, keys: Tensor, values: Tensor, scale: Tensor, slots: Tensor) -> Made:
    """vLLM's older layout in float8, with scales of each head; the norm is Gemma's."""
    k_cache = phasor.Cache(keys.view(torch.float8_e4m3fn), "block head outer token inner", scales=phasor.CacheScales(array=scale))
    v_cache = phasor.Cache(values, "block head inner token", storage="float8_e5m2", scales=phasor.CacheScales(value=0.25, use="multiply"))
    norm = phasor.HeadNorm(weight=weight, weight_as="one_plus")
    phasor.prepare_attention(k=k, v=v, rotary=ROPE, positions=9, k_norm=norm, k_cache=k_cache, v_cache=v_cache, slots=slots)
    return keys, values


def pages_tensors(dtype: torch.dtype) -> Tensors:
    return {
        **qkv(dtype),
        "weight": weight_of(dtype),
        "stored": torch.zeros(6, 2, KEY_HEADS, BLOCK, DIM, dtype=torch.int8),
        "made": torch.zeros(6, BLOCK, KEY_HEADS, 2),
        "factors": numbers(TOKENS, seed=8),
        "at": torch.arange(TOKENS) * 1000,
        "indptr": torch.tensor([0, 2, 5]),
        "indices": torch.tensor([5, 1, 4, 0, 2]),
        "requests": torch.tensor([0, 0, 0, 1, 1, 1, 1]),
        "places": torch.tensor([0, 1, 4, 0, 1, 2, 3]),
    }


def pages(q: Tensor, k: Tensor, v: Tensor, weight: Tensor, stored: Tensor, made: Tensor, factors: Tensor, at: Tensor, **lists: Tensor) -> Made:
    """FlashInfer's pages; rotation first; factors on queries; values normed too; made scales of int8."""
    scales = phasor.CacheScales(kind="made", array=made, axes="block token head group", group=DIM // 2)
    out = phasor.prepare_attention(
        q, k, v, rotary=ROPE, positions=at, order="rotation_first", between="kept", query_scale=0.125, query_factors=factors,
        q_norm=phasor.HeadNorm(weight=weight), k_norm=phasor.HeadNorm(kind="l2", weight=weight, epsilon=1e-3), v_norm=phasor.HeadNorm(),
        k_cache=phasor.Cache(stored[:, 0], "block head token inner", scales=scales),
        v_cache=phasor.Cache(stored[:, 1], "block head token inner"),
        kv_indptr=lists["indptr"], kv_indices=lists["indices"], requests=lists["requests"], places=lists["places"],
    )  # fmt: skip
    return out, stored, made


def rows_tensors(dtype: torch.dtype) -> Tensors:
    return {
        "q": numbers(2, TOKENS, HEADS, DIM, dtype=dtype),
        "k": numbers(2, TOKENS, KEY_HEADS, DIM, dtype=dtype, seed=1),
        "cache": torch.zeros(2, 3 * TOKENS, KEY_HEADS, DIM, dtype=dtype),
        "weight": numbers(HEADS, DIM, dtype=dtype, seed=2),
        "spec_of": torch.tensor([1, 0]),
        "at": torch.tensor([[4], [900]]) + torch.arange(TOKENS),
        "starts": torch.tensor([2, 9], dtype=torch.int32),
    }


def rows(q: Tensor, k: Tensor, cache: Tensor, weight: Tensor, spec_of: Tensor, at: Tensor, starts: Tensor) -> Made:
    """A contiguous cache, batch rows from their starts on, q in place, a norm over all heads, specs by row."""
    norm = phasor.HeadNorm(weight=weight, over="all_heads")
    more = {"k_cache": phasor.Cache(cache), "starts": starts}
    phasor.prepare_attention(q, k, rotary=[ROPE, YARN], spec_of=spec_of, positions=at, q_out=q, q_norm=norm, **more)
    return q, cache


def mla_tensors(dtype: torch.dtype) -> Tensors:
    kv, weight = heads(torch.bfloat16, 1, dim=576), numbers(512, dtype=torch.bfloat16, seed=3)
    return {"kv": kv, "weight": weight, "stored": (torch.arange(8 * BLOCK * 656) % 251).to(torch.uint8).view(8, BLOCK, 656), "slots": SLOTS}


def mla(kv: Tensor, weight: Tensor, stored: Tensor, slots: Tensor) -> Made:
    """DeepSeek's rows of 656 bytes: float8 with four scales, and 64 rotated channels."""
    scales = phasor.CacheScales(kind="made", array=stored[..., 512:528], storage="float32", axes="block token group", group=128)
    latent = phasor.Cache(stored[..., :512], "block token inner", storage="float8_e4m3fn", scales=scales)
    rotated = phasor.Cache(stored[..., 528:], "block token inner", storage="bfloat16", first_channel=512)
    norm = phasor.HeadNorm(weight=weight, width=512, cast="before_weight")
    phasor.prepare_attention(k=kv, rotary=MLA, positions=50, k_cache=(latent, rotated), k_norm=norm, slots=slots)
    return (stored,)


def mla_584_tensors(dtype: torch.dtype) -> Tensors:
    stored = (torch.arange(8 * BLOCK * 584) % 251).to(torch.uint8).view(8, BLOCK * 584)
    return {"kv": heads(torch.bfloat16, 1, dim=512), "weight": numbers(512, dtype=torch.bfloat16, seed=3), "stored": stored, "slots": SLOTS}


def mla_584(kv: Tensor, weight: Tensor, stored: Tensor, slots: Tensor) -> Made:
    """DeepSeek's rows of 584 bytes: float8 and 64 rotated channels, and behind those of a block seven powers of two for each token."""
    rows, powers = stored[:, : BLOCK * 576].view(8, BLOCK, 576), stored[:, BLOCK * 576 :].view(8, BLOCK, 8)[..., :7]
    scales = phasor.CacheScales(kind="made", array=powers, axes="block token group", group=64, least=1e-4 / 448)
    latent = phasor.Cache(rows[..., :448], "block token inner", storage="float8_e4m3fn", scales=scales)
    rotated = phasor.Cache(rows[..., 448:], "block token inner", storage="bfloat16", first_channel=448)
    norm = phasor.HeadNorm(weight=weight)
    phasor.prepare_attention(k=kv, rotary=MLA_584, positions=50, k_cache=(latent, rotated), k_norm=norm, slots=slots)
    return (stored,)


LAYOUTS: dict[str, tuple[Callable[..., Tensors], Callable[..., Made]]] = {
    "flash": (flash_tensors, flash),
    "older": (older_tensors, older),
    "pages": (pages_tensors, pages),
    "rows": (rows_tensors, rows),
    "MLA": (mla_tensors, mla),
    "MLA of 584 bytes": (mla_584_tensors, mla_584),
}


def here(tensors: Tensors) -> Tensors:
    return {name: x.clone() for name, x in tensors.items()}


def there(tensors: Tensors) -> Tensors:
    """On the device of the test, with the strides that they have here: slices of packed rows stay such."""
    return {name: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=DEVICE).copy_(x) for name, x in tensors.items()}


def test_every_layout_has_the_bits_of_the_cpu() -> None:
    for name, (tensors, call) in LAYOUTS.items():
        for dtype in DTYPES:
            got, wanted = call(**there(tensors(dtype))), call(**here(tensors(dtype)))
            assert all(x.device.type == DEVICE for x in got)
            assert same_bits(got, wanted), (name, dtype)
            assert all(x.any() for x in wanted), name


def test_lists_of_the_host_follow_the_heads() -> None:
    wanted = flash(**here(flash_tensors(torch.bfloat16)))
    for slots in (SLOTS.tolist(), SLOTS.numpy(), SLOTS.int().numpy()):
        assert same_bits(flash(**{**there(flash_tensors(torch.bfloat16)), "slots": slots}), wanted)


def test_what_is_on_another_device_is_refused_and_nothing_is_written() -> None:
    needs_gpu()
    cache = torch.zeros(8, BLOCK, KEY_HEADS, DIM, device=DEVICE)
    k = heads(torch.float32, KEY_HEADS).to(DEVICE)
    call: dict[str, Any] = {"k": k, "k_cache": phasor.Cache(cache), "slots": SLOTS.to(DEVICE), "rotary": ROPE, "positions": torch.arange(TOKENS, device=DEVICE)}
    wrong: dict[str, Any] = {
        "k": k.cpu(),
        "k_cache": phasor.Cache(cache.cpu()),
        "slots": SLOTS,
        "positions": torch.arange(TOKENS),
        "k_norm": phasor.HeadNorm(weight=torch.ones(DIM)),
    }
    for name, value in wrong.items():
        with raises(ValueError, "wanted one device"):
            phasor.prepare_attention(**{**call, name: value})
        with raises(Exception, "wanted one device"):  # dynamo wraps it
            torch.compile(lambda: phasor.prepare_attention(**{**call, name: value}), backend="eager", fullgraph=True)()  # noqa: B023
    with raises(TypeError, "int32 or int64"):
        phasor.prepare_attention(**{**call, "slots": SLOTS.to(DEVICE).short()})
    with raises(ValueError, "wanted|heads"):
        phasor.prepare_attention(**{**call, "k": heads(torch.float32, KEY_HEADS + 1).to(DEVICE)})
    torch.cuda.synchronize()
    assert not cache.any()


def test_places_outside_of_a_cache_are_found_where_that_is_asked_for() -> None:
    k = numbers(4, 1, 8).to(DEVICE)
    sound = torch.tensor([5, 0, -1, 3]).to(DEVICE)
    wrong: dict[str, dict[str, Any]] = {
        "token 2 goes to token 0 of block 3, wanted one of 3 blocks of 2": {"slots": [0, -1, 6, 99]},
        "places.1. is 4, beyond the 2 pages of request 0": {"kv_indices": [0, 1], "pages_per_request": 2, "places": [1, 4, 2, 5], "requests": [0] * 4},
        "page 1 of request 0 is 3, wanted 0 to 2": {"kv_indptr": [0, 2], "kv_indices": [0, 3], "places": [1, 2, 0, 3], "requests": [0] * 4},
    }

    def call(cache: Tensor, **places: Any) -> Tensor:
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), places_on_gpu="checked", **places)
        return cache * 1

    for says, places in wrong.items():
        cache = torch.zeros(3, 2, 1, 8, device=DEVICE)
        given = {name: torch.tensor(x).to(DEVICE) if isinstance(x, list) else x for name, x in places.items()}
        with raises(ValueError, says):
            call(cache, **given)
        with raises(Exception, says):
            torch.compile(call, fullgraph=True, backend="aot_eager")(cache, **given)
        assert not cache.any()
    wanted = torch.zeros(3, 2, 1, 8)
    phasor.prepare_attention(k=k.cpu(), k_cache=phasor.Cache(wanted), slots=sound.cpu())
    assert same_bits(call(cache, slots=sound), wanted)
    assert same_bits(torch.compile(call, fullgraph=True, backend="aot_eager")(torch.zeros_like(cache), slots=sound), wanted)


def test_places_to_be_checked_are_refused_in_a_capture() -> None:
    needs_gpu()
    k, slots, cache = numbers(4, 1, 8).to(DEVICE), torch.tensor([5, 0, -1, 3], device=DEVICE), torch.zeros(3, 2, 1, 8, device=DEVICE)
    call: dict[str, Any] = {"k": k, "k_cache": phasor.Cache(cache), "slots": slots}
    phasor.prepare_attention(**call)
    torch.cuda.synchronize()
    cache.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with raises(NotImplementedError, "places are to be checked on a stream that is being captured"):
            phasor.prepare_attention(**call, places_on_gpu="checked")
        phasor.prepare_attention(**call)  # the capture goes on
    assert not cache.any()
    graph.replay()
    assert cache.any()


def test_compiled_in_one_graph() -> None:
    for name, (tensors, call) in LAYOUTS.items():
        wanted = call(**here(tensors(torch.bfloat16)))
        for backend in ("aot_eager", "inductor") if ON_GPU else ("aot_eager",):
            torch._dynamo.reset()
            got = torch.compile(call, fullgraph=True, backend=backend)(**there(tensors(torch.bfloat16)))
            assert same_bits(got, wanted), (name, backend)


def test_opcheck() -> None:
    seen: list[Any] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.phasor.prepare_attention_.default:
                seen.append(args)
            return function(*args, **(kwargs or {}))

    for tensors, call in LAYOUTS.values():
        with Watch():
            call(**there(tensors(torch.float32)))
    assert len(seen) == len(LAYOUTS)
    for args in seen:
        if any(x.element_size() == 1 for x in args[7]):
            continue  # PyTorch cannot compare float8
        torch.library.opcheck(torch.ops.phasor.prepare_attention_.default, args)


def test_a_graph_is_replayed_with_other_slots_and_positions() -> None:
    needs_gpu()
    for dtype in DTYPES:
        given = there(flash_tensors(dtype))
        flash(**given)  # what a first call loads is loaded
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out, kv = flash(**given)
        for step in range(4):
            chosen = torch.randperm(8 * BLOCK, generator=torch.Generator().manual_seed(step))[: len(SLOTS)]
            chosen[step] = -1
            at = torch.arange(TOKENS) + 1000**step
            given["kv"].zero_()
            given["slots"].copy_(chosen)
            given["at"].copy_(at)
            graph.replay()
            wanted = flash(**{**here(flash_tensors(dtype)), "slots": chosen, "at": at})
            assert same_bits((out, kv), wanted), (dtype, step)


def test_lists_of_the_host_are_refused_in_a_capture() -> None:
    needs_gpu()
    k, cache = heads(torch.float32, KEY_HEADS).to(DEVICE), torch.zeros(8, BLOCK, KEY_HEADS, DIM, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), raises(ValueError, "while a CUDA graph is captured"):
        phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[0, 1, 2])


def test_a_call_comes_after_what_its_stream_does_and_does_not_wait() -> None:
    needs_gpu()
    values = heads(torch.bfloat16, KEY_HEADS)
    wanted = torch.zeros(8, BLOCK, KEY_HEADS, DIM, dtype=torch.bfloat16)
    phasor.prepare_attention(k=values, k_cache=phasor.Cache(wanted), slots=SLOTS, rotary=ROPE, positions=3)
    source, chosen = values.to(DEVICE), SLOTS.to(DEVICE)
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            k, slots = torch.zeros_like(source), torch.full_like(chosen, -1)
            cache = torch.zeros_like(wanted, device=DEVICE)
            phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=slots, rotary=ROPE, positions=3)  # what a first call loads
            stream.synchronize()
            torch.cuda._sleep(200_000_000)
            k.copy_(source)
            slots.copy_(chosen)
            busy = stream.record_event()
            phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=slots, rotary=ROPE, positions=3)
            assert not busy.query(), "a call waited for the GPU"
            after = cache.clone()
            cache.zero_()  # comes after the call
        stream.synchronize()
        assert same_bits(after, wanted)


def test_arrays_of_cupy() -> None:
    needs_gpu()
    cupy = module_or_not_run("cupy")
    q = heads(torch.float32, HEADS).numpy()
    wanted = np.zeros((8, BLOCK, HEADS, DIM), np.float32)
    wanted_q = phasor.prepare_attention(q, q, rotary=ROPE, positions=4, k_cache=phasor.Cache(wanted), slots=SLOTS.numpy())
    with cupy.cuda.Stream(non_blocking=True):
        given, cache = cupy.asarray(q), cupy.zeros_like(cupy.asarray(wanted))
        call = {"rotary": ROPE, "positions": 4, "k_cache": phasor.Cache(cache)}
        out = phasor.prepare_attention(given, given, slots=cupy.asarray(SLOTS.numpy()), **call)
        assert isinstance(out, cupy.ndarray) and (cupy.asnumpy(out) == wanted_q).all() and (cupy.asnumpy(cache) == wanted).all()
        with raises(ValueError, "slots"):
            phasor.prepare_attention(given, given, slots=SLOTS.numpy(), **call)  # memory of the host


def test_arrays_of_jax() -> None:
    needs_gpu()
    module_or_not_run("jax")
    import jax.numpy as jnp

    q = heads(torch.float32, HEADS).numpy()
    given = jnp.asarray(q)
    if gpu_of(given) is None:
        raise NotRun("JAX here has no GPU")
    out = phasor.prepare_attention(given, rotary=ROPE, positions=4, q_norm=phasor.HeadNorm())
    assert type(out).__module__.startswith("jax")
    assert (np.asarray(out) == phasor.prepare_attention(q, rotary=ROPE, positions=4, q_norm=phasor.HeadNorm())).all()
    with raises(ValueError, "JAX, which cannot change"):
        phasor.prepare_attention(k=given, k_cache=phasor.Cache(given, "token head inner"))
