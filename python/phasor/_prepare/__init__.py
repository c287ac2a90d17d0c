# SPDX-License-Identifier: Apache-2.0
"""The step before attention: norm of heads, rotation, quantisation and the write to a cache in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phasor import _core
from phasor._arrays import Array, Positions, gpu_of, is_torch, positions_argument, read, returned, torch_backend
from phasor._numbers import integers, new_like, ungraded, written
from phasor._prepare.call import Cache, CacheScales, HeadNorm, Lists, is_cache, tensor_cache
from phasor._rotary import Rotary
from phasor._spec import TableLayout

__all__ = ["Cache", "CacheScales", "HeadNorm", "prepare_attention"]


def _list(values: Any, name: str) -> Any:
    """Integers of the host as an array; tensors and what is on a GPU stay as they are."""
    if values is None or is_torch(values) or gpu_of(values) is not None:
        return values
    return integers(values, f"prepare_attention: {name}")


def _run(heads: tuple[Any, ...], rotaries: list[Rotary], positions: Positions, call: Lists) -> None:
    ungraded("prepare_attention", *heads, *call.read)
    given = (call.read, call.written, call.numbers, call.reals)
    _core.prepare_attention(heads, [one._core for one in rotaries], positions_argument(positions), given)
    read(*heads, positions, *call.read)
    for array in call.written:
        written(array)


def _into_new(heads: tuple[Any, ...], rotaries: list[Rotary], positions: Positions, call: Lists) -> tuple[Array, ...]:
    outs = [None if x is None else new_like(x) for x in heads]
    call.tensors(outs)
    _run(heads, rotaries, positions, call)
    return tuple([returned(x, out) for x, out in zip(heads, outs) if x is not None])


def prepare_attention(
    q: Array | None = None,
    k: Array | None = None,
    v: Array | None = None,
    *,
    rotary: Rotary | Sequence[Rotary] | None = None,
    positions: Positions = None,
    spec_of: Any = None,
    q_out: Any = None,
    k_cache: Any = None,
    v_cache: Any = None,
    slots: Any = None,
    starts: Any = None,
    kv_indptr: Any = None,
    kv_indices: Any = None,
    requests: Any = None,
    places: Any = None,
    pages_per_request: int = 0,
    places_on_gpu: str = "trusted",
    q_norm: HeadNorm | None = None,
    k_norm: HeadNorm | None = None,
    v_norm: HeadNorm | None = None,
    order: str = "norm_first",
    between: str = "rounded",
    query_scale: float = 1.0,
    query_factors: Any = None,
    q_rotary_offset: int | None = None,
    cos: Any = None,
    sin: Any = None,
    layout: TableLayout | None = None,
) -> Any:
    """Norm, rotation, scale and storage of heads (B, T, H, D) or (T, H, D), in one pass; gives q's result.

    Without caches all that is given comes back in new arrays, in the order q, k, v: `q, k = prepare_attention(q, k, rotary=rope, ...)`.
    Else q goes to `q_out`: a new array where that is None, `q` itself for in place, a Cache for fp8 or int8. k and v go to caches, each a
    Cache or two with some channels each: token by token in their rows (from `starts` on), to `slots` (negative ones and tokens beyond the list
    are skipped), or to pages: of request `requests[i]` at `places[i]`, by kv_indptr and kv_indices, or pages_per_request of kv_indices.
    Several rotaries: token or batch row i turns by rotary[spec_of[i]]. Instead of rotaries: tables `cos` and `sin`, with a TableLayout, as
    apply_rotary takes them; positions are not looked at then. Each step is rounded to the tensor's dtype; between "kept": not.
    All arrays are on one device; on a GPU a place in the cache, and one that no other token has, is the caller's word. To find a mistake,
    places_on_gpu="checked" looks at every place there, too, and waits for that; the CPU always does.

    >>> import numpy as np, phasor
    >>> k, cache = np.ones((2, 1, 4), np.float32), np.zeros((3, 2, 1, 4), np.float32)
    >>> phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[5, 0], k_norm=phasor.HeadNorm(epsilon=3.0))
    >>> cache[:, :, 0, 0].tolist()
    [[0.5, 0.0], [0.0, 0.0], [0.0, 0.5]]
    """
    heads = (q, k, v)
    lists = {"starts": starts, "slots": slots, "kv_indptr": kv_indptr, "kv_indices": kv_indices, "requests": requests, "places": places}
    rotaries = [] if rotary is None else [rotary] if isinstance(rotary, Rotary) else list(rotary)
    first = q if q is not None else k if k is not None else v
    backend = torch_backend() if is_torch(first) else None
    as_list = _list if backend is None else backend.list_beside(first)
    call = Lists()
    call.spec((q_norm, k_norm, v_norm), order, between, query_scale, q_rotary_offset)
    call.numbers.append(call.reads(query_factors, "query_factors"))
    call.numbers.append(call.reads(as_list(spec_of, "spec_of"), "spec_of"))
    call.tables(cos, sin, layout)
    on_gpu = call.number("places_on_gpu", places_on_gpu, ("trusted", "checked"))
    if q_out is None and k_cache is None and v_cache is None and all([values is None for values in lists.values()]):
        outs = _into_new(heads, rotaries, positions, call) if backend is None else backend.prepared(heads, rotaries, positions, call)
        return outs[0] if len(outs) == 1 else outs
    if q is not None and q_out is None:
        q_out = new_like(q)
    call.places({name: as_list(values, name) for name, values in lists.items()}, pages_per_request, on_gpu)
    call.caches(q_out if q_out is None or is_cache(q_out) else tensor_cache(q_out), "q_out")
    call.caches(k_cache, "k_cache")
    call.caches(v_cache, "v_cache")
    if backend is None:
        _run(heads, rotaries, positions, call)
    else:
        backend.prepare_attention(heads, rotaries, positions, call)
    return q_out.array if isinstance(q_out, Cache) else q_out if q_out is None or is_cache(q_out) else returned(q, q_out)
