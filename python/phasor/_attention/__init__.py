# SPDX-License-Identifier: Apache-2.0
"""phasor.attention: softmax attention whose scores know positions, in O(n) memory, on arrays and (with gradients) PyTorch tensors, CPU or CUDA."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict, Unpack

import numpy as np

from phasor import _core
from phasor._arrays import Array, is_torch, positions_argument, read, returned, torch_backend
from phasor._attention.arrays import dense, integer_list, on_host_or_gpu, workspace_beside
from phasor._attention.schemes import pieces_of
from phasor._attention.types import AttentionScheme
from phasor._numbers import empty

__all__ = ["AttentionOptions", "attention", "attention_weights", "explain_attention", "merge_attention", "scheme_of"]


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
    dropout: float  # weights are dropped with this probability after the softmax, the others divided by 1 - dropout
    dropout_seed: Any  # an integer, or two (seed, offset): the same ones drop the same weights; PyTorch's generator draws them unless given
    deterministic: bool  # False: gradients on a GPU may add up in any order, which is faster there


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
        sinks = on_host_or_gpu(sinks)
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


def _seed(seed: Any) -> Any:
    """(seed, offset) as 64 bits each; a tensor is left as it is."""
    if is_torch(seed):
        return seed
    pair = np.asarray(seed, object).reshape(-1).tolist()
    if np.ndim(seed) > 1 or not 1 <= len(pair) <= 2 or any(not isinstance(x, int) or not 0 <= x < 2**64 for x in pair):
        raise ValueError(f"attention: dropout_seed is {seed!r}, wanted an integer of 64 bits, or two: seed and offset")
    return np.array([*pair, 0][:2], np.uint64).view(np.int64)


@dataclass(eq=False)
class Call:
    """What a call of attention is beside q, k and v."""

    scheme: AttentionScheme
    tensors: dict[str, Any]  # `terms`: a list of dicts; the others as python/src/attention/call.hpp names them
    out_dtype: str | None = None
    deterministic: bool = True  # of gradients


_KNOWN = ("softcap", "prefix", "key_mask", "query_positions", "key_positions", "skip", "dropout", "dropout_seed")
_OTHERS = ("window", "cu_seqlens", "sinks", "out_dtype", "deterministic")


def call_of(heads: int, scheme: Any, causal: bool, scale: float | None, options: dict[str, Any]) -> Call:
    """The call of a scheme: its values, and its tensors beside them."""
    for name in options:
        if name not in (*_OTHERS, *_KNOWN):
            raise TypeError(f"attention: has no option {name!r}, wanted one of {', '.join((*_OTHERS, *_KNOWN))}")
    pieces = pieces_of(scheme, heads)
    left, right = _window(options.get("window"))
    query_starts, key_starts = _starts(options.get("cu_seqlens"))
    sinks, out_dtype, seed = (options.get(name) for name in ("sinks", "out_dtype", "dropout_seed"))
    softcap, dropout = options.get("softcap"), options.get("dropout")
    values = AttentionScheme(
        content=pieces.content,
        content_shift=pieces.content_shift is not None,
        terms=tuple(pieces.terms),
        scale=scale,
        softcap=0.0 if softcap is None else softcap,
        sinks=sinks is not None,
        mask="causal" if causal else "full",
        left=left,
        right=right,
        skip="certified" if options.get("skip") else "none",
        dropout=0.0 if dropout is None else dropout,
    )
    tensors: dict[str, Any] = {"terms": pieces.tensors, "content_shift": pieces.content_shift}
    tensors |= {"sinks": None if sinks is None else _sinks(sinks), "query_starts": query_starts, "key_starts": key_starts}
    tensors |= {name: options.get(name) for name in ("prefix", "key_mask", "query_positions", "key_positions")}
    if values.dropout:
        tensors["dropout_seed"] = None if seed is None else _seed(seed)
    return Call(values, tensors, None if out_dtype is None else dtype_name(out_dtype), options.get("deterministic") is not False)


def scheme_of(scheme: Any = None, causal: bool = False, *, heads: int = 0, scale: float | None = None, **options: Any) -> AttentionScheme:
    """What `attention` would do with these arguments, as values without their tensors: to print, compare, hash and write as text.

    heads: those of q, for schemes that take them from there (Alibi()).

    >>> import phasor
    >>> spec = scheme_of(phasor.Alibi(heads=8), causal=True, window=1024)
    >>> spec.mask, spec.left, spec == phasor.spec_from_json(phasor.spec_to_json(spec))
    ('causal', 1024, True)
    """
    return call_of(heads, scheme, causal, scale, dict(options)).scheme


@lru_cache(maxsize=256)
def plan_of(scheme: AttentionScheme) -> Any:
    """Made once: thresholds of buckets, slopes and frequencies cost more than a token's attention."""
    return _core.Attention(scheme)


atexit.register(plan_of.cache_clear)  # before the core is gone


def core_tensors(tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors of a call as the core takes them: no None, and integers as arrays of integers."""
    result = {name: value for name, value in tensors.items() if value is not None}
    for name in ("prefix", "query_starts", "key_starts"):
        if name in result:
            result[name] = integer_list(result[name], name)
    for name in ("query_positions", "key_positions"):
        if name in result:
            result[name] = positions_argument(result[name])
    for term in result["terms"]:
        for name in ("query_segments", "key_segments"):
            if name in term:
                term[name] = positions_argument(term[name])
    return result


def _batched(q: Array, k: Array, v: Array) -> tuple[tuple[Array, Array, Array], bool]:
    """(B, T, H, D), and whether the batch axis was added."""
    axes = {x.ndim for x in (q, k, v)}
    if axes == {3}:
        return (q[None], k[None], v[None]), True
    if axes != {4}:
        raise ValueError(f"attention: q, k and v have {q.ndim}, {k.ndim} and {v.ndim} axes, wanted (B, T, H, D) or (T, H, D)")
    return (q, k, v), False


def _read(*arrays: Any, tensors: dict[str, Any]) -> None:
    """After a call that reads these, and its tensors: see phasor._arrays.read."""
    read(*arrays, *(x for term in (tensors, *tensors["terms"]) for x in term.values()))


def _want_seed(call: Call) -> None:
    if call.scheme.dropout and call.tensors["dropout_seed"] is None:
        raise ValueError("attention: dropout is given without dropout_seed, wanted an integer")


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
    leaves out what ALiBi makes smaller than float32 can tell; dropout, with dropout_seed, which NumPy arrays need; deterministic=False
    lets gradients on a GPU add up in any order. PyTorch tensors have gradients,
    tables, slopes and sinks too.

    >>> import numpy as np, phasor
    >>> x = np.ones((1, 3, 2, 4), np.float32)
    >>> phasor.attention(x, x, x, scheme=phasor.Alibi(), causal=True).shape
    (1, 3, 2, 4)
    """
    (q, k, v), added = _batched(q, k, v)
    call = call_of(q.shape[2], scheme, causal, scale, dict(options))
    if is_torch(q):
        out, lse = torch_backend().attention(q, k, v, call)
    else:
        _want_seed(call)
        given, (q, k, v) = q, (dense(on_host_or_gpu(x)) for x in (q, k, v))
        out = empty((*q.shape[:3], v.shape[3]), call.out_dtype or q.dtype, q)
        lse = empty((*q.shape[:3], 1), np.float64 if q.dtype == np.float64 else np.float32, q)
        tensors = core_tensors(call.tensors)
        _core.attention((q, k, v), plan_of(call.scheme), tensors, out, lse, workspace_beside(q))
        _read(q, k, v, tensors=tensors)
        out, lse = returned(given, out), returned(given, lse[..., 0])
    if added:
        out, lse = out[0], lse[0]
    return (out, lse) if return_lse else out


def _block(which: Any, count: int, name: str) -> range:
    """A slice, an int or None (all) as a range of neighbours."""
    if which is None:
        return range(count)
    found = range(count)[which] if isinstance(which, slice) else range(count)[which : which + 1 or None]
    if found.step != 1 or not found:
        raise ValueError(f"attention_weights: {name} is {which}, wanted neighbours of 0 to {count - 1}")
    return found


def attention_weights(
    q: Array,
    k: Array,
    scheme: Any = None,
    causal: bool = False,
    *,
    batch: Any = None,
    queries: Any = None,
    heads: Any = None,
    scale: float | None = None,
    return_factors: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """The weights of `attention` after the softmax, (B, Tq, H, Tk) in float32 (float64 for float64): what a map draws.

    batch, queries, heads: a slice or an int each, for some of them; all unless given. return_factors: also what dropout multiplies them by.
    Options as of `attention`. Without gradients.

    >>> x = np.ones((1, 3, 1, 2), np.float32)
    >>> attention_weights(x, x, causal=True, queries=1)[0, 0, 0]
    array([0.5, 0.5, 0. ], dtype=float32)
    """
    (q, k, _), added = _batched(q, k, k)
    call = call_of(q.shape[2], scheme, causal, scale, dict(options))
    _want_seed(call)
    given = q
    q, k = torch_backend().placed(call, q, k) if is_torch(q) else (dense(on_host_or_gpu(x)) for x in (q, k))
    blocks = [_block(which, q.shape[axis], name) for axis, (which, name) in enumerate(((batch, "batch"), (queries, "queries"), (heads, "heads")))]
    shape, wide = (*(len(block) for block in blocks), k.shape[1]), "float64" in str(q.dtype)
    made = [empty(shape, np.float64 if wide else np.float32, q) for _ in range(2 if return_factors else 1)]
    tensors, first = core_tensors(call.tensors), tuple(block.start for block in blocks)
    _core.attention_weights((q, k, k), plan_of(call.scheme), tensors, first, made[0], made[1] if return_factors else None, workspace_beside(q))
    _read(q, k, tensors=tensors)
    found = [returned(given, x)[0] if added else returned(given, x) for x in made]
    return tuple(found) if return_factors else found[0]


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
    parts = [(dense(on_host_or_gpu(out)), on_host_or_gpu(lse)) for out, lse in parts]
    out = empty(first.shape, first.dtype if out_dtype is None else dtype_name(out_dtype), first)
    lse = empty((*first_lse.shape, 1), first_lse.dtype, first)
    _core.merge_attention([(out, lse[..., None]) for out, lse in parts], out, lse)
    read(*(x for part in parts for x in part))
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
    call = call_of(q.shape[2], scheme, causal, scale, dict(options))
    if is_torch(q):
        q, k, v = torch_backend().placed(call, q, k, v)
    return _core.explain_attention((q, k, v), plan_of(call.scheme), core_tensors(call.tensors))
