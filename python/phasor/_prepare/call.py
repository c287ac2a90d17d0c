# SPDX-License-Identifier: Apache-2.0
"""A call of the step before attention as lists of arrays, integers and reals, in the order in which python/src/prepare/call.hpp reads them.

An operator of PyTorch carries the same lists, so all of this is plain Python that a compiler of such programs follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasor._arrays import Array
from phasor._spec import TableLayout

_STORAGES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
_BYTES = (4, 2, 2, 1, 1, 1)  # of each
_AXES = ("layer", "block", "token", "head", "outer", "inner")
_SCALE_AXES = ("block", "token", "head", "group")
_LISTS = ("starts", "slots", "kv_indptr", "kv_indices", "requests", "places")
# The kinds of places: what says that a call is of this kind, and which lists it reads.
_PLACES = (
    ("", ("starts",)),
    ("slots", ("slots",)),
    ("places", ("places", "kv_indptr", "kv_indices", "requests")),
)


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

    `axes` names the axes of the array, of block, token, head and group. An array of uint8 holds powers of two (ue8m0) or, where
    storage is "float32", the bytes of such numbers along its last axis; any other is float32. use says whether values are divided by a scale or multiplied with it (made ones: with its reciprocal).
    """

    kind: str = "given"
    value: float = 1.0
    array: Any = None
    axes: str = "head"
    use: str = "divide"
    group: int = 0
    least: float = 2.0**-126
    storage: str | None = None


@dataclass(frozen=True)
class Cache:
    """Memory of a cache, by what each axis means: layer, block, token, head, outer and inner (channel c is at (c // x, c % x), x the inner).

    vLLM's flash layout (2, blocks, block, H, D) is Cache(kv[0]) and Cache(kv[1]); its older keys (blocks, H, D / x, block, x) are
    Cache(keys, "block head outer token inner"), values Cache(values, "block head inner token"); FlashInfer's HND pages are
    Cache(pages[:, 0], "block head token inner"); SGLang's slots Cache(slots, "block head inner"). `storage` is the dtype of the array,
    or given where that is uint8: the last axis then holds the bytes of its numbers. A part of a head begins with `first_channel`. Parts of one
    row (MLA's) are slices of uint8 with a storage each: views of other dtypes are refused under torch.compile, which loses what is around them.
    """

    array: Any
    axes: str = "block token head inner"
    storage: str | None = None
    first_channel: int = 0
    layer: int = 0
    scales: CacheScales | None = None


def _dtype_name(array: Array) -> str:
    return str(array.dtype).removeprefix("torch.")


def _as_numbers(array: Array) -> Array:
    """NumPy's float8 is ml_dtypes', which no protocol carries: its bits."""
    return array.view(np.uint8) if isinstance(array, np.ndarray) and _dtype_name(array).startswith("float8") else array


def _caches(caches: Any) -> Any:
    return () if caches is None else caches if isinstance(caches, (list, tuple)) else (caches,)


class Lists:
    """The lists of one call, while they are written."""

    def __init__(self, where: str = "prepare_attention") -> None:
        self.where = where  # messages begin with it
        self.read: list[Any] = []
        self.written: list[Any] = []
        self.read_names: list[str] = []
        self.written_names: list[str] = []
        self.numbers: list[int] = []
        self.reals: list[float] = []

    def number(self, what: str, value: str, names: tuple[str, ...]) -> int:
        """The number of a name."""
        if value not in names:
            raise ValueError(f"{self.where}: {what} is {value!r}, wanted {', '.join([repr(name) for name in names])}")
        return names.index(value)

    def reads(self, array: Any, name: str) -> int:
        """The number that an array gets in the list of those that are read; -1 for None. Messages call it by its name."""
        if array is None:
            return -1
        self.read.append(array)
        self.read_names.append(name)
        return len(self.read) - 1

    def writes(self, array: Any, name: str) -> int:
        """The same of what is written."""
        if array is None:
            return -1
        self.written.append(array)
        self.written_names.append(name)
        return len(self.written) - 1

    def axes(self, array: Array, axes: str, names: tuple[str, ...], name: str) -> None:
        extents = len(array.shape)
        if extents == 4 and axes == "block token head inner" and names is _AXES:  # most caches
            self.numbers.extend((4, 1, 2, 3, 5))
            return
        given = axes.split()
        known = [axis in names and given.count(axis) == 1 for axis in given]
        if len(given) != extents or not all(known):
            raise ValueError(f"{self.where}: {name} has axes {axes!r} and {extents} axes, wanted each once, of {', '.join(names)}")
        self.numbers.append(extents)
        self.numbers.extend([names.index(axis) for axis in given])

    def norm(self, norm: HeadNorm | None, name: str) -> None:
        if norm is None:
            self.numbers.append(0)
            return
        self.numbers.append(1 + self.number("kind of a norm", norm.kind, ("rms", "l2")))
        self.numbers.append(self.number("over", norm.over, ("head", "all_heads")))
        self.numbers.append(self.number("weight_as", norm.weight_as, ("plain", "one_plus")))
        self.numbers.append(self.number("cast", norm.cast, ("after_weight", "before_weight")))
        self.numbers.append(norm.width)
        self.reals.append(norm.epsilon)
        self.numbers.append(self.reads(norm.weight, name))

    def scales(self, scales: CacheScales | None, name: str, writes: bool) -> None:
        if scales is None:
            self.numbers.append(0)
            return
        self.numbers.append(1 + self.number("kind of scales", scales.kind, ("given", "made")))
        self.numbers.append(self.number("use of scales", scales.use, ("divide", "multiply")))
        self.reals.extend([scales.value, scales.least])
        self.numbers.append((self.writes if writes and scales.kind == "made" else self.reads)(scales.array, f"scales of {name}"))
        if scales.array is not None:
            if scales.storage not in (None, "float32"):
                raise ValueError(f"{self.where}: storage of scales is {scales.storage!r}, wanted 'float32', or None")
            self.numbers.append(int(scales.storage is not None))
            self.axes(scales.array, scales.axes, _SCALE_AXES, "scales")
            self.numbers.append(scales.group)

    def cache(self, cache: Cache, name: str, writes: bool = True) -> None:
        dtype = _dtype_name(cache.array)
        storage = self.number(f"storage of {name}", cache.storage or dtype, _STORAGES)
        if cache.storage and dtype not in ("uint8", cache.storage):
            raise ValueError(f"{self.where}: {name} is of {dtype} and its storage is {cache.storage!r}, wanted that dtype, or uint8")
        self.numbers.extend([(self.writes if writes else self.reads)(_as_numbers(cache.array), name), storage])
        self.axes(cache.array, cache.axes, _AXES, name)
        self.numbers.extend([cache.layer, cache.first_channel])
        self.scales(cache.scales, name, writes)

    def caches(self, caches: Any, name: str) -> None:
        given = _caches(caches)
        if len(given) > 2:
            raise ValueError(f"{self.where}: {name} has {len(given)} parts, wanted 1 or 2")
        self.numbers.append(len(given))
        for i, cache in enumerate(given):
            self.cache(cache, name if len(given) == 1 else f"{name}[{i}]")

    def spec(self, norms: tuple[Any, Any, Any], order: str, between: str, query_scale: float, q_rotary_offset: int | None) -> None:
        """What happens to heads."""
        self.numbers.append(self.number("order", order, ("norm_first", "rotation_first")))
        self.numbers.append(self.number("between", between, ("rounded", "kept")))
        self.numbers.extend([0] if q_rotary_offset is None else [1, q_rotary_offset])
        self.reals.append(query_scale)
        for norm, name in zip(norms, ("weight of q_norm", "weight of k_norm", "weight of v_norm")):
            self.norm(norm, name)

    def tables(self, cos: Any, sin: Any, layout: TableLayout | None) -> None:
        """Given tables, in the place of rotaries."""
        if (cos is None) != (sin is None):
            raise ValueError(f"{self.where}: one of cos and sin is given, wanted both")
        if cos is None and layout is not None:
            raise ValueError(f"{self.where}: a layout is given without tables, wanted cos and sin")
        self.numbers.append(self.reads(cos, "cos"))
        if cos is None:
            return
        chosen = TableLayout() if layout is None else layout
        pairings = ("half", "interleaved")
        self.numbers.extend([self.reads(sin, "sin"), chosen.rotary_width, chosen.rotary_offset])
        self.numbers.append(self.number("pairing", chosen.pairing, pairings))
        output = chosen.output_pairing
        self.numbers.extend([0] if output is None else [1, self.number("output_pairing", output, pairings)])
        self.numbers.append(self.number("sense", chosen.sense, ("counterclockwise", "clockwise")))
        self.numbers.append(self.number("numerics", chosen.numerics, ("exact", "hf", "hf_float32", "vllm", "ggml")))
        self.numbers.append(chosen.segments)

    def places(self, lists: dict[str, Any], pages_per_request: int, on_gpu: int = 0) -> None:
        """In order, by slots or by pages; a list that the kind does not read is refused. on_gpu: trusted or checked."""
        given = [name for name in _LISTS if lists[name] is not None]
        fits = [(not key or key in given) and all([name in read for name in given]) for key, read in _PLACES]
        if True not in fits:
            raise ValueError(f"{self.where}: {', '.join(sorted(given))} are given, wanted starts, or slots, or places with lists of pages")
        self.numbers.extend([fits.index(True), on_gpu, pages_per_request])
        self.numbers.extend([self.reads(lists[name], name) for name in _LISTS])

    def tensors(self, outs: Sequence[Any]) -> None:
        """Places and outputs of a call without caches: a tensor for each of q, k and v, or None."""
        self.places({name: None for name in _LISTS}, 0)
        for out, name in zip(outs, ("q_out", "k_out", "v_out")):
            self.caches(None if out is None else tensor_cache(out), name)


def channels_of(cache: Cache) -> int:
    """How many channels of a head a cache holds."""
    extents = dict(zip(cache.axes.split(), cache.array.shape))
    bytes_of_one = _BYTES[_STORAGES.index(cache.storage)] if cache.storage in _STORAGES and _dtype_name(cache.array) == "uint8" else 1
    return extents.get("outer", 1) * extents.get("inner", 1) // bytes_of_one


def is_cache(x: Any) -> bool:
    """Whether an output is a cache or two, not an array."""
    return isinstance(x, (Cache, list, tuple))


def tensor_cache(x: Array) -> Cache:
    """An array (B, T, H, D) or (T, H, D) as where its tokens go."""
    return Cache(x, "block token head inner" if len(x.shape) == 4 else "token head inner")
