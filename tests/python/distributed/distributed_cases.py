# SPDX-License-Identifier: Apache-2.0
"""What ranks are asked to do by the tests: the same call by all ranks and by one, compared. Each function's first argument is the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import phasor
import phasor.distributed as pd
from distributed_schemes import ALL, Numbers, Shape

FAR = 10_000_000


class Whole:
    """q, k, v, a gradient and the numbers of a scheme, drawn alike by every rank; `options` of the whole."""

    def __init__(self, scheme: str, shape: dict[str, Any], options: dict[str, Any]) -> None:
        s = self.shape = Shape(**shape)
        self.scheme, self.options = ALL[scheme], options
        self.numbers = Numbers(s)
        self.scheme_of(lambda x, axis, side: x)  # draws
        sizes = ((s.queries, s.heads, s.width), (s.keys, s.key_heads, s.width), (s.keys, s.key_heads, s.value_width))
        self.contents = [torch.randn(s.batch, *size, dtype=s.dtype) for size in sizes]
        self.out_gradient = torch.randn(s.batch, s.queries, s.heads, s.value_width, dtype=s.dtype)
        self.lse_gradient = torch.randn(s.batch, s.queries, s.heads, dtype=s.dtype)
        if options.get("sinks"):
            self.numbers("sinks", s.heads)
        for x in (*self.contents, *self.numbers.learned.values()):
            x.requires_grad_()

    def scheme_of(self, cut: Callable[[Tensor, int, str], Tensor]) -> Any:
        return self.scheme(self.numbers, cut)

    def given(self) -> dict[str, Any]:
        """Options without what the tests name their own way."""
        found = {name: x for name, x in self.options.items() if name not in ("sinks", "far", "masked")}
        if self.options.get("sinks"):
            found["sinks"] = self.numbers.learned["sinks"]
        return found

    def mask(self) -> Tensor:
        """About a quarter is padding; every row keeps some."""
        s = self.shape
        mask = torch.arange(s.batch * s.keys).reshape(s.batch, s.keys) % 4 != 2
        return mask

    def taken(self) -> list[Tensor]:
        """The gradients, which begin anew."""
        leaves = [*self.contents, *self.numbers.learned.values()]
        found = [x.new_zeros(x.shape) if x.grad is None else x.grad.clone() for x in leaves]
        for x in leaves:
            x.grad = None
        return found

    def by_one(self) -> list[Tensor]:
        """out, lse and all gradients by phasor.attention."""
        options = self.given()
        if self.options.get("masked"):
            options["key_mask"] = self.mask()
        if self.options.get("far"):
            s = self.shape
            options |= {"query_positions": FAR + s.keys - s.queries, "key_positions": FAR}
        out, lse = phasor.attention(*self.contents, self.scheme_of(lambda x, axis, side: x), return_lse=True, **options)
        torch.autograd.backward([out, lse], [self.out_gradient.to(out.dtype), self.lse_gradient.to(lse.dtype)])
        return [out.detach(), lse.detach(), *self.taken()]

    def forward_by_ranks(self, group: Any, comm: str, order: Any) -> tuple[Tensor, Tensor, Any]:
        """out and lse of this rank, and what cuts its part of a whole."""
        orders = order if isinstance(order, tuple) else (order, order)
        starts = self.options.get("cu_seqlens")
        of_sides = dict(zip(("query", "key"), zip(orders, starts if isinstance(starts, tuple) else (starts, starts))))

        def cut(x: Tensor, axis: int, side: str) -> Tensor:
            how, begins = of_sides[side]
            return pd.shard(x, group, axis, how, begins)[0]

        options, s = self.given(), self.shape
        if self.options.get("masked"):
            options["key_mask"] = cut(self.mask(), 1, "key")
        q, k, v = (cut(x, 1, side) for x, side in zip(self.contents, ("query", "key", "key")))
        if self.options.get("far"):
            at = [pd.shard(torch.empty(1, n), group, 1, *of_sides[side])[1] for n, side in ((s.queries, "query"), (s.keys, "key"))]
            options |= {"query_positions": at[0] + FAR + s.keys - s.queries, "key_positions": at[1] + FAR}
        out, lse = pd.attention(q, k, v, self.scheme_of(cut), mesh=group, comm=comm, order=order, return_lse=True, **options)
        return out, lse, cut

    def by_ranks(self, group: Any, comm: str, order: Any) -> list[Tensor]:
        """The same by ranks, made whole again."""
        out, lse, cut = self.forward_by_ranks(group, comm, order)
        gradients = [cut(self.out_gradient, 1, "query").to(out.dtype), cut(self.lse_gradient, 1, "query").to(lse.dtype)]
        torch.autograd.backward([out, lse], gradients)
        starts = self.options.get("cu_seqlens")
        how, begins = (x[0] if isinstance(x, tuple) else x for x in (order, starts))
        whole = [pd.unshard(x.detach(), group, 1, how, length=self.shape.queries, cu_seqlens=begins) for x in (out, lse)]
        return [*whole, *self.taken()]

    def names(self) -> list[str]:
        return ["out", "lse", "gradient of q", "gradient of k", "gradient of v", *(f"gradient of {x}" for x in self.numbers.learned)]


def _rounding(whole: Whole, ranks: int) -> float:
    """How far two orders of summation may be apart, of numbers of order 1: a rounding for each channel, key and query that is added up, three for each
    part that is merged (its output, and the difference of two lse), and what magnitudes there are. In float64 that is far below what any
    mistake makes."""
    s = whole.shape
    leaves = [*whole.contents, *whole.numbers.learned.values(), whole.out_gradient]
    size = 1.0
    for x in leaves[:3] + leaves[-1:]:
        size *= 1 + float(x.detach().abs().max())
    size *= 1 + max([0.0, *(float(x.detach().abs().max()) for x in leaves[3:-1])])
    terms = s.width + s.value_width + s.keys + s.queries * s.batch * s.heads + 3 * ranks + 16
    return 2.0**-53 * terms * size * s.keys


def same(group: Any, schemes: list[str], shapes: list[dict[str, Any]], options: list[dict[str, Any]], comms: list[str], orders: list[Any]) -> None:
    """float64 by all ranks and by one: out, lse and every gradient, those of tables summed over ranks."""
    for scheme in schemes:
        for shape in shapes:
            for option in options:
                whole = Whole(scheme, shape, option)
                one = whole.by_one()
                for comm in comms:
                    if scheme == "cope" and comm == "ring":
                        continue
                    for order in orders:
                        _compare(whole, one, whole.by_ranks(group, comm, order), group.size(), f"{scheme} {shape} {option} {comm} {order}")


def _compare(whole: Whole, one: list[Tensor], ranks: list[Tensor], size: int, where: str) -> None:
    bound = _rounding(whole, size)
    assert bound < 1e-7, f"{where}: {bound} would hide mistakes"
    for name, x, y in zip(whole.names(), one, ranks):
        assert x.shape == y.shape, f"{where}: {name}: {x.shape} {y.shape}"
        apart = (x - y).nan_to_num(0.0).abs().max() if x.numel() else 0.0  # -infinity in both: a row that sees nothing
        assert torch.equal(x.isinf(), y.isinf()) and not y.isnan().any(), f"{where}: {name}"
        assert apart <= bound, f"{where}: {name} is {apart} off, the bound is {bound}"


def bits(group: Any, schemes: list[str], shapes: list[dict[str, Any]], options: list[dict[str, Any]], comms: list[str], orders: list[Any]) -> None:
    """out, lse and the gradient of q have the bits that one device gives them."""
    for scheme in schemes:
        for shape in shapes:
            for option in options:
                whole = Whole(scheme, shape, option)
                one = whole.by_one()
                for comm in comms:
                    for order in orders:
                        found = whole.by_ranks(group, comm, order)
                        for name, x, y in list(zip(whole.names(), one, found))[:3]:
                            apart = float((x.double() - y.double()).nan_to_num(0.0).abs().max())
                            assert torch.equal(x, y), f"{scheme} {shape} {option} {comm} {order}: {name} has other bits, {apart} off"


def shards(group: Any) -> None:
    """Each token on one rank, positions exact, gradients of the whole, for lengths from 0 on."""
    for length in (0, 1, 3, 7, 24):
        permutation = torch.randperm(length)
        middle = length // 3
        for order in ("zigzag", "striped", "contiguous", permutation):
            for starts in (None, [0, middle, middle, length]):
                x = torch.arange(2.0 * length * 3).reshape(2, length, 3).requires_grad_()
                local, positions = pd.shard(x, group, 1, order, starts)
                begins = torch.tensor([0 if starts is None or t < middle else middle for t in range(length)], dtype=torch.int64)
                tokens = (local[0, :, 0].detach() / 3).long()
                assert torch.equal(positions, tokens - begins[tokens])
                whole = pd.unshard(local, group, 1, order, length=length, cu_seqlens=starts)
                assert torch.equal(whole, x)
                (local * (group.rank() + 1)).sum().backward()
                by_rank = pd.unshard(torch.full_like(local, group.rank() + 1), group, 1, order, cu_seqlens=starts)
                assert torch.equal(x.grad, by_rank)


def gradients_of_unshard(group: Any) -> None:
    """Of what all ranks make alike a part of each rank's own; of what each makes for itself the sum."""
    weight = torch.arange(7.0)
    for sums in (False, True):
        local = pd.shard(torch.zeros(7), group, 0)[0].requires_grad_()
        (pd.unshard(local, group, 0, sum_gradients=sums) * weight * (group.rank() + 1 if sums else 1)).sum().backward()
        factor = sum(range(1, group.size() + 1)) if sums else 1
        assert torch.equal(local.grad, pd.shard(weight * factor, group, 0)[0])


def as_the_core_deals(group: Any) -> None:
    """Where lengths divide, what phasor.positions says."""
    for order in ("zigzag", "striped", "contiguous"):
        part = phasor.positions.Shard(rank=group.rank(), ranks=group.size(), order=order, tokens=4 * group.size())
        assert pd.shard(torch.empty(4 * group.size()), group, 0, order)[1].tolist() == phasor.positions.shard(part).tolist()


# ---- By the definition ----


def by_definition(group: Any, comm: str, order: str, tokens: int) -> None:
    """A random T5 table: out, the gradients of q, k and v, and that of the table, float32 against double precision."""
    import numpy as np

    import distributed_naive as naive

    heads, width = 2, 8
    q, k, v, do = torch.randn(4, 1, tokens, heads, width).unbind()
    table = torch.randn(heads, 32, requires_grad=True)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    local = [pd.shard(x, group, order=order)[0] for x in leaves]
    out = pd.attention(*local, phasor.T5(table), causal=True, mesh=group, comm=comm, order=order)
    (out * pd.shard(do, group, order=order)[0]).sum().backward()
    whole = pd.unshard(out.detach(), group, order=order, length=tokens)
    found = {"out": whole[0], **{name: x.grad[0] for name, x in zip("qkv", leaves)}, "table": table.grad}
    wanted = naive.attention(*(x[0].double().numpy() for x in (q, k, v)), table.detach().double().numpy(), do[0].double().numpy())
    bound = 2.0**-24 * naive.roundings(tokens, width, wanted["greatest"], group.size())
    for name, x in found.items():
        apart = np.abs(x.double().numpy() - wanted["made"][name])
        assert (apart <= bound * wanted["sizes"][name] + 1e-30).all(), f"{comm} {order}: {name}"


def rounded_once(group: Any, dtype: torch.dtype, unit: float) -> None:
    """16-bit inputs by the ring: parts and their merge are float32, so that out is within the one rounding, and a little, of the exact one."""
    import distributed_naive as naive

    q, k, v = torch.randn(3, 1, 50, 4, 16).to(dtype).unbind()
    local = [pd.shard(x, group)[0] for x in (q, k, v)]
    out = pd.unshard(pd.attention(*local, phasor.Alibi(), True, mesh=group), group)
    exact = phasor.attention(q.double(), k.double(), v.double(), phasor.Alibi(), True)
    greatest = 40  # of scores
    small = 2.0**-24 * (2 * greatest * (16 + 3) + 8 + 2 * 50 + naive.of_parts(group.size(), greatest, 50)) * float(v.abs().max())
    assert out.dtype == dtype and ((out.double() - exact).abs() <= unit * exact.abs() + small).all()
