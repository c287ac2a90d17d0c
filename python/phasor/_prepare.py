# SPDX-License-Identifier: Apache-2.0
"""The step before attention: norm of heads, rotation, quantisation and the write to a cache in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasor import _core
from phasor._arrays import Array, Positions, is_torch, positions_argument
from phasor._numbers import integers, new_like, one_device, ungraded, written
from phasor._rotary import Rotary

__all__ = ["Cache", "CacheScales", "HeadNorm", "prepare_attention"]

_STORAGES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
_AXES = ("layer", "block", "token", "head", "outer", "inner")
_SCALE_AXES = ("block", "token", "head", "group")


def _number(where: str, value: str, names: tuple[str, ...]) -> int:
    if value not in names:
        raise ValueError(f"prepare_attention: {where} is {value!r}, wanted {', '.join(map(repr, names))}")
    return names.index(value)


def _dtype_name(array: Array) -> str:
    return str(array.dtype).removeprefix("torch.")


def _memory(array: Array, name: str, is_written: bool) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Address, shape and strides in elements."""
    if is_torch(array):
        if array.device.type != "cpu":
            raise NotImplementedError(f"prepare_attention: {name} is on {array.device}, wanted memory of the CPU")
        return array.data_ptr(), tuple(array.shape), tuple(array.stride())
    if not isinstance(array, np.ndarray):
        raise TypeError(f"prepare_attention: {name} is {type(array).__name__}, wanted a NumPy array or a PyTorch tensor")
    if is_written and not array.flags.writeable:
        raise ValueError(f"prepare_attention: {name} is read-only, wanted memory that may be written")
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(f"prepare_attention: {name} has strides that are no multiple of its elements")
    return array.ctypes.data, array.shape, tuple(stride // array.itemsize for stride in array.strides)


def _by_axis(array: Array, axes: str, names: tuple[str, ...], name: str, *, is_written: bool = True) -> tuple[int, list[int], list[int]]:
    """Address, extents and strides by the names of the axes; one that is not there has extent 1 and stride 0."""
    address, shape, strides = _memory(array, name, is_written)
    given = axes.split()
    if len(given) != len(shape) or len(set(given)) != len(given) or not set(given) <= set(names):
        raise ValueError(f"prepare_attention: {name} has axes {axes!r} and {len(shape)} axes, wanted each once, of {', '.join(names)}")
    extents, steps = [1] * len(names), [0] * len(names)
    for axis, extent, stride in zip(given, shape, strides, strict=True):
        extents[names.index(axis)], steps[names.index(axis)] = extent, stride
    return address, extents, steps


@dataclass(frozen=True)
class HeadNorm:
    """A norm of heads. weight is (D) or (H, D); `over` is "head" or "all_heads"; `width`: the first channels alone, 0 all of them.

    rms: x / sqrt(mean(x^2) + epsilon), l2: x / sqrt(sum(x^2) + epsilon). weight_as "one_plus" multiplies by 1 + weight; cast says whether
    the normed head is rounded to its dtype "before_weight" (Llama, Qwen 3) or "after_weight" (Gemma).
    """

    kind: str = "rms"
    weight: Any = None
    over: str = "head"
    weight_as: str = "plain"
    cast: str = "after_weight"
    epsilon: float = 1e-6
    width: int = 0


@dataclass(frozen=True)
class CacheScales:
    """Scales of a cache. given: `value`, or `array` with the axis "head". made: for each token, head and group, written to `array`.

    `axes` names the axes of the array, of block, token, head and group. An array of uint8 holds powers of two (ue8m0), else float32. use
    says whether values are divided by a scale or multiplied with it (made ones: with its reciprocal).
    """

    kind: str = "given"
    value: float = 1.0
    array: Any = None
    axes: str = "head"
    use: str = "divide"
    group: int = 0
    least: float = 2.0**-126


@dataclass(frozen=True)
class Cache:
    """Memory of a cache, by what each axis means: layer, block, token, head, outer and inner (channel c is at (c // x, c % x), x the inner).

    vLLM's flash layout (2, blocks, block, H, D) is Cache(kv[0]) and Cache(kv[1]); its older keys (blocks, H, D / x, block, x) are
    Cache(keys, "block head outer token inner"), values Cache(values, "block head inner token"); FlashInfer's HND pages are
    Cache(pages[:, 0], "block head token inner"); SGLang's slots Cache(slots, "block head inner"). `storage` is the dtype of the array,
    or given where that is uint8: float8_e4m3fn, float8_e5m2, int8. A part of a head begins with `first_channel`.
    """

    array: Any
    axes: str = "block token head inner"
    storage: str | None = None
    first_channel: int = 0
    layer: int = 0
    scales: CacheScales | None = None


def _scale_extents(scales: CacheScales, cache: list[int]) -> list[tuple[int, ...]]:
    """What extents an array of scales may have on its axes beside a cache of these extents."""
    _, blocks, block, heads, outer, inner = cache
    if scales.kind == "given":
        return [(1,), (1,), (1, heads), (1,)]
    return [(blocks,), (block,), (heads,), (-(-outer * inner // scales.group) if scales.group > 0 else 1,)]


def _scales(scales: CacheScales, cache: list[int]) -> tuple[list[int], float, float]:
    address, steps, code = 0, [0] * 4, 0
    kind = 1 + _number("kind of scales", scales.kind, ("given", "made"))
    if scales.array is not None:
        address, extents, steps = _by_axis(scales.array, scales.axes, _SCALE_AXES, "scales", is_written=scales.kind == "made")
        code = _number("dtype of scales", _dtype_name(scales.array), ("float32",) if scales.kind == "given" else ("float32", "uint8"))
        for axis, extent, wanted in zip(_SCALE_AXES, extents, _scale_extents(scales, cache), strict=True):
            if extent not in wanted:
                expected = " or ".join(map(str, wanted))
                raise ValueError(f"prepare_attention: {scales.kind} scales have {extent} on the axis {axis!r}, wanted {expected}")
    return [kind, _number("use of scales", scales.use, ("divide", "multiply")), code, address, *steps, scales.group], scales.value, scales.least


def _part(cache: Cache, name: str) -> tuple[list[int], Any]:
    address, extents, steps = _by_axis(cache.array, cache.axes, _AXES, name)
    storage = cache.storage or _dtype_name(cache.array)
    number = _number(f"storage of {name}", storage, _STORAGES)
    size = (4, 2, 2, 1, 1, 1)[number]
    if cache.array.dtype.itemsize != size:
        raise ValueError(f"prepare_attention: {name} is of {_dtype_name(cache.array)}, wanted elements of {size} bytes for {storage}")
    scales = None if cache.scales is None else _scales(cache.scales, extents)
    return [address, number, *extents, *steps, cache.layer, cache.first_channel], scales


def _parts(caches: Any, name: str) -> list[tuple[list[int], Any]]:
    if caches is None:
        return []
    return [_part(cache, name) for cache in (caches if isinstance(caches, (list, tuple)) else (caches,))]


def _norm(norm: HeadNorm | None) -> Any:
    if norm is None:
        return None
    numbers = [
        1 + _number("kind of a norm", norm.kind, ("rms", "l2")),
        _number("over", norm.over, ("head", "all_heads")),
        _number("weight_as", norm.weight_as, ("plain", "one_plus")),
        _number("cast", norm.cast, ("after_weight", "before_weight")),
        norm.width,
    ]
    weight = norm.weight
    if weight is not None:
        ungraded("prepare_attention", weight)
        weight = weight.detach() if is_torch(weight) else weight
        weight = weight[None] if weight.ndim == 1 else weight
        if weight.ndim != 2:
            raise ValueError(f"prepare_attention: a norm's weight has {weight.ndim} axes, wanted 1 or 2")
    return numbers, norm.epsilon, weight


def _list(values: Any, name: str) -> Any:
    return values if values is None or is_torch(values) else integers(values, f"prepare_attention: {name}")


def _factors(factors: Any) -> Any:
    """(T) or (B, T) as (B, T, 1, 1)."""
    if factors is None:
        return None
    return factors[None, :, None, None] if factors.ndim == 1 else factors[..., None, None]


def _place_kind(lists: dict[str, Any]) -> int:
    """In order, by slots or by pages; a list that the kind does not read is refused."""
    given = {name for name, values in lists.items() if values is not None}
    for kind, (key, read) in enumerate(((None, {"starts"}), ("slots", {"slots"}), ("places", {"places", "kv_indptr", "kv_indices", "requests"}))):
        if given <= read and (key is None or key in given):
            return kind
    raise ValueError(f"prepare_attention: {', '.join(sorted(given))} are given, wanted starts, or slots, or places with lists of pages")


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
    q_norm: HeadNorm | None = None,
    k_norm: HeadNorm | None = None,
    v_norm: HeadNorm | None = None,
    order: str = "norm_first",
    between: str = "rounded",
    query_scale: float = 1.0,
    query_factors: Any = None,
    q_rotary_offset: int | None = None,
) -> Array | None:
    """Norm, rotation, scale and storage of heads (B, T, H, D) or (T, H, D), in one pass; gives q's result.

    q goes to `q_out`: a new array where that is None, `q` itself for in place, a Cache for fp8 or int8. k and v go to caches, each a Cache
    or two with some channels each: token by token in their rows (from `starts` on), to `slots` (negative ones and tokens beyond the list
    are skipped), or to pages: of request `requests[i]` at `places[i]`, by kv_indptr and kv_indices, or pages_per_request of kv_indices.
    Several rotaries: token or batch row i turns by rotary[spec_of[i]]. Each step is rounded to the tensor's dtype; between "kept": not.

    >>> import numpy as np, phasor
    >>> k, cache = np.ones((2, 1, 4), np.float32), np.zeros((3, 2, 1, 4), np.float32)
    >>> phasor.prepare_attention(k=k, k_cache=phasor.Cache(cache), slots=[5, 0], k_norm=phasor.HeadNorm(epsilon=3.0))
    >>> cache[:, :, 0, 0].tolist()
    [[0.5, 0.0], [0.0, 0.0], [0.0, 0.5]]
    """
    arrays = {name: array for name, array in (("q", q), ("k", k), ("v", v)) if array is not None}
    ungraded("prepare_attention", *arrays.values())
    one_device("prepare_attention", positions=positions, **arrays)
    if q is not None and q_out is None:
        q_out = new_like(q)
    q_caches = q_out
    if q_out is not None and not isinstance(q_out, (Cache, list, tuple)):
        q_caches = Cache(q_out, "block token head inner" if q_out.ndim == 4 else "token head inner")
    lists = {"starts": starts, "slots": slots, "kv_indptr": kv_indptr, "kv_indices": kv_indices, "requests": requests, "places": places}
    rotaries = [] if rotary is None else [rotary] if isinstance(rotary, Rotary) else list(rotary)
    _core.prepare_attention(
        {
            "q": q,
            "k": k,
            "v": v,
            "query_factors": _factors(query_factors),
            "positions": positions_argument(positions),
            "spec_of": _list(spec_of, "spec_of"),
            **{name: _list(values, name) for name, values in lists.items()},
            "pages_per_request": pages_per_request,
            "place_kind": _place_kind(lists),
            "q_norm": _norm(q_norm),
            "k_norm": _norm(k_norm),
            "v_norm": _norm(v_norm),
            "rotaries": [one._core for one in rotaries],
            "q_out": _parts(q_caches, "q_out"),
            "k_cache": _parts(k_cache, "k_cache"),
            "v_cache": _parts(v_cache, "v_cache"),
            "order": _number("order", order, ("norm_first", "rotation_first")),
            "between": _number("between", between, ("rounded", "kept")),
            "query_scale": query_scale,
            "q_rotary_offset": q_rotary_offset,
        }
    )
    for caches in (q_caches, k_cache, v_cache):
        for cache in caches if isinstance(caches, (list, tuple)) else [] if caches is None else [caches]:
            written(cache.array)
    return q_out if not isinstance(q_out, Cache) else q_out.array
