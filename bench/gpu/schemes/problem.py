# SPDX-License-Identifier: Apache-2.0
"""A problem that several contenders solve, and its solution in float32 with all scores written out.

Tensors are (batch, heads, tokens, channels) in memory, as PyTorch's own attention wants them; phasor gets them with two axes swapped. What a scheme
learns has heads on its first axis, so that one head of everything is a problem of its own: that one is what results are held against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
CONTENTS = ("q", "k", "v")  # names that no tensor of a scheme has


@dataclass(frozen=True)
class Size:
    batch: int
    heads: int
    tokens: int
    width: int
    causal: bool
    device: str
    window: int | None = None  # keys up to so far behind a query are seen
    key_heads: int | None = None

    @property
    def scale(self) -> float:
        return self.width**-0.5

    @property
    def operations(self) -> float:
        """Of the forward: two products for every score that is seen (half of them by a causal mask). The backward has 2.5 times as many."""
        seen = self.tokens if self.window is None else min(self.tokens, 2 * self.window)
        return 4.0 * self.batch * self.heads * self.tokens * seen * self.width / (2 if self.causal else 1)


@dataclass(frozen=True)
class Scheme:
    """One thing, said in phasor's words and by its formula."""

    name: str
    tensors: Callable[[Size, torch.Generator], Tensors] = lambda size, generator: {}
    ours: Callable[[Tensors], Any] = lambda t: None
    # What is added to scores that are scaled already, with every score written out: of (q, k, tensors, size). None: nothing.
    added: Callable[[Tensor, Tensor, Tensors, Size], Tensor] | None = None
    # (heads, 2 tokens - 1) by key - query, where that is all that is added: a FlexAttention score_mod can say it then.
    diagonal: Callable[[Tensors, Size], Tensor] | None = None
    turn: Callable[[Tensor], Tensor] | None = None  # what becomes of q and k before anything
    # What is added to the outputs, of (weights, tensors).
    to_outputs: Callable[[Tensor, Tensors], Tensor] | None = None
    fixed: tuple[str, ...] = ()  # tensors that do not learn
    of_all_heads: tuple[str, ...] = ()  # tensors without an axis of heads: a head alone does not have their gradient
    options: dict[str, Any] = field(default_factory=dict)  # of phasor.attention


def key_minus_query(tokens: int, device: str) -> Tensor:
    at = torch.arange(tokens, device=device)
    return at[None] - at[:, None]


def of_distances(diagonal: Tensor, tokens: int) -> Tensor:
    """(heads, tokens, tokens) of (heads, 2 tokens - 1) by key - query."""
    return diagonal[:, key_minus_query(tokens, str(diagonal.device)) + tokens - 1]


def hidden(size: Size) -> Tensor:
    """Which keys a query does not see."""
    distance = key_minus_query(size.tokens, size.device)
    unseen = distance > 0 if size.causal else torch.zeros_like(distance, dtype=torch.bool)
    return unseen if size.window is None else unseen | (distance < -size.window)


def added(scheme: Scheme, q: Tensor, k: Tensor, tensors: Tensors, size: Size) -> Tensor | None:
    """All that a scheme adds to scores, (batch or 1, heads, tokens, tokens); None: nothing."""
    if scheme.diagonal is not None:
        return of_distances(scheme.diagonal(tensors, size), size.tokens)[None]
    return None if scheme.added is None else scheme.added(q, k, tensors, size)


def written_out(scheme: Scheme, contents: tuple[Tensor, ...], tensors: Tensors, size: Size) -> Tensor:
    """The formula, in the dtype of its tensors."""
    q, k, v = contents
    if scheme.turn is not None:
        q, k = scheme.turn(q), scheme.turn(k)
    scores = q @ k.transpose(-1, -2) * size.scale
    more = added(scheme, q, k, tensors, size)
    scores = scores if more is None else scores + more
    weights = scores.masked_fill(hidden(size), -math.inf).softmax(-1)
    out = weights @ v
    return out if scheme.to_outputs is None else out + scheme.to_outputs(weights, tensors)


class Problem:
    """A scheme with its numbers, drawn by a seed; `contents` are q, k, v and the gradient of the outputs, which all schemes of a size may share."""

    def __init__(self, scheme: Scheme, size: Size, contents: tuple[Tensor, ...], seed: int = 5) -> None:
        self.scheme, self.size, self.contents = scheme, size, contents
        self.tensors = scheme.tensors(size, torch.Generator(size.device).manual_seed(seed))
        assert not set(CONTENTS) & set(self.tensors)

    @property
    def name(self) -> str:
        return self.scheme.name

    def one_head(self) -> tuple[tuple[Tensor, ...], Tensors, Size]:
        """The first head of every batch row, in float32."""
        contents = tuple(x[:, :1].float() for x in self.contents)
        tensors = {name: (x if name in self.scheme.of_all_heads else x[:1]).float() for name, x in self.tensors.items()}
        return contents, tensors, replace(self.size, heads=1, key_heads=None)

    @cached_property
    def forward(self) -> Tensors:
        """The outputs of that head."""
        contents, tensors, size = self.one_head()
        with torch.no_grad():
            return {"out": written_out(self.scheme, contents[:3], tensors, size)}

    @cached_property
    def backward(self) -> Tensors:
        """The gradients of that head."""
        (*qkv, gradient), tensors, size = self.one_head()
        leaves = {name: x.detach().clone().requires_grad_() for name, x in (*zip(CONTENTS, qkv, strict=True), *tensors.items())}
        out = written_out(self.scheme, tuple(leaves[name] for name in CONTENTS), {name: leaves[name] for name in tensors}, size)
        wanted = [name for name in leaves if name not in self.scheme.fixed + self.scheme.of_all_heads]
        return dict(zip(wanted, torch.autograd.grad(out, [leaves[name] for name in wanted], gradient), strict=True))


def drawn(size: Size, seed: int = 1) -> tuple[Tensor, ...]:
    """q, k, v and the gradient of the outputs, bf16."""
    generator = torch.Generator(size.device).manual_seed(seed)
    counts = (size.heads, size.key_heads or size.heads, size.key_heads or size.heads, size.heads)
    return tuple(torch.randn(size.batch, heads, size.tokens, size.width, device=size.device, generator=generator).bfloat16() for heads in counts)


def distance_between(got: Tensors, wanted: Tensors) -> float:
    """The greatest relative error of any tensor that both have; infinity where one is not finite, or there is none."""
    both = [(got[name].float(), x) for name, x in wanted.items() if name in got]
    if not both or not all(bool(x.isfinite().all()) for x, _ in both):
        return math.inf
    return max(((x - y).norm() / y.norm()).item() for x, y in both)
