# SPDX-License-Identifier: Apache-2.0
"""Attention spelled out: every score in full, from each scheme's formula, by PyTorch's plain operations, which differentiate themselves.

Shares nothing with phasor but the buckets of distances (which have tests of their own) and the rows of its rotations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import phasor

B, TQ, TK, H, HK, D = 2, 5, 7, 4, 2, 6


@dataclass
class Mask:
    """Who sees whom, and at which positions."""

    causal: bool = False
    window: tuple[int | None, int | None] = (None, None)
    prefix: list[int] | None = None
    key_mask: Tensor | None = None
    query_positions: Tensor | None = None  # (Tq) or (B, Tq)
    key_positions: Tensor | None = None

    def options(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in ("prefix", "key_mask", "query_positions", "key_positions")}
        window = None if self.window == (None, None) else self.window
        return {"causal": self.causal, "window": window, **{name: value for name, value in given.items() if value is not None}}

    def positions(self, tq: int, tk: int) -> tuple[Tensor, Tensor]:
        """(B or 1, T)."""
        at = torch.arange(tk - tq, tk) if self.query_positions is None else self.query_positions
        of = torch.arange(tk) if self.key_positions is None else self.key_positions
        return at.reshape(-1, tq), of.reshape(-1, tk)

    def allowed(self, tq: int, tk: int) -> Tensor:
        """(B or 1, 1, Tq, Tk)."""
        at, of = self.positions(tq, tk)
        r = at[:, :, None] - of[:, None, :]
        seen = torch.ones_like(r, dtype=torch.bool)
        if self.causal:
            ahead = r < 0
            if self.prefix is not None:
                ahead = ahead & (of[:, None, :] >= torch.tensor(self.prefix)[:, None, None])
            seen = seen & ~ahead
        left, right = self.window
        seen = seen if left is None else seen & (r <= left)
        seen = seen if right is None else seen & (-r <= right)
        if self.key_mask is not None:
            seen = seen & self.key_mask.bool()[:, None, :]
        return seen[:, None]


@dataclass
class Call:
    """What the formula of a scheme sees: q (B, Tq, H, D), k (B, Tk, H, D), distances r (B or 1, Tq, Tk), scale, x the scheme's tensors.

    dtype: what q and k are rounded to when they have been rotated; gradients are as if they were not.
    """

    q: Tensor
    k: Tensor
    at: Tensor
    of: Tensor
    scale: float
    seen: Tensor
    x: dict[str, Tensor]
    dtype: torch.dtype

    def turned(self, x: Tensor, positions: Tensor) -> Tensor:
        exact = turned(x, positions)
        return exact + (exact.to(self.dtype).to(exact.dtype) - exact).detach()

    @property
    def r(self) -> Tensor:
        return self.at[:, :, None] - self.of[:, None, :]


@dataclass
class Case:
    """A scheme of some tensors, and what it adds: scores (B, H, Tq, Tk), and rows (B, H, Tq, Tk, D) to the values."""

    scheme: Callable[[dict[str, Tensor]], Any]
    shapes: dict[str, tuple[int, ...]]
    scores: Callable[[Call], Any]
    values: Callable[[Call], Tensor] | None = None
    content: Callable[[Call], Tensor] | None = None
    mask: dict[str, Any] = field(default_factory=dict)  # what it needs
    tokens: tuple[int, int] = (TQ, TK)
    positive: bool = False

    def tensors(self, seed: int = 3, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        made = {name: torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1 for name, shape in self.shapes.items()}
        return {name: (x.abs() + 0.1 if self.positive else x).to(dtype).requires_grad_() for name, x in made.items()}


def qkv(tq: int = TQ, tk: int = TK, dtype: torch.dtype = torch.float64, seed: int = 1, batch: int = B) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, tq, H, D), (batch, tk, HK, D), (batch, tk, HK, D))
    return [(torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype).requires_grad_() for shape in shapes]


def dot(a: Tensor, b: Tensor) -> Tensor:
    """(B, Tq, H, D), (B, Tk, H, D) -> (B, H, Tq, Tk)."""
    return torch.einsum("bihd,bjhd->bhij", a, b)


def naive(
    case: Case, q: Tensor, k: Tensor, v: Tensor, x: dict[str, Tensor], mask: Mask, scale: float | None = None, softcap: float = 0.0,
    dtype: torch.dtype = torch.float64,
) -> Any:  # fmt: skip
    """out (B, Tq, H, D) and lse (B, Tq, H); dtype: as Call has it."""
    group = q.shape[2] // k.shape[2]
    k, v = (y.repeat_interleave(group, 2) for y in (k, v))
    at, of = mask.positions(q.shape[1], k.shape[1])
    seen = mask.allowed(q.shape[1], k.shape[1])
    call = Call(q, k, at, of, 1 / math.sqrt(q.shape[3]) if scale is None else scale, seen, x, dtype)
    s = (dot(q, k) * call.scale if case.content is None else case.content(call)) + case.scores(call)
    seen = seen & ~torch.isneginf(s)  # a dense bias hides a key by -infinity, which a soft cap leaves as it is
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    s = torch.where(seen, s, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.where(seen, torch.exp(s - torch.where(torch.isneginf(lse), 0.0, lse)[..., None]), 0.0)
    out = torch.einsum("bhij,bjhd->bihd", p, v)
    if case.values is not None:
        out = out + torch.einsum("bhij,bhijd->bihd", p, case.values(call).expand(*p.shape, -1))
    return out, lse.transpose(1, 2)


# ---- Parts of formulas ----


def per_head(table: Tensor, rows: Tensor) -> Tensor:
    """(H, rows) at (B, Tq, Tk) -> (B, H, Tq, Tk)."""
    return table[:, rows].transpose(0, 1)


def clip(r: Tensor, left: int, right: int) -> Tensor:
    return (-r).clamp(-left, right) + left


def query_rows(c: Call, table: Tensor, rows: Tensor, features: Tensor | None = None) -> Tensor:
    """features . table[rows]: table (rows, width), or (H, rows, width)."""
    a = c.q if features is None else features
    table = table if table.ndim == 3 else table.expand(a.shape[2], *table.shape)
    rows = rows.expand(a.shape[0], -1, -1)
    return torch.einsum("bihd,bhijd->bhij", a, table[:, rows].transpose(0, 1))


def key_rows(c: Call, table: Tensor, rows: Tensor) -> Tensor:
    table = table if table.ndim == 3 else table.expand(c.k.shape[2], *table.shape)
    rows = rows.expand(c.k.shape[0], -1, -1)
    return torch.einsum("bjhd,bhijd->bhij", c.k, table[:, rows].transpose(0, 1))


def buckets(c: Call, both: bool, count: int, farthest: int) -> Tensor:
    return torch.from_numpy(phasor.t5_buckets(c.r.numpy(), count, farthest, both))


def deberta_rows(c: Call, reading: str = "hf") -> Tensor:
    bias = phasor.Bias(phasor.DebertaBuckets(heads=1, buckets=4, max_distance=8, reading=reading))
    return torch.from_numpy(bias.row(c.r.numpy()))


def mlp(parameters: Tensor, x: Tensor, widths: tuple[int, ...], activation: Callable[[Tensor], Tensor]) -> Tensor:
    """(...) -> (..., last)."""
    x, at = x[..., None], 0
    for layer, (width_in, width_out) in enumerate(zip(widths, widths[1:])):
        weight = parameters[at : at + width_in * width_out].reshape(width_out, width_in)
        at += width_in * width_out
        x = x @ weight.T + parameters[at : at + width_out]
        at += width_out
        x = activation(x) if layer + 2 < len(widths) else x
    return x


def turned(x: Tensor, positions: Tensor, power: Tensor | None = None, gamma: float = 0.0, scale_base: float = 1.0) -> Tensor:
    """x (B, T, H, D) rotated, pairs (i, i + D / 2), at positions (B or 1, T); with a power, times zeta ** power."""
    pairs = x.shape[-1] // 2
    angle = positions[:, :, None, None].to(torch.float64) * 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    gain = 1.0
    if power is not None:
        zeta = (torch.arange(pairs, dtype=torch.float64) / pairs + gamma) / (1 + gamma)
        gain = zeta ** (power[:, :, None, None] / scale_base)
    cos, sin = angle.cos() * gain, angle.sin() * gain
    a, b = x[..., :pairs], x[..., pairs:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def rerope(c: Call) -> Tensor:
    near = dot(c.turned(c.q, c.at), c.turned(c.k, c.of))
    far = dot(c.turned(c.q, torch.full_like(c.at, 2)), c.k)
    return c.scale * torch.where((c.r < 2)[:, None], near, far)


def cope(c: Call) -> Tensor:
    gates = torch.where(c.seen & (c.r >= 0)[:, None], torch.sigmoid(0.7 * dot(c.q, c.k)), 0.0)
    count = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=2.0)
    z = torch.einsum("bihd,rd->bhir", c.q, c.x["table"])
    low, high = count.detach().floor().long(), count.detach().ceil().long()
    part = count - low
    return z.gather(-1, high) * part + z.gather(-1, low) * (1 - part)


def grid_rows(c: Call) -> Tensor:
    dy, dx = c.at[:, :, None] // 3 - c.of[:, None] // 3, c.at[:, :, None] % 3 - c.of[:, None] % 3
    return (dy + 1) * 5 + dx + 2


def class_rows(c: Call) -> Tensor:
    at, of = c.at[:, :, None], c.of[:, None]
    inner = ((at - 1) // 3 - (of - 1) // 3 + 1) * 5 + (at - 1) % 3 - (of - 1) % 3 + 2
    return torch.where((at == 0) & (of == 0), 17, torch.where(at == 0, 15, torch.where(of == 0, 16, inner)))


def decomposed(c: Call) -> Tensor:
    rows_h = c.at[:, :, None] // 3 - c.of[:, None] // 3 + 1
    rows_w = c.at[:, :, None] % 3 - c.of[:, None] % 3 + 2
    return query_rows(c, c.x["rows_h"], rows_h) + query_rows(c, c.x["rows_w"], rows_w)


def inkling(c: Call) -> Tensor:
    r = c.r.expand(B, -1, -1)
    z = torch.einsum("bihw,we->bhie", c.x["features"], c.x["table"])
    inside = (r >= 0) & (r < 3)
    return torch.where(inside[:, None], z.gather(-1, r.clamp(0, 2)[:, None].expand(-1, H, -1, -1)), 0.0)


def fire(c: Call) -> Tensor:
    *_, base, length = c.x["p"].unbind()
    psi = lambda y: torch.log(base * y + 1)  # noqa: E731
    x = psi(c.r.abs().double()) / psi(torch.maximum(length, c.at.double()))[:, :, None]
    return mlp(c.x["p"][:-2], x, (1, 3, H), torch.relu).permute(0, 3, 1, 2)


def segments(c: Call) -> Tensor:
    differ = (QUERY_SEGMENTS[:, :, None] != KEY_SEGMENTS[:, None, :]).long()
    return c.scale * query_rows(c, c.x["e"].transpose(0, 1), differ, c.q + c.x["s"])


def xl(c: Call) -> Tensor:
    rows = (TK - 1 - c.r).clamp(0, TK + TQ - 2)  # the first row is distance TK - 1; further ones read the last
    return c.scale * (dot(c.x["u"].expand_as(c.q), c.k) + query_rows(c, c.x["table"].transpose(0, 1), rows, c.q + c.x["v"]))


ROPE = phasor.Rotary(head_dim=D)
KEY_SEGMENTS = torch.tensor([[0, 0, 1, 1, 0, 2, 2], [1, 1, 1, 0, 0, 0, 1]])
QUERY_SEGMENTS = KEY_SEGMENTS[:, TK - TQ :]
XL = {"table": (TK + TQ - 1, H, D), "u": (H, D), "v": (H, D)}
_SLOPES = torch.from_numpy(phasor.alibi_slopes(H))


def _alibi(slopes: Tensor, c: Call) -> Tensor:
    return -slopes[:, None, None] * c.r.abs()[:, None].double()


def _kerple(c: Call) -> Tensor:
    r1, r2 = c.x["r"].reshape(2, H, 1, 1)
    return -r1 * torch.log1p(r2 * c.r.abs()[:, None])


def _deberta(c: Call) -> Tensor:
    rows = deberta_rows(c)
    return c.scale * (query_rows(c, c.x["keys"].transpose(0, 1), rows) + key_rows(c, c.x["queries"].transpose(0, 1), rows))


def _grid_case(scheme: Any, shapes: dict[str, tuple[int, ...]], scores: Any, tokens: int) -> Case:
    return Case(scheme, shapes, scores, tokens=(tokens, tokens))


CASES: dict[str, Case] = {
    "none": Case(lambda x: None, {}, lambda c: 0.0),
    "alibi": Case(lambda x: phasor.Alibi(), {}, lambda c: _alibi(_SLOPES, c)),
    "alibi_learned": Case(lambda x: phasor.BiasTerm(phasor.Alibi(), x["slopes"]), {"slopes": (H,)}, lambda c: _alibi(c.x["slopes"], c)),
    "kerple": Case(lambda x: phasor.BiasTerm(phasor.Kerple(r1=(1.0,) * H, r2=(1.0,) * H), x["r"]), {"r": (2 * H,)}, _kerple, positive=True),
    "sandwich": Case(
        lambda x: phasor.Sandwich(heads=H, width=4),
        {},
        lambda c: (
            sum(torch.cos(c.r.double() * w)[:, None] for w in (1.0, 0.01)) * (H / (8 * torch.arange(1, H + 1).double()))[:, None, None]
        ),
    ),
    "t5": Case(
        lambda x: phasor.T5(x["table"], max_distance=6), {"table": (H, 8)}, lambda c: per_head(c.x["table"], buckets(c, True, 8, 6))
    ),
    "t5_behind": Case(
        lambda x: phasor.T5(x["table"], False, 6),
        {"table": (H, 8)},
        lambda c: per_head(c.x["table"], buckets(c, False, 8, 6)),
        mask={"causal": True},
    ),
    "wavlm": Case(
        lambda x: phasor.WavLM(x["table"], x["gate"], 6),
        {"table": (H, 8), "gate": (B, TQ, H)},
        lambda c: per_head(c.x["table"], buckets(c, True, 8, 6)) * c.x["gate"].transpose(1, 2)[..., None],
    ),
    "learned": Case(lambda x: phasor.LearnedBias(x["table"], 3, 1), {"table": (H, 5)}, lambda c: per_head(c.x["table"], clip(c.r, 3, 1))),
    "dense": Case(lambda x: phasor.Dense(x["bias"]), {"bias": (B, H, TQ, TK)}, lambda c: c.x["bias"]),
    "dense_shared": Case(lambda x: phasor.Dense(x["bias"]), {"bias": (H, 1, TK)}, lambda c: c.x["bias"]),
    "shaw": Case(
        lambda x: phasor.Shaw(x["k"], left=2, right=3), {"k": (6, D)}, lambda c: c.scale * query_rows(c, c.x["k"], clip(c.r, 2, 3))
    ),
    "shaw_values": Case(
        lambda x: phasor.Shaw(x["k"], x["v"], 2, 1),
        {"k": (H, 4, D), "v": (H, 4, D)},
        lambda c: c.scale * query_rows(c, c.x["k"], clip(c.r, 2, 1)),
        lambda c: c.x["v"][:, clip(c.r, 2, 1)].transpose(0, 1),
    ),
    "key_side": Case(
        lambda x: phasor.TableTerm("key", x["t"], 2, 1, scale=0.3), {"t": (4, D)}, lambda c: 0.3 * key_rows(c, c.x["t"], clip(c.r, 2, 1))
    ),
    "xl": Case(lambda x: phasor.TransformerXL(x["table"], TK - 1, x["u"], x["v"]), XL, xl),
    "xlnet": Case(
        lambda x: phasor.XLNet(
            phasor.TransformerXL(x["table"], TK - 1, x["u"], x["v"]), x["e"], x["s"], QUERY_SEGMENTS.contiguous(), KEY_SEGMENTS
        ),
        {**XL, "e": (2, H, D), "s": (H, D)},
        lambda c: xl(c) + segments(c),
    ),
    "deberta": Case(lambda x: phasor.Deberta(x["keys"], x["queries"], 4, 8), {"keys": (8, H, D), "queries": (8, H, D)}, _deberta),
    "inkling": Case(
        lambda x: phasor.Inkling(x["features"], x["table"]), {"features": (B, TQ, H, 2), "table": (2, 3)}, inkling, mask={"causal": True}
    ),
    "cope": Case(lambda x: phasor.Cope(x["table"], 0.7), {"table": (3, D)}, cope, mask={"causal": True}),
    "grid": _grid_case(lambda x: phasor.Grid(x["t"], (2, 3)), {"t": (H, 15)}, lambda c: per_head(c.x["t"], grid_rows(c)), 6),
    "grid_class": _grid_case(lambda x: phasor.Grid(x["t"], (2, 3), True), {"t": (H, 18)}, lambda c: per_head(c.x["t"], class_rows(c)), 7),
    "decomposed": _grid_case(
        lambda x: phasor.Decomposed(x["rows_h"], x["rows_w"], (2, 3), (2, 3)), {"rows_h": (3, D), "rows_w": (5, D)}, decomposed, 6
    ),
    "rope": Case(lambda x: phasor.Rope(ROPE), {}, lambda c: 0.0, content=lambda c: c.scale * dot(c.turned(c.q, c.at), c.turned(c.k, c.of))),
    "rope_keys_rotated": Case(
        lambda x: phasor.Rope(ROPE, keys_rotated=True), {}, lambda c: 0.0, content=lambda c: c.scale * dot(c.turned(c.q, c.at), c.k)
    ),
    "rerope": Case(lambda x: phasor.Rope(ROPE, map=phasor.positions.ReRope(2)), {}, lambda c: 0.0, content=rerope, mask={"causal": True}),
    "xpos": Case(
        lambda x: phasor.Xpos(ROPE, scale_base=8.0),
        {},
        lambda c: 0.0,
        content=lambda c: c.scale * dot(turned(c.q, c.at, c.at, 0.4, 8.0), turned(c.k, c.of, -c.of, 0.4, 8.0)),
    ),
    "fire": Case(
        lambda x: phasor.BiasTerm(phasor.Fire(mlp=phasor.Mlp((1, 3, H), (0.5,) * 22), length=4.0), x["p"]),
        {"p": (24,)},
        fire,
        positive=True,
    ),
    "dynamic_mlp": Case(
        lambda x: phasor.BiasTerm(phasor.DynamicMlp(mlp=phasor.Mlp((1, 3, H), (0.5,) * 22, "silu")), x["p"]),
        {"p": (22,)},
        lambda c: mlp(c.x["p"], c.r.double(), (1, 3, H), torch.nn.functional.silu).permute(0, 3, 1, 2),
    ),
    "several": Case(
        lambda x: [phasor.Rope(ROPE), phasor.T5(x["table"], max_distance=6), phasor.Shaw(x["k"], x["v"], 2, 2), phasor.Alibi()],
        {"table": (H, 8), "k": (5, D), "v": (5, D)},
        lambda c: per_head(c.x["table"], buckets(c, True, 8, 6)) + c.scale * query_rows(c, c.x["k"], clip(c.r, 2, 2)) + _alibi(_SLOPES, c),
        lambda c: c.x["v"][clip(c.r, 2, 2)][:, None],
        lambda c: c.scale * dot(c.turned(c.q, c.at), c.turned(c.k, c.of)),
    ),
}
