# SPDX-License-Identifier: Apache-2.0
"""Classes in the place of vLLM's: made as theirs are, with their tables and attributes; the rotation is phasor's."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from phasor.engines import Unlike, turned_by_tables, turner_of
from torch import Tensor
from vllm.config import get_current_vllm_config
from vllm.logger import init_logger

from ._state import count, profile_of

logger = init_logger("vllm.phasor")
_compiling = torch.compiler.is_compiling


def ours(own: type) -> type:
    """The class in the place of `own`, under its name: vLLM looks classes up by it."""
    mixin = _SPECIAL.get(own.__name__, Turning)
    return type(own.__name__, (mixin, own), {"__module__": __name__, "__doc__": own.__doc__})


class Turning:
    """Before a class of vLLM in the order of bases. `turner` is None where a layer is not what its name says: then all is vLLM's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.turner = _turner(self, args, kwargs)

    def _turned(self, positions: Tensor, query: Tensor, key: Tensor | None, offsets: Tensor | None, how: tuple[bool, bool], inverse: bool = False) -> Any:
        in_place, rounds = how
        count(type(self).__name__)
        table = None
        if self.turner.exact is None:
            table = self._match_cos_sin_cache_dtype(query) if self.turner.kind.matched else self.cos_sin_cache
        at = positions if positions.ndim == 2 and self.turner.axis_of_channel is not None else positions.flatten()
        at = at if offsets is None else torch.add(at, offsets)
        return self.turner.turn(table, at, query, key, in_place, rounds, inverse)

    def forward_native(self, positions: Tensor, query: Tensor, key: Tensor | None = None, *rest: Any, **named: Any) -> Any:
        if self.turner is None:
            return super().forward_native(positions, query, key, *rest, **named)
        offsets, inverse = _others(*rest, **named)
        return self._turned(positions, query, key, offsets, (False, not _compiling()), inverse)

    def forward_cpu(self, positions: Tensor, query: Tensor, key: Tensor | None = None, *rest: Any, **named: Any) -> Any:
        if self.turner is None:
            return super().forward_cpu(positions, query, key, *rest, **named)
        offsets, inverse = _others(*rest, **named)
        kernel = self.turner.kind.kernel
        return self._turned(positions, query, key, offsets, (kernel, not kernel and not _compiling()), inverse)

    def forward_cuda(self, positions: Tensor, query: Tensor, key: Tensor | None = None, *rest: Any, **named: Any) -> Any:
        if self.turner is None:
            return super().forward_cuda(positions, query, key, *rest, **named)
        offsets, inverse = _others(*rest, **named)
        plain = self.turner.kind.plain_cuda
        return self._turned(positions, query, key, offsets, (not plain, plain and not _compiling()), inverse)


def _others(offsets: Tensor | None = None, inverse: bool = False) -> tuple[Tensor | None, bool]:
    return offsets, inverse


class TurningWhole(Turning):
    """A class whose forward is its own, not one of several."""

    def forward(self, positions: Tensor, query: Tensor, key: Tensor | None = None, offsets: Tensor | None = None) -> Any:
        if self.turner is None:
            return super().forward(positions, query, key, *(() if offsets is None else (offsets,)))
        return self._turned(positions, query, key, offsets, (False, not _compiling()))


class TurningLong(TurningWhole):
    """Two tables, one after the other: rows of the long one begin after those of the short one."""

    def _turned(self, positions: Tensor, query: Tensor, key: Tensor | None, offsets: Tensor | None, how: tuple[bool, bool], inverse: bool = False) -> Any:
        count(type(self).__name__)
        at = positions if offsets is None else torch.add(positions, offsets)
        if self.turner.exact is None and self.use_long_rope:
            at = at + self.original_max_position_embeddings
        return self.turner.turn(self.long_short_cos_sin_cache, at, query, key, *how)


class TurningLearned(Turning):
    """Tables of sums of cosines whose weights are learned, for each head of the keys."""

    def _turned(self, positions: Tensor, query: Tensor, key: Tensor | None, offsets: Tensor | None, how: tuple[bool, bool], inverse: bool = False) -> Any:
        count(type(self).__name__)
        if self.update_cache:  # the weights are there by now
            self.cos_sin_cache.copy_(self._compute_cos_sin_cache().to(self.dtype))
            self.update_cache = False
        cos, sin = self.cos_sin_cache.index_select(0, positions.flatten()).chunk(2, dim=-1)
        rows = tuple(t[..., : self.head_size // 2].reshape(-1, self.head_size // 2) for t in (cos, sin))
        tokens = rows[0].shape[0]  # of each head of the keys
        q, k = (x.reshape(tokens, -1, self.head_size) for x in (query, key))
        # Not in place: q may be a copy. The result has heads apart, as vLLM's.
        got = turned_by_tables(q, k, rows, {"numerics": "hf" if how[1] else "exact"}, False)
        return tuple(t.reshape(x.shape[0], -1, self.head_size) for t, x in zip(got, (query, key)))


class TurningPatches(Turning):
    """Patches of an image: the position of a token is its place, and queries are (B, T, H, D)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exact_rows = None
        if self.turner is not None and self.turner.exact is not None:
            self.exact_rows = _patch_rows(self)

    def _patches(self, query: Tensor, key: Tensor | None) -> Any:
        count(type(self).__name__)
        if self.exact_rows is None:
            table = self.cos_sin_cache.to(query.device)
            rows = (table.real, table.imag)
        else:
            rows = tuple(t.to(query.device) for t in self.exact_rows)
        rows = tuple(t.reshape(t.shape[0], -1).contiguous() for t in rows)
        return turned_by_tables(query, key, rows, {"pairing": "interleaved", "numerics": "exact"}, False)

    def forward_native(self, query: Tensor, key: Tensor | None = None) -> Any:
        return super(Turning, self).forward_native(query, key) if self.turner is None else self._patches(query, key)

    def forward_cpu(self, query: Tensor, key: Tensor | None = None) -> Any:
        return self.forward_native(query, key)

    def forward_cuda(self, query: Tensor, key: Tensor | None = None) -> Any:
        return self.forward_native(query, key)


def _patch_rows(layer: Any) -> tuple[Tensor, Tensor] | None:
    """Exact rows of a square of patches, and of the token of all of them, which does not turn; None where the table has others."""
    rope = layer.turner.exact.rope
    side = int(layer.max_position_embeddings**0.5)
    place = torch.arange(layer.max_position_embeddings)
    parts = [rope.cos_sin(1 + at) for at in (place % side, place // side)]
    still = (torch.ones(1, 2 * parts[0][0].shape[-1]), torch.zeros(1, 2 * parts[0][0].shape[-1]))
    rows = tuple(torch.cat((torch.cat((x, y), -1), rest)) for x, y, rest in zip(*parts, still))
    table = layer.cos_sin_cache.cpu().reshape(len(rows[0]), -1)
    near = table.shape == rows[0].shape and max((table.real - rows[0]).abs().max(), (table.imag - rows[1]).abs().max()) < 1e-4
    return rows if near else None


class TurningChunks(Turning):
    """Dual chunk attention: a query five times, for keys of its chunk, of the one before and of those farther away."""

    def _turned(self, positions: Tensor, query: Tensor, key: Tensor | None, offsets: Tensor | None, how: tuple[bool, bool], inverse: bool = False) -> Any:
        count(type(self).__name__)
        at = positions if offsets is None else torch.add(positions, offsets)
        chunk = self.chunk_size - self.local_size
        place, first = at % chunk, torch.zeros_like(at)
        # The table of each, the row in it, and the position of that row.
        kinds = (
            (self.cos_sin_q_cache, place, place),
            (self.cos_sin_qc_cache, place, (place + chunk).clamp(max=self.chunk_size)),
            (self.cos_sin_qc_cache, first + chunk - 1, first + min(2 * chunk - 1, self.chunk_size)),
            (self.cos_sin_qc_no_clamp_cache, place, place + chunk),
            (self.cos_sin_q_inter_cache, place, place + self.chunk_size),
        )
        turner = self.turner
        queries = [self._one(table, row if turner.exact is None else true, query, how[1]) for table, row, true in kinds]
        return torch.cat(queries, dim=-1), self._one(self.cos_sin_k_cache, at if turner.exact is None else place, key, how[1])

    def _one(self, table: Tensor, at: Tensor, x: Tensor, rounds: bool) -> Tensor:
        return self.turner.turn(table, at.flatten(), x, None, False, rounds)[0].squeeze(0)


class Applying:
    """ApplyRotaryEmb: rotation by tables that the caller has, of vision towers."""

    def _applied(self, x: Tensor, cos: Tensor, sin: Tensor, rounds: bool) -> Tensor:
        if 2 * cos.shape[-1] != x.shape[-1] or cos.ndim != 2 or x.ndim not in (3, 4):
            return super().forward_native(x, cos, sin)
        count(type(self).__name__)
        wide = self.enable_fp32_compute
        dtype = torch.float32 if wide else x.dtype
        layout = {"pairing": "half" if self.is_neox_style else "interleaved", "numerics": "hf" if rounds and not wide else "exact"}
        return turned_by_tables(x, None, (cos.to(dtype), sin.to(dtype)), layout, False)[0]

    def forward_native(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return self._applied(x, cos, sin, not _compiling())

    def forward_cpu(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return self._applied(x, cos, sin, not _compiling())

    def forward_cuda(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return self._applied(x, cos, sin, False)


_SPECIAL: dict[str, type] = {
    "ApplyRotaryEmb": Applying,
    "MRotaryEmbeddingInterleaved": TurningWhole,
    "Phi3LongRoPEScaledRotaryEmbedding": TurningLong,
    "FourierRotaryEmbedding": TurningLearned,
    "Llama4VisionRotaryEmbedding": TurningPatches,
    "DualChunkRotaryEmbedding": TurningChunks,
}


def _turner(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rotation of a new layer; None, with a warning, where it is not what its name says."""
    profile = profile_of(get_current_vllm_config())
    name = type(layer).__name__
    try:
        turner = turner_of(layer, profile, _arguments(type(layer), args, kwargs))
    except Unlike as why:
        logger.warning_once("phasor-vllm: %s is left to vLLM: %s", name, str(why))
        return None
    if profile == "exact":
        _explain(name, turner)
    return turner


def _arguments(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What vLLM's own constructor was called with, by name."""
    own = next(base for base in cls.__mro__[1:] if base.__name__ == cls.__name__)
    return dict(inspect.signature(own.__init__).bind(None, *args, **kwargs).arguments)


def _explain(name: str, turner: Any) -> None:
    """Says once what is not as in vLLM."""
    reading = turner.reading
    if reading is None:
        logger.warning_once("phasor-vllm: %s has learned tables, which have no exact angles: they are used as they are", name)
        return
    logger.info_once(
        "phasor-vllm: %s by exact angles; vLLM's table is off by up to %s at position %s", name, f"{reading.off:.1e}", str(reading.last)
    )
    if reading.corrected:
        logger.warning_once(
            "phasor-vllm: %s: vLLM lays YaRN's ramp over the length of its table (%s) instead of the trained length (%s); "
            "profile exact takes the trained length, as transformers does. Outputs differ from vLLM's, and are the model's.",
            name,
            str(reading.as_engine.scaling.original_length),
            str(reading.spec.scaling.original_length),
        )
