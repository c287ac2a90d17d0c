# SPDX-License-Identifier: Apache-2.0
"""Schemes of phasor.attention as modules: what they learn are parameters, and calling one gives the scheme for so many queries and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from phasor import _additive, _bias, _torch
from phasor import _bias_specs as specs
from phasor._attention import schemes


def _normal(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) * 0.02)


class T5Scheme(nn.Module):
    """T5's bias: a number for each head and bucket of distances. `weight` is (heads, buckets), the transpose of Hugging Face's.

    >>> import torch, phasor
    >>> scheme = phasor.nn.T5Scheme(heads=2)
    >>> x = torch.randn(1, 5, 2, 8)
    >>> phasor.attention(x, x, x, scheme=scheme(), scale=1.0).sum().backward()
    >>> scheme.weight.grad.shape
    torch.Size([2, 32])
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        self.weight = _normal(heads, buckets)
        self.max_distance, self.bidirectional = max_distance, bidirectional

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.T5:
        return schemes.T5(self.weight, self.bidirectional, self.max_distance)

    def extra_repr(self) -> str:
        heads, buckets = self.weight.shape
        return f"heads={heads}, buckets={buckets}, max_distance={self.max_distance}, bidirectional={self.bidirectional}"


class WavLMScheme(nn.Module):
    """WavLM's: T5's bias times a gate that each head makes of its part of the hidden states (B, T, heads x head_dim).

    >>> import torch, phasor
    >>> scheme = phasor.nn.WavLMScheme(heads=2, head_dim=4)
    >>> scheme(torch.randn(1, 5, 8)).gate.shape
    torch.Size([1, 5, 2])
    """

    def __init__(self, heads: int, head_dim: int, buckets: int = 320, max_distance: int = 800) -> None:
        super().__init__()
        self.weight = _normal(heads, buckets)
        self.linear = nn.Linear(head_dim, 8)
        self.constant = nn.Parameter(torch.ones(heads))
        self.max_distance = max_distance

    def forward(self, hidden: Tensor) -> schemes.WavLM:
        logits = self.linear(hidden.unflatten(-1, (self.weight.shape[0], -1)))  # (B, T, H, 8)
        first, second = torch.sigmoid(logits.unflatten(-1, (2, 4)).sum(-1)).unbind(-1)
        return schemes.WavLM(self.weight, first * (second * self.constant - 1) + 2, self.max_distance)


class AlibiScheme(nn.Module):
    """ALiBi with slopes that learn, or (learned=False) stay. They begin as the formula's; keywords are those of phasor.Alibi.

    >>> import phasor
    >>> phasor.nn.AlibiScheme(2).slopes.tolist()
    [0.0625, 0.00390625]
    """

    def __init__(self, heads: int, *, learned: bool = True, **fields: Any) -> None:
        super().__init__()
        self.spec = specs.Alibi(heads=heads, **fields)
        slopes = torch.tensor(_bias.Bias(self.spec).slopes, dtype=torch.float32)
        self.slopes = nn.Parameter(slopes) if learned else None

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.BiasTerm:
        return schemes.BiasTerm(self.spec, self.slopes)

    def extra_repr(self) -> str:
        return f"heads={self.spec.heads}, form={self.spec.form!r}, learned={self.slopes is not None}"


class KerpleScheme(nn.Module):
    """KERPLE: -r1 ln(1 + r2 |distance|) ("logarithmic") or -r1 |distance|^r2 ("power"), cut from below at 0.01 as in its code.

    >>> import phasor
    >>> phasor.nn.KerpleScheme(2)().parameters.shape
    torch.Size([4])
    """

    def __init__(self, heads: int, kind: str = "logarithmic") -> None:
        super().__init__()
        ones = (1.0,) * heads
        self.spec = specs.Kerple(kind=kind, r1=ones, r2=ones)  # type: ignore[arg-type]
        self.r1 = nn.Parameter(torch.rand(heads) * 2)
        self.r2 = nn.Parameter(torch.rand(heads) * (1 if kind == "logarithmic" else 2))

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.BiasTerm:
        r2 = self.r2.clamp(min=0.01, max=None if self.spec.kind == "logarithmic" else 2.0)
        return schemes.BiasTerm(self.spec, torch.cat([self.r1.clamp(min=0.01), r2]))

    def extra_repr(self) -> str:
        return f"heads={len(self.spec.r1)}, kind={self.spec.kind!r}"


class FireScheme(nn.Module):
    """FIRE: a perceptron of ln(c |distance| + 1) / ln(c max(length, query position) + 1), with c and length learned too.

    >>> import phasor
    >>> sorted(phasor.nn.FireScheme(2, hidden=4).state_dict())
    ['c', 'hidden.bias', 'hidden.weight', 'length', 'out.bias', 'out.weight']
    """

    def __init__(self, heads: int, hidden: int = 32, c: float = 0.1, length: float = 512.0, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(1, hidden), nn.Linear(hidden, heads)
        self.c = nn.Parameter(torch.tensor(c))
        self.length = nn.Parameter(torch.tensor(length))
        mlp = specs.Mlp(widths=(1, hidden, heads), parameters=(0.0,) * (2 * hidden + hidden * heads + heads))
        self.spec = specs.Fire(mlp=mlp, c=c, length=length, epsilon=epsilon)

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.BiasTerm:
        parts = (self.hidden.weight, self.hidden.bias, self.out.weight, self.out.bias, self.c, self.length)
        return schemes.BiasTerm(self.spec, torch.cat([part.reshape(-1) for part in parts]))


class LearnedBiasScheme(nn.Module):
    """A number for each head and each key - query from -left to right, clipped at both ends.

    >>> import phasor
    >>> phasor.nn.LearnedBiasScheme(2, left=3, right=1).weight.shape
    torch.Size([2, 5])
    """

    def __init__(self, heads: int, left: int, right: int) -> None:
        super().__init__()
        self.weight = _normal(heads, left + 1 + right)
        self.left, self.right = left, right

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.LearnedBias:
        return schemes.LearnedBias(self.weight, self.left, self.right)


class ShawScheme(nn.Module):
    """Shaw's: a row for each key - query from -left to right that is added to the key, and another to the value; heads=0 shares them.

    >>> import torch, phasor
    >>> scheme = phasor.nn.ShawScheme(head_dim=8, left=4, right=4)
    >>> x = torch.randn(1, 5, 2, 8)
    >>> phasor.attention(x, x, x, scheme=scheme()).shape
    torch.Size([1, 5, 2, 8])
    """

    def __init__(self, head_dim: int, left: int, right: int, *, heads: int = 0, values: bool = True) -> None:
        super().__init__()
        shape = ((heads,) if heads else ()) + (left + right + 1, head_dim)
        self.keys = _normal(*shape)
        self.values = _normal(*shape) if values else None
        self.left, self.right = left, right

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.Shaw:
        return schemes.Shaw(self.keys, self.values, self.left, self.right)


class TransformerXLScheme(nn.Module):
    """Transformer-XL's: sinusoids of distances, projected, meet q + v; keys meet q + u. `order` is "halves", or "interleaved" (Conformer).

    >>> import torch, phasor
    >>> scheme = phasor.nn.TransformerXLScheme(heads=2, head_dim=8)
    >>> x = torch.randn(1, 5, 2, 8)
    >>> phasor.attention(x[:, 3:], x, x, scheme=scheme(2, 5)).shape    # the last two of five
    torch.Size([1, 2, 2, 8])
    """

    def __init__(self, heads: int, head_dim: int, width: int = 0, *, order: str = "halves", base: float = 10000.0, clamp: int = 0) -> None:
        super().__init__()
        self.width = width or heads * head_dim
        self.projection = nn.Linear(self.width, heads * head_dim, bias=False)
        self.u, self.v = _normal(heads, head_dim), _normal(heads, head_dim)
        self.clamp = clamp
        ladder = _additive.GeometricLadder(base=base)
        if order not in ("halves", "interleaved"):
            raise ValueError(f"TransformerXLScheme: order is {order!r}, wanted 'halves' or 'interleaved'")
        lies = "sin_cos" if order == "halves" else "interleaved"
        self.text = _torch.text_of(_additive.Sinusoidal(self.width, order=lies, ladder=ladder).spec)

    def rows(self, queries: int, keys: int) -> Tensor:
        """The projected sinusoids of distances keys - 1, ..., 1 - queries: (rows, heads, head_dim)."""
        weight = self.projection.weight
        distances = torch.arange(keys - 1, -queries, -1, device=weight.device)
        if self.clamp:
            distances = distances.clamp(-self.clamp, self.clamp)
        sinusoids = torch.ops.phasor.sinusoidal(distances, self.text, torch.promote_types(weight.dtype, torch.float32))
        return self.projection(sinusoids.to(weight.dtype)).unflatten(-1, self.u.shape)

    def forward(self, queries: int, keys: int | None = None) -> schemes.TransformerXL:
        keys = queries if keys is None else keys
        return schemes.TransformerXL(self.rows(queries, keys), keys - 1, self.u, self.v)


class XLNetScheme(TransformerXLScheme):
    """XLNet's: Transformer-XL's, and a vector for keys of the same and of another segment that meets q + s.

    >>> import torch, phasor
    >>> scheme = phasor.nn.XLNetScheme(heads=2, head_dim=8)
    >>> x, segments = torch.randn(1, 4, 2, 8), torch.tensor([0, 0, 1, 1])
    >>> phasor.attention(x, x, x, scheme=scheme(4, query_segments=segments)).shape
    torch.Size([1, 4, 2, 8])
    """

    def __init__(self, heads: int, head_dim: int, width: int = 0, **options: Any) -> None:
        super().__init__(heads, head_dim, width, **options)
        self.segments, self.s = _normal(2, heads, head_dim), _normal(heads, head_dim)

    def forward(  # type: ignore[override]
        self, queries: int, keys: int | None = None, query_segments: Tensor | None = None, key_segments: Tensor | None = None
    ) -> schemes.XLNet:
        xl = super().forward(queries, keys)
        if query_segments is None:
            return schemes.XLNet(xl)
        return schemes.XLNet(xl, self.segments, self.s, query_segments, query_segments if key_segments is None else key_segments)


class DebertaScheme(nn.Module):
    """DeBERTa's: q meets projected rows of buckets of distances (c2p), k meets others (p2c). Attend with `scale`, 1 / sqrt(3 head_dim).

    >>> import torch, phasor
    >>> scheme = phasor.nn.DebertaScheme(heads=2, head_dim=8, buckets=4, max_distance=8)
    >>> x = torch.randn(1, 5, 2, 8)
    >>> phasor.attention(x, x, x, scheme=scheme(), scale=scheme.scale).shape
    torch.Size([1, 5, 2, 8])
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        *,
        buckets: int = 256,
        max_distance: int = 512,
        kinds: Sequence[str] = ("c2p", "p2c"),
        width: int = 0,
    ) -> None:
        super().__init__()
        if not kinds or not set(kinds) <= {"c2p", "p2c"}:
            raise ValueError(f"DebertaScheme: kinds are {tuple(kinds)}, wanted 'c2p', 'p2c' or both")
        self.shape = (heads, head_dim)
        self.buckets, self.max_distance = buckets, max_distance
        width = width or heads * head_dim
        self.rows = _normal(2 * (buckets or max_distance), width)
        self.keys = nn.Linear(width, heads * head_dim) if "c2p" in kinds else None
        self.queries = nn.Linear(width, heads * head_dim) if "p2c" in kinds else None
        self.scale = (head_dim * (1 + len(set(kinds)))) ** -0.5

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.Deberta:
        tables = [None if project is None else project(self.rows).unflatten(-1, self.shape) for project in (self.keys, self.queries)]
        return schemes.Deberta(tables[0], tables[1], self.buckets, self.max_distance)


class CopeScheme(nn.Module):
    """CoPE: positions are counts of gates, at most rows - 1, between whose rows it interpolates. Causal attention only.

    >>> import phasor
    >>> phasor.nn.CopeScheme(head_dim=8, rows=16)().table.shape
    torch.Size([16, 8])
    """

    def __init__(self, head_dim: int, rows: int, *, heads: int = 0) -> None:
        super().__init__()
        self.weight = _normal(*((heads,) if heads else ()), rows, head_dim)
        self.gate_scale = head_dim**-0.5

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.Cope:
        return schemes.Cope(self.weight, self.gate_scale)


class GridScheme(nn.Module):
    """Swin's bias of a window (height, width), or with a class token BEiT's. `weight` is (heads, rows), the transpose of Hugging Face's.

    >>> import phasor
    >>> phasor.nn.GridScheme(2, (3, 4)).weight.shape
    torch.Size([2, 35])
    """

    def __init__(self, heads: int, window: tuple[int, int], *, class_token: bool = False) -> None:
        super().__init__()
        height, width = window
        self.weight = _normal(heads, (2 * height - 1) * (2 * width - 1) + (3 if class_token else 0))
        self.window, self.class_token = (height, width), class_token

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.Grid:
        return schemes.Grid(self.weight, self.window, self.class_token)


class DecomposedScheme(nn.Module):
    """SAM's and MViTv2's: q meets a row of the vertical and one of the horizontal offset.

    >>> import phasor
    >>> phasor.nn.DecomposedScheme(head_dim=8, grid=(2, 3))().rows_w.shape
    torch.Size([5, 8])
    """

    def __init__(self, head_dim: int, grid: tuple[int, int], key_grid: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.grid, self.key_grid = grid, key_grid or grid
        longest = [max(sizes) for sizes in zip(self.grid, self.key_grid)]
        self.rows_h, self.rows_w = (_normal(2 * size - 1, head_dim) for size in longest)

    def forward(self, queries: int = 0, keys: int | None = None) -> schemes.Decomposed:
        return schemes.Decomposed(self.rows_h, self.rows_w, self.grid, self.key_grid)
