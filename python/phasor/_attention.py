# SPDX-License-Identifier: Apache-2.0
"""phasor.attention: softmax attention whose scores know positions, in O(n) memory, on NumPy arrays and (with gradients) PyTorch tensors."""

from __future__ import annotations

import atexit
from functools import lru_cache
from typing import Any, TypedDict, Unpack

import numpy as np

from phasor import _bias_specs, _core
from phasor._arrays import Array, is_torch, positions_argument, returned, torch_backend
from phasor._bias import Bias
from phasor._numbers import integers
from phasor._rotary import Rotary
from phasor._schemes import pieces_of

__all__ = ["AttentionOptions", "attention", "explain_attention", "merge_attention"]


class AttentionOptions(TypedDict, total=False):
    """Keywords of `attention` and `explain_attention`."""

    softcap: float  # scores s become softcap tanh(s / softcap), after every term; -infinity stays
    sinks: Any  # (H), or (1) for all heads: logits that take part in the softmax and bring no value (gpt-oss)
    out_dtype: Any  # float32 for 16-bit inputs: parts that are merged later lose nothing; q's unless given
    window: int | None | tuple[int | None, int | None]  # a query sees keys up to so far behind it, and (left, right) so far ahead
    cu_seqlens: Any  # where sequences begin, 0, ..., T; a tuple: those of queries, those of keys
    prefix: Any  # (B): keys at positions below it are exempt from causality
    key_mask: Any  # (B, Tk) of bool: false for padding
    query_positions: Any  # (Tq) or (B, Tq), or an int, the first of consecutive ones; the last query is at the last key unless given
    key_positions: Any
    skip: bool  # leaves out what ALiBi makes smaller than float32 can tell
    dropout: float  # refused unless 0


def _window(window: Any) -> tuple[int | None, int | None]:
    """How far a query sees back and ahead; None: any distance."""
    if window is None:
        return None, None
    left, right = window if isinstance(window, (list, tuple)) else (window, None)
    for name, limit in (("left", left), ("right", right)):
        if limit is not None and limit < 0:
            raise ValueError(f"attention: window has {name} {limit}, wanted 0 or more, or None")
    return left, right


def _starts(cu_seqlens: Any) -> tuple[Any, Any]:
    """Where the sequences of queries and of keys begin; one array serves both."""
    if cu_seqlens is None:
        return None, None
    return cu_seqlens if isinstance(cu_seqlens, tuple) else (cu_seqlens, cu_seqlens)


def _sinks(sinks: Any) -> Any:
    """(H) or (1) as (1, 1, H, 1)."""
    if not is_torch(sinks):
        sinks = np.asarray(sinks)
    if sinks.ndim != 1:
        raise ValueError(f"attention: sinks have {sinks.ndim} axes, wanted 1: (H) or (1)")
    return sinks[None, None, :, None]


def dtype_name(dtype: Any) -> str:
    """The name of a dtype, PyTorch's or NumPy's, or such a name itself: "float32"."""
    text = str(dtype)
    name = text.removeprefix("torch.") if isinstance(dtype, str) or text.startswith("torch.") else str(np.dtype(dtype))
    if name not in ("float64", "float32", "float16", "bfloat16"):
        raise TypeError(f"attention: out_dtype is {name}, wanted float32, or that of q")
    return name


def _spec(heads: int, scheme: Any, causal: bool, scale: float | None, options: dict[str, Any]) -> dict[str, Any]:
    """The dict that the core reads, with specs and rotations as Python has them."""
    pieces = pieces_of(scheme, heads)
    left, right = _window(options.pop("window", None))
    query_starts, key_starts = _starts(options.pop("cu_seqlens", None))
    spec: dict[str, Any] = {
        "terms": pieces.terms,
        "content": pieces.content,
        "content_shift": pieces.content_shift,
        "causal": bool(causal),
        "scale": scale,
        "left": left,
        "right": right,
        "query_starts": query_starts,
        "key_starts": key_starts,
    }
    if (sinks := options.pop("sinks", None)) is not None:
        spec["sinks"] = _sinks(sinks)
    if (out_dtype := options.pop("out_dtype", None)) is not None:
        spec["out_dtype"] = dtype_name(out_dtype)
    if dropout := options.pop("dropout", 0.0):
        raise NotImplementedError(f"attention: dropout is {dropout}, wanted 0: weights that are dropped are not what exactness is about")
    known = ("softcap", "prefix", "key_mask", "query_positions", "key_positions", "skip")
    for name in options:
        if name not in known:
            raise TypeError(f"attention: has no option {name!r}, wanted one of {', '.join(('window', 'cu_seqlens', 'sinks', 'out_dtype', *known))}")
    return {**spec, **options}


@lru_cache(maxsize=256)
def _core_bias(spec: Any) -> Any:
    """Made once: thresholds of buckets and slopes cost more than a token's attention."""
    return _core.Bias(spec)


atexit.register(_core_bias.cache_clear)  # before the core is gone


def core_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """The same with the core's objects in the place of the package's, and arrays of integers as the core takes them."""

    def made(key: str, value: Any) -> Any:
        if isinstance(value, (Rotary, Bias)):
            return value._core
        if key in ("bias", "rows") and type(value).__module__ == _bias_specs.__name__:
            return _core_bias(value)
        return positions_argument(value) if key in ("query_segments", "key_segments") else value

    result = dict(spec)
    result["terms"] = [{key: made(key, value) for key, value in term.items() if value is not None} for term in spec["terms"]]
    if spec["content"] is not None:
        result["content"] = {key: made(key, value) for key, value in spec["content"].items() if value is not None}
    for key in ("prefix", "query_starts", "key_starts"):
        if result.get(key) is not None:
            result[key] = integers(result[key], key)
    for key in ("query_positions", "key_positions"):
        if result.get(key) is not None:
            result[key] = positions_argument(result[key])
    return {key: value for key, value in result.items() if value is not None}


def _batched(q: Array, k: Array, v: Array) -> tuple[tuple[Array, Array, Array], bool]:
    """(B, T, H, D), and whether the batch axis was added."""
    axes = {x.ndim for x in (q, k, v)}
    if axes == {3}:
        return (q[None], k[None], v[None]), True
    if axes != {4}:
        raise ValueError(f"attention: q, k and v have {q.ndim}, {k.ndim} and {v.ndim} axes, wanted (B, T, H, D) or (T, H, D)")
    return (q, k, v), False


def _last_axis_dense(x: np.ndarray) -> np.ndarray:
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def attention(
    q: Array,
    k: Array,
    v: Array,
    scheme: Any = None,
    causal: bool = False,
    *,
    scale: float | None = None,
    return_lse: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """softmax(scale q . k + what the scheme adds) v, of (B, T, H, D) or, for ragged batches, (T, H, D).

    scheme: None, a scheme (T5, Shaw, TransformerXL, Deberta, Rope, ...), a bias spec (Alibi(), Kerple(...)) or a list of them, whose terms add up.
    scale: 1 / sqrt(D) unless given. k and v may have fewer heads. return_lse: the logarithms of the sums, (B, T, H), too.
    Options: softcap; window (left, or (left, right)); cu_seqlens, or a tuple of those of queries and keys; prefix, key_mask (B, Tk), query_positions,
    key_positions; sinks (H), a logit per head that takes part in the softmax and brings no value; out_dtype, float32 for 16-bit inputs; skip=True
    leaves out what ALiBi makes smaller than float32 can tell. PyTorch tensors have gradients, tables, slopes and sinks too.

    >>> import numpy as np, phasor
    >>> x = np.ones((1, 3, 2, 4), np.float32)
    >>> phasor.attention(x, x, x, scheme=phasor.Alibi(), causal=True).shape
    (1, 3, 2, 4)
    """
    (q, k, v), added = _batched(q, k, v)
    spec = _spec(q.shape[2], scheme, causal, scale, dict(options))
    if is_torch(q):
        out, lse = torch_backend().attention(q, k, v, spec)
    else:
        given, (q, k, v) = q, (_last_axis_dense(np.asarray(x)) for x in (q, k, v))
        out = np.empty((*q.shape[:3], v.shape[3]), spec.pop("out_dtype", q.dtype))
        lse = np.empty((*q.shape[:3], 1), np.float64 if q.dtype == np.float64 else np.float32)
        _core.attention((q, k, v), core_spec(spec), out, lse)
        out, lse = returned(given, out), returned(given, lse[..., 0])
    if added:
        out, lse = out[0], lse[0]
    return (out, lse) if return_lse else out


def merge_attention(parts: Any, out_dtype: Any = None) -> tuple[Array, Array]:
    """(out, lse) over disjoint sets of keys, made one: pairs as attention(..., return_lse=True) gives them, of ring attention or a cache in parts.

    out_dtype: of float32 parts may be of 16 bits; theirs unless given. Sinks belong to one softmax: give them to exactly one part.

    >>> x = np.ones((1, 4, 1, 2), np.float32)
    >>> halves = [attention(x, x[:, t : t + 2], x[:, t : t + 2], return_lse=True) for t in (0, 2)]
    >>> out, lse = merge_attention(halves)
    >>> np.allclose(out, attention(x, x, x))
    True
    """
    parts = list(parts)
    if not parts:
        raise ValueError("merge_attention: parts are none, wanted one or more")
    first, first_lse = parts[0]
    if first.ndim == 3:
        out, lse = merge_attention([(out[None], lse[None]) for out, lse in parts], out_dtype)
        return out[0], lse[0]
    if is_torch(first):
        return torch_backend().merge_attention(parts, None if out_dtype is None else dtype_name(out_dtype))
    parts = [(np.asarray(out), np.asarray(lse)) for out, lse in parts]
    out = np.empty(first.shape, first.dtype if out_dtype is None else dtype_name(out_dtype))
    lse = np.empty((*first_lse.shape, 1), first_lse.dtype)
    _core.merge_attention([(_last_axis_dense(out), lse[..., None]) for out, lse in parts], out, lse)
    return returned(first, out), returned(first, lse[..., 0])


def explain_attention(
    q: Array,
    k: Array,
    v: Array,
    scheme: Any = None,
    causal: bool = False,
    *,
    scale: float | None = None,
    **options: Unpack[AttentionOptions],
) -> dict[str, Any]:
    """What such a call would do: tiles in the band, far and unseen, operations, bytes, workspace, and words that say it.

    >>> x = np.ones((1, 300, 2, 4), np.float32)
    >>> explain_attention(x, x, x, causal=True)["unseen_tiles"] > 0
    True
    """
    (q, k, v), _ = _batched(q, k, v)
    spec = _spec(q.shape[2], scheme, causal, scale, dict(options))
    if is_torch(q):
        q, k, v, spec = torch_backend().detached(q, k, v, spec)
    return _core.explain_attention((q, k, v), core_spec(spec))
