# SPDX-License-Identifier: Apache-2.0
"""DTensor: along which axes each operator may be sharded, beside those of rotation (sharding.py) and the step before attention (prepare/shards.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasor._torch.kernels import rotary_of
from phasor._torch.sharding import by_shards
from phasor._torch.shards import HEADS, POSITIONS, TOKENS, Shards

ops = torch.ops.phasor
_ROWS = ("batch", "token")


def _add_sinusoidal(x: Any, spec: str, positions: Any, first: Any, amplitude: Any) -> Any:
    shards = Shards("add_sinusoidal", "x", x, TOKENS, _ROWS)
    at, first = shards.where_tokens_are(positions, first)
    return shards.whole_like(ops.add_sinusoidal(shards.local(), spec, at, first, shards.beside("amplitude", amplitude, ())))


def _lookup_add(x: Any, table: Any, positions: Any, first: Any, offset: int, padding_row: int | None) -> Any:
    shards = Shards("lookup_add", "x", x, TOKENS, _ROWS)
    at, first = shards.where_tokens_are(positions, first)
    rows = shards.beside("table", table, ("row", "channel"))
    return shards.whole_like(ops.lookup_add(shards.local(), rows, at, first, offset, padding_row))


def _hierarchical_table(table: Any, rows: Any, alpha: float) -> Any:
    """A channel of the result is made of that channel alone."""
    shards = Shards("hierarchical_table", "table", table, ("row", "channel"), ("channel",))
    return shards.whole_like(ops.hierarchical_table(shards.local(), rows, alpha))


def _sinusoidal(positions: Any, spec: str, dtype: torch.dtype) -> Any:
    shards = Shards("sinusoidal", "positions", positions, POSITIONS, _ROWS)
    return shards.whole(ops.sinusoidal(shards.local(), spec, dtype), (*_of_tokens(shards), "channel"))


def _cos_sin(positions: Any, words: Tensor, heads: int, values: int, dtype: torch.dtype) -> Any:
    shards = Shards("cos_sin", "positions", positions, POSITIONS, _ROWS)
    names = (*_of_tokens(shards), "pair") if heads == 1 else (*_of_tokens(shards), "head", "pair")
    return tuple([shards.whole(x, names) for x in ops.cos_sin(shards.local(), words, heads, values, dtype)])


def _of_tokens(shards: Shards) -> tuple[str, ...]:
    return tuple([axis for axis in shards.names if axis != "axis"])


def _bias(q_positions: Any, k_positions: Any, spec: str, dtype: torch.dtype) -> Any:
    """Queries and keys may be sharded along two axes of the mesh; along one, all of either are needed."""
    queries = Shards("bias", "q_positions", q_positions, ("batch", "query"), ("batch", "query"))
    keys = Shards("bias", "k_positions", k_positions, ("batch", "key"), ("batch", "key"))
    for number, (a, b) in enumerate(zip(queries.roles, keys.roles)):
        shared = (a is None and _one_row(q_positions)) or (b is None and _one_row(k_positions))
        if a != b and ((None not in (a, b)) or ("batch" in (a, b) and not shared)):
            raise ValueError(
                f"bias: on axis {number} of the mesh q_positions are {q_positions.placements[number]!r} and k_positions "
                f"{k_positions.placements[number]!r}, wanted both by batch rows, or one by tokens and the other replicated"
            )
    q, k = queries.local(), keys.local()
    queries.roles = [a or b for a, b in zip(queries.roles, keys.roles)]
    queries.parts = {**keys.parts, **queries.parts}
    made = ops.bias(q, k, spec, dtype)
    return queries.whole(made, ("batch", "head", "query", "key")[-made.ndim :])


def _one_row(positions: Tensor) -> bool:
    return positions.ndim == 1 or positions.shape[0] == 1


def by_heads_alike(shards: Shards, words: Tensor, frequencies: Any) -> None:
    """Heads that turn by directions of their own are not told which of them this rank has."""
    if frequencies is None and "head" in shards.roles and getattr(rotary_of(words).spec.scaling, "heads", 1) > 1:
        raise ValueError(
            f"{shards.where}: {shards.name} is sharded by heads, and each turns by directions of its own, wanted it replicated or sharded by batch "
            "rows or tokens; redistribute() makes it so"
        )


def _learned_rotary(x: Any, words: Tensor, frequencies: Any, positions: Any, offset: Any, direction: int) -> Any:
    shards = Shards("learned_rotary", "x", x, HEADS, ("batch", "token", "head"))
    by_heads_alike(shards, words, frequencies)
    at, offset = shards.where_tokens_are(positions, offset)
    by = shards.beside("frequencies", frequencies, ("axis", "head", "pair"))
    return shards.whole_like(ops.learned_rotary(shards.local(), words, by, at, offset, direction))


# ---- Rows that have specs of their own ----


def specs_beside(shards: Shards, spec_of: Any) -> Any:
    """The numbers of this rank's rows or tokens: one for each batch row, or for each token of all."""
    if spec_of is None:
        return None
    sizes = dict(zip(shards.names, shards.x.shape))
    rows, tokens = sizes.get("batch", 1), sizes["token"]
    if spec_of.numel() not in (rows, rows * tokens):
        raise ValueError(f"{shards.where}: spec_of has {spec_of.numel()} entries, wanted {rows} (one per batch row) or {rows * tokens} (one per token)")
    by_row = spec_of.numel() == rows
    shape = (rows,) if by_row else (rows, tokens)
    of = spec_of if tuple(spec_of.shape) == shape else spec_of.reshape(shape)
    return shards.beside("spec_of", of, ("batch",) if by_row else _ROWS).reshape(-1)


def _rotaries_call(name: str, x: Any, words: list[Tensor], spec_of: Any, positions: Any, first: Any) -> tuple[Shards, Any, Any, Any]:
    shards = Shards("apply_rotaries", name, x, HEADS, ("batch", "token", "head"))
    for one in words:
        by_heads_alike(shards, one, None)
    return shards, specs_beside(shards, spec_of), *shards.where_tokens_are(positions, first)


def _rotaries(x: Any, words: list[Tensor], spec_of: Any, positions: Any, first: Any, direction: int) -> Any:
    shards, of, at, first = _rotaries_call("q", x, words, spec_of, positions, first)
    return shards.whole_like(ops.rotaries(shards.local(), words, of, at, first, direction))


def _rotaries_in_place(*args: Any) -> None:
    """One tensor after the other, once each has been looked at."""
    *tensors, words, spec_of, positions, first, direction = args
    calls = [_rotaries_call(name, x, words, spec_of, positions, first) for name, x in zip("qk", tensors)]
    for shards, of, at, begins in calls:
        ops.rotaries_(shards.local(), words, of, at, begins, direction)


by_shards(ops.add_sinusoidal.default, _add_sinusoidal)
by_shards(ops.lookup_add.default, _lookup_add)
by_shards(ops.hierarchical_table.default, _hierarchical_table)
by_shards(ops.sinusoidal.default, _sinusoidal)
by_shards(ops.cos_sin.default, _cos_sin)
by_shards(ops.bias.default, _bias)
by_shards(ops.learned_rotary.default, _learned_rotary)
by_shards(ops.rotaries.default, _rotaries)
by_shards(ops.rotaries_.default, _rotaries_in_place)
by_shards(ops.rotaries_.qk, _rotaries_in_place)
