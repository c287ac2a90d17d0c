# SPDX-License-Identifier: Apache-2.0
"""What attention over a sharded sequence costs each rank, from formulas alone: bytes received, pairs of query and key, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Order = Literal["contiguous", "zigzag", "striped"]
Comm = Literal["ring", "gather", "ulysses"]

_FLOAT32 = 4


@dataclass(frozen=True)
class Layer:
    """One attention layer over a whole sequence. `element_bytes` are those of a number of q, k and v (2: bfloat16)."""

    length: int
    query_heads: int
    key_heads: int
    head_dim: int
    element_bytes: int = 2

    @property
    def query_row(self) -> int:
        """Bytes of one token's queries; of its outputs, too."""
        return self.query_heads * self.head_dim * self.element_bytes

    @property
    def key_row(self) -> int:
        """Bytes of one token's keys and values."""
        return 2 * self.key_heads * self.head_dim * self.element_bytes


def _check(length: int, ranks: int) -> None:
    if ranks < 1:
        raise ValueError(f"cost: ranks is {ranks}, wanted 1 or more")
    if length < 1 or length % (2 * ranks):
        raise ValueError(f"cost: length is {length}, wanted a multiple of {2 * ranks}, two pieces for each of {ranks} ranks")


def positions_of(order: Order, length: int, ranks: int) -> list[list[range]]:
    """The positions of each rank as ranges. The length is a multiple of twice the ranks: a plan does not depend on a few tokens more."""
    _check(length, ranks)
    piece = length // (2 * ranks)
    pieces = [range(i * piece, (i + 1) * piece) for i in range(2 * ranks)]
    if order == "contiguous":
        return [[range(pieces[2 * r].start, pieces[2 * r + 1].stop)] for r in range(ranks)]
    if order == "zigzag":
        return [[pieces[r], pieces[2 * ranks - 1 - r]] for r in range(ranks)]
    if order == "striped":
        return [[range(r, length, ranks)] for r in range(ranks)]
    raise ValueError(f"cost: order is {order!r}, wanted 'contiguous', 'zigzag' or 'striped'")


def _ramp(last: int, ceiling: int) -> int:
    """The sum of min(max(u, 0), ceiling) over all u <= last."""
    rising = max(0, min(last, ceiling))
    return rising * (rising + 1) // 2 + max(0, last - ceiling) * ceiling


def _pairs_up_to(queries: range, keys: range, behind: int) -> int:
    """How many pairs have key <= query - behind. Both ranges have the same step, so a query's keys are one more than those of the query before."""
    first = (queries.start - behind - keys.start) // keys.step + 1
    return _ramp(first + len(queries) - 1, len(keys)) - _ramp(first - 1, len(keys))


def visible_pairs(queries: list[range], keys: list[range], window: int | None = None) -> int:
    """Pairs that a causal mask lets see each other: a key at most as far on as the query, of a window the last so many, the query's own counted."""
    seen = 0
    for q in queries:
        for k in keys:
            if q.step != k.step:
                raise ValueError(f"cost: the steps of positions are {q.step} and {k.step}, wanted the same")
            seen += _pairs_up_to(q, k, 0) - (_pairs_up_to(q, k, window) if window is not None else 0)
    return seen


def balance(order: Order, length: int, ranks: int, window: int | None = None) -> float:
    """The most pairs that a rank has over the mean of all: how much longer everybody waits than with work shared evenly. 1 is even."""
    parts = positions_of(order, length, ranks)
    everything = [range(length)] if order != "striped" else [range(r, length, ranks) for r in range(ranks)]
    counts = [visible_pairs(part, everything, window) for part in parts]
    return max(counts) * ranks / sum(counts)


def steps_of(parts: list[list[range]], window: int | None = None) -> list[int]:
    """Over how many steps of a ring each rank's keys go under a causal mask: to the last rank behind it that has a query which sees one of them."""
    ranks = len(parts)
    return [
        max(step for step in range(ranks) if step == 0 or visible_pairs(parts[(owner + step) % ranks], parts[owner], window)) for owner in range(ranks)
    ]


def bytes_received(layer: Layer, ranks: int, comm: Comm, backward: bool = False) -> float:
    """What a rank receives for one pass of a layer. Shards are even, and every rank's keys are seen by every other: `steps_of` says how far others go.

    Forward: `ring` and `gather` bring the keys and values of everybody else. `ulysses` brings the heads of a rank for all tokens (a key head at
    least), and the outputs of its tokens back, with a logarithm per row. Backward: `ring` and `gather` bring the same rows again, and the gradients
    of keys and values travel to their owner in float32, by `ring` past every rank and home. By `ulysses` outputs and their gradients go as q does,
    and the gradients of q, k and v come back, those of keys in float32.
    """
    if comm not in ("ring", "gather", "ulysses"):
        raise ValueError(f"cost: comm is {comm!r}, wanted 'ring', 'gather' or 'ulysses'")
    others = (ranks - 1) / ranks * layer.length
    wider = _FLOAT32 / layer.element_bytes
    if comm != "ulysses":
        gradients = layer.key_row * wider if backward else 0
        return others * layer.key_row + (layer.length if comm == "ring" and ranks > 1 else others) * gradients
    keys = layer.key_row * max(1, layer.key_heads // ranks) / layer.key_heads
    queries, logarithms = layer.query_row / ranks, layer.query_heads / ranks * _FLOAT32
    if not backward:  # q, k, v; outputs
        return others * (2 * queries + keys + logarithms)
    return others * (4 * queries + (1 + wider) * keys + 2 * logarithms)  # q, outputs, both gradients; k, v and theirs


def bytes_held(layer: Layer, ranks: int, comm: Comm, backward: bool = False) -> float:
    """The most memory that the tensors of one call take on a rank at a time, q, k and v counted; backward also outputs and their gradients.

    Without tables, positions and what kernels work in. Shards are even; rows of `gather` end within tiles, which it fills up with zeros.
    """
    size = _Sizes(layer, ranks)
    if comm not in _HELD:
        raise ValueError(f"cost: comm is {comm!r}, wanted 'ring', 'gather' or 'ulysses'")
    own = size.queries + size.keys
    if backward:  # the output, its gradient, lse and its gradient (zeros where nobody asked)
        own += 2 * size.queries + 2 * size.logarithms
    return own + _HELD[comm](size, ranks, backward)


class _Sizes:
    """Bytes of a rank's share of a layer."""

    def __init__(self, layer: Layer, ranks: int) -> None:
        tokens = layer.length / ranks
        self.queries, self.keys = tokens * layer.query_row, tokens * layer.key_row
        self.logarithms = tokens * layer.query_heads * _FLOAT32
        self.wider = _FLOAT32 / layer.element_bytes
        self.keys_by_heads = self.keys * max(1, ranks / layer.key_heads)  # a head at least


def _held_by_ring(size: _Sizes, ranks: int, backward: bool) -> float:
    """Keys that are in use and that arrive. Forward: the output so far, and the part that is made. Backward: the output in float32, the gradient of
    q so far and that of the part; gradients of keys that go, that come and that are made."""
    keys, narrow = min(2, ranks - 1) * size.keys, size.wider > 1  # in 32 bits the output is the one that the caller gets
    if not backward:
        output, lse = size.queries * size.wider, size.logarithms
        # Merged: lse so far is in float64, and there are some more where their difference is formed. One part: it is narrowed in the end.
        return keys + (2 * output + 8 * lse if ranks > 1 else output + max(3 * lse, lse + size.queries * narrow))
    output = size.queries * size.wider * narrow
    return keys + output + 2 * size.queries * size.wider + (3 if ranks > 1 else 1) * size.keys * size.wider


def _held_by_gather(size: _Sizes, ranks: int, backward: bool) -> float:
    """Queries among rows of zeros, all keys. While those are put in order: values as they came, too. Backward: gradients of all keys, and twice on
    their way home."""
    everything = ranks * size.keys
    arriving = (ranks - 1) / 2 * size.keys + everything
    if not backward:
        return size.queries + max(arriving, everything + size.queries + size.logarithms)
    rows = 3 * size.queries + 2 * size.logarithms
    return max(rows + arriving, rows + everything + size.queries + everything * size.wider, size.queries + (2 * ranks - 1) * size.keys * size.wider)


def _held_by_ulysses(size: _Sizes, ranks: int, backward: bool) -> float:
    """By heads what there was by tokens, as it came and in order; what is made of it, a call's and all; and that on its way back."""
    came = 1 - 1 / ranks
    given = size.queries + size.keys_by_heads
    made = size.queries + size.logarithms
    if backward:
        given += 2 * size.queries + 2 * size.logarithms
        made = size.queries + size.keys_by_heads * size.wider
    return max(given * (1 + came), given + 2 * made, made * (2 + came))


_HELD = {"ring": _held_by_ring, "gather": _held_by_gather, "ulysses": _held_by_ulysses}
