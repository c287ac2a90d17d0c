# SPDX-License-Identifier: Apache-2.0
"""DTensors of operators that every rank calls with its own shards: against the same call of plain tensors, cut by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import phasor
import phasor.nn

B, T, H, HK, D = 2, 5, 4, 2, 8  # five tokens do not divide by two
ROPES = [phasor.Rotary(D, rotary_width=6), phasor.Rotary(D, rotary_width=6, base=5e5), phasor.Rotary(D, rotary_width=6, scaling=phasor.YarnScaling(4.0, 64))]
TOKENS, HEADS = ("batch", "token", "channel"), ("batch", "token", "head", "channel")


@dataclass
class Case:
    """A call; the tensors that are sharded, by their axes; others that are the same on every rank; and axes that may be sharded."""

    call: Callable[..., Any]
    leads: list[tuple[Tensor, tuple[str, ...]]]
    others: list[tuple[Tensor, tuple[str, ...]]]
    axes: tuple[str, ...]
    out: tuple[str, ...]
    first: Callable[..., Any] | None = None  # the same call without positions, whose tokens begin at 9


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape)


def at(*shape: int) -> Tensor:
    return torch.randint(0, 9, shape)


def _rows(*x: Any) -> Any:
    """Of q, or of q and k, positions and the numbers of specs."""
    return phasor.apply_rotaries(ROPES, x[-1], *x[:-2], positions=x[-2])


def _prepared(q: Any, k: Any, v: Any, q_weight: Any, k_weight: Any, factors: Any, positions: Any = 9, **more: Any) -> Any:
    norms = {"q_norm": phasor.HeadNorm(weight=q_weight), "k_norm": phasor.HeadNorm(weight=k_weight, kind="l2", epsilon=0.5)}
    return phasor.prepare_attention(q, k, v, rotary=ROPES[0], positions=positions, query_factors=factors, query_scale=0.5, **norms, **more)


def cases() -> dict[str, Case]:
    """Each with values that learn wherever there is a gradient."""
    encoding = phasor.Sinusoidal(D)
    q, k, v = ((randn(B, T, heads, D), HEADS) for heads in (H, HK, HK))
    x = (randn(B, T, D), TOKENS)
    positions, shared = (at(B, T), ("batch", "token")), (at(T), ("token",))
    table, by_row, by_token = (randn(20, D), ("row", "channel")), (torch.tensor([2, 0]), ("batch",)), (torch.randint(0, 3, (B, T)), ("batch", "token"))
    weights = [(randn(D), ("channel",)), (randn(HK, D), ("head", "channel")), (torch.rand(B, T), ("batch", "token"))]
    rows, heads, kept = ("batch", "token"), ("batch", "token", "head"), HEADS
    frequencies, learned = (torch.rand(D // 2), ("pair",)), phasor._torch.words_of(phasor.Rotary(D))

    def turned(x: Any, f: Any, p: Any) -> Any:
        return torch.ops.phasor.learned_rotary(x, learned, f, p, 0, 0)

    return {
        "add_sinusoidal": Case(encoding.add, [x], [positions], rows, TOKENS, lambda x: encoding.add(x, 9)),
        "amplitude": Case(lambda x, a, p: encoding.add(x, p, amplitude=a), [x], [(torch.tensor(0.7), ()), shared], rows, TOKENS),
        "lookup_add": Case(lambda x, t, p: phasor.lookup_add(x, t, p, offset=2), [x], [table, shared], rows, TOKENS, lambda x, t: phasor.lookup_add(x, t, 9)),
        "learned_rotary": Case(turned, [q], [frequencies, (torch.rand(B, T).double(), ("batch", "token"))], heads, HEADS),
        "sinusoidal": Case(lambda p: encoding(p), [positions], [], rows, TOKENS),
        "cos_sin": Case(lambda p: ROPES[2].cos_sin(p), [positions], [], rows, ("batch", "token", "pair")),
        "cos_sin, three axes": Case(lambda p: phasor.Rotary(D, axes=phasor.Axes((1, 1, 2))).cos_sin(p), [(at(3, B, T), ("axis", "batch", "token"))], [], rows, TOKENS),
        "rows": Case(_rows, [q, k], [positions, by_row], heads, kept, lambda q, k: phasor.apply_rotaries(ROPES, [2, 0], q, k, positions=9)),
        "tokens": Case(_rows, [q], [shared, by_token], heads, kept),
        "prepare": Case(_prepared, [q, k, v], [*weights, positions], heads, kept, lambda *x: _prepared(*x, positions=9)),
        "prepare by tables": Case(
            lambda q, cos, sin: phasor.prepare_attention(q, cos=cos, sin=sin, q_norm=phasor.HeadNorm()), [q], [(randn(T, D // 2), ("token", "fixed"))] * 2, heads, kept
        ),
        "prepare by rows": Case(
            lambda q, k, p, of: phasor.prepare_attention(q, k, rotary=ROPES, positions=p, spec_of=of if isinstance(of, DTensor) else of.reshape(-1)), [q, k], [shared, by_token], heads, kept
        ),
        "prepare over all heads": Case(
            lambda q, w: phasor.prepare_attention(q, rotary=ROPES[0], q_norm=phasor.HeadNorm(weight=w, over="all_heads")), [q], [(randn(D), ("channel",))], ("batch",), kept
        ),
    }


def _list(x: Any) -> list[Tensor]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def _part(x: Tensor, names: tuple[str, ...], axis: str | None, rank: int) -> Tensor:
    """This rank's part by hand: torch.chunk."""
    if axis not in names:
        return x
    parts = x.chunk(2, names.index(axis))
    return parts[rank] if rank < len(parts) else x.narrow(names.index(axis), 0, 0)


def _leaves(tensors: list[tuple[Tensor, tuple[str, ...]]]) -> list[Tensor]:
    """All numbers learn but those of tables."""
    return [x.detach().clone().requires_grad_(x.is_floating_point() and "fixed" not in names) for x, names in tensors]


def _gradients(outs: list[Tensor], leaves: list[Tensor], by: list[Tensor]) -> list[Tensor]:
    learning = [x for x in leaves if x.requires_grad]
    return list(torch.autograd.grad(outs, learning, by)) if learning and outs[0].requires_grad else []


def _by_hand(case: Case, axis: str | None, by: list[Tensor]) -> list[Tensor]:
    """Gradients by what is sharded, whole; by the rest the sum of those of both parts."""
    made = []
    for rank in (0, 1) if axis else (0,):
        leaves = _leaves([(_part(x, names, axis, rank), names) for x, names in (*case.leads, *case.others)])
        made.append(_gradients(_list(case.call(*leaves)), leaves, [_part(x, case.out, axis, rank) for x in by]))
    names = [names for x, names in (*case.leads, *case.others) if x.is_floating_point()][: len(made[0])]
    if len(made) == 1:
        return made[0]
    return [torch.cat(parts, of.index(axis)) if axis in of else parts[0] + parts[1] for of, *parts in zip(names, *made)]


def same(group: Any, name: str, also: bool) -> None:
    """Results are bit for bit those of plain tensors, without communication; gradients those of parts that are cut by hand. `also`: the other
    tensors are DTensors, too, sharded alike where they can be."""
    mesh, case = DeviceMesh.from_group(group, "cpu"), cases()[name]
    wanted = _list(case.call(*[x for x, _ in (*case.leads, *case.others)]))
    by = [torch.randn_like(x) for x in wanted]
    for axis in (*case.axes, None):

        def place(names: tuple[str, ...]) -> Any:
            return Shard(names.index(axis)) if axis in names else Replicate()

        plain = _leaves([*case.leads, *case.others])
        names = [names for _, names in (*case.leads, *case.others)]
        shardable = len(plain) if also else len(case.leads)
        leaves = [distribute_tensor(x.detach(), mesh, [place(of)]).requires_grad_(x.requires_grad) if i < shardable else x for i, (x, of) in enumerate(zip(plain, names))]
        with CommDebugMode() as communication:
            outs = _list(case.call(*leaves))
        assert communication.get_total_counts() == 0, (name, axis)
        for got, want in zip(outs, wanted, strict=True):
            assert isinstance(got, DTensor) and got.placements == (place(case.out),) and got.shape == want.shape, (name, axis, got.placements)
            assert torch.equal(got.full_tensor(), want), (name, axis)
        found = _gradients(outs, leaves, [distribute_tensor(x, mesh, [place(case.out)]) for x in by])
        for got, want in zip(found, _by_hand(case, axis, by), strict=True):
            got = got.full_tensor() if isinstance(got, DTensor) else got
            assert torch.equal(got, want), (name, axis, got - want)
        values = [x.detach() for x in leaves]
        with torch.inference_mode():
            again = _list(case.call(*values))
            assert all(torch.equal(a.to_local(), b.to_local()) for a, b in zip(again, outs, strict=True)), (name, axis)
        if case.first is not None:
            begins = case.first(*[x for x in leaves if x.is_floating_point()])
            for got, want in zip(_list(begins), _list(case.first(*[x for x in plain if x.is_floating_point()])), strict=True):
                assert torch.equal(got.full_tensor(), want), (name, axis)


def biases(group: Any) -> None:
    """By queries, by keys, by batch rows; positions of one row are shared."""
    mesh = DeviceMesh.from_group(group, "cpu")
    q, k, alibi = at(B, T), at(1, 7), phasor.nn.AlibiBias(3)
    for of_q, of_k, of_out in ((Shard(1), Replicate(), Shard(2)), (Replicate(), Shard(1), Shard(3)), (Shard(0), Replicate(), Shard(0)), (Replicate(),) * 3):
        got = alibi(distribute_tensor(q, mesh, [of_q]), distribute_tensor(k, mesh, [of_k]))
        assert got.placements == (of_out,) and torch.equal(got.full_tensor(), alibi(q, k))
    both = distribute_tensor(q, mesh, [Shard(0)])
    assert torch.equal(alibi(both, both).full_tensor(), alibi(q, q))


def odd_ones(group: Any) -> None:
    """A mesh of two axes, ranks with nothing, few heads of keys, in place, and longer tables by channels."""
    mesh = DeviceMesh("cpu", torch.arange(2).reshape(2, 1), mesh_dim_names=("a", "b"))
    q, k, p = randn(1, T, H, D), randn(1, T, 1, D), at(1, T)
    for places in ((Shard(0), Shard(1)), (Shard(1), Shard(1)), (Shard(1), Shard(2)), (Replicate(), Shard(2))):
        a, b = (distribute_tensor(x, mesh, places).requires_grad_() for x in (q, k[:, :, :1].expand(1, T, H, D)))
        for got, want in zip(phasor.apply_rotaries(ROPES, [1], a, b, p), phasor.apply_rotaries(ROPES, [1], q, k.expand(1, T, H, D), p)):
            assert got.placements == places and torch.equal(got.full_tensor(), want), places
    line = DeviceMesh.from_group(group, "cpu")
    a, b = distribute_tensor(q, line, [Shard(2)]).requires_grad_(), distribute_tensor(k, line, [Replicate()]).requires_grad_()
    weight = randn(D).requires_grad_()
    norm = phasor.HeadNorm(weight=weight)
    outs = phasor.prepare_attention(a, b, rotary=ROPES[0], positions=p, q_norm=norm, k_norm=norm)
    assert [x.placements for x in outs] == [(Shard(2),), (Replicate(),)]
    wanted = phasor.prepare_attention(*(x.clone().requires_grad_() for x in (q, k)), rotary=ROPES[0], positions=p, q_norm=norm, k_norm=norm)
    assert all(torch.equal(x.full_tensor(), y) for x, y in zip(outs, wanted))
    (by_weight,) = torch.autograd.grad([x.sum() for x in outs], weight)  # the one head of keys counts once
    torch.testing.assert_close(by_weight, torch.autograd.grad([x.sum() for x in wanted], weight)[0])
    for learns in (False, True):
        x = distribute_tensor(q, line, [Shard(1)])
        x = x.requires_grad_() * 1 if learns else x
        assert phasor.apply_rotaries_(ROPES, [2], x, None, p) is x and x.placements == (Shard(1),)
        assert torch.equal(x.full_tensor(), phasor.apply_rotaries(ROPES, [2], q, None, p))
    with torch.inference_mode():
        x = distribute_tensor(q, line, [Shard(1)])
        phasor.apply_rotaries_(ROPES, [2], x, None, p)
        assert torch.equal(x.full_tensor(), phasor.apply_rotaries(ROPES, [2], q, None, p))
    table = randn(3, D)
    longer = phasor.hierarchical_table(distribute_tensor(table, line, [Shard(1)]), 7)
    assert longer.placements == (Shard(1),) and torch.equal(longer.full_tensor(), phasor.hierarchical_table(table, 7))


def refused(group: Any) -> dict[str, str]:
    """What each call that has no rule for its placements says."""
    mesh = DeviceMesh.from_group(group, "cpu")

    def on(x: Tensor, place: Any) -> Any:
        return distribute_tensor(x, mesh, [place])

    q, k, x, table = randn(B, T, H, D), randn(B, T, HK, D), randn(B, T, D), randn(20, D)
    own = phasor.Rotary(D, scaling=phasor.GivenDirections(axes=1, heads=H, frequencies=tuple(0.1 * i for i in range(H * D // 2))))
    sinusoidal, norm, alibi = phasor.Sinusoidal(D), phasor.HeadNorm(over="all_heads"), phasor.nn.AlibiBias(3)
    partial = DTensor.from_local(x, mesh, [torch.distributed.tensor.Partial()], run_check=False)
    uneven = DTensor.from_local(randn(B, 1 + 3 * group.rank(), D), mesh, [Shard(1)], run_check=False, shape=x.shape, stride=x.stride())
    calls: dict[str, Callable[[], Any]] = {
        "channels": lambda: sinusoidal.add(on(x, Shard(2))),
        "partial": lambda: sinusoidal.add(partial),
        "uneven": lambda: sinusoidal.add(uneven),
        "positions by other axes": lambda: sinusoidal.add(on(x, Shard(1)), on(at(B, T), Shard(0))),
        "rows of a table": lambda: phasor.lookup_add(on(x, Shard(1)), on(table, Shard(0))),
        "a table alone": lambda: phasor.lookup_add(x, on(table, Replicate())),
        "longer by rows": lambda: phasor.hierarchical_table(on(table, Shard(0)), 30),
        "axes of positions": lambda: ROPES[0].cos_sin(on(at(2, B, T), Shard(0))),
        "queries and keys": lambda: alibi(on(at(T), Shard(0)), on(at(T), Shard(0))),
        "rows of one": lambda: alibi(on(at(B, T), Shard(0)), on(at(B, T), Replicate())),
        "gradient": lambda: torch.ops.phasor.lookup_gradient(on(x, Shard(1)), on(table, Replicate()), None, 0, 0, None),
        "directions": lambda: phasor.apply_rotaries([own], None, on(q, Shard(2))),
        "rows": lambda: phasor.apply_rotaries(ROPES, [0, 1, 2], on(q, Shard(0))),
        "k of another kind": lambda: phasor.apply_rotaries(ROPES, [0, 1], on(q, Shard(0)), k),
        "all heads": lambda: phasor.prepare_attention(on(q, Shard(2)), q_norm=norm),
        "unlike": lambda: phasor.prepare_attention(on(q, Shard(0)), on(k, Shard(1)), rotary=ROPES[0]),
        "tables by head": lambda: phasor.prepare_attention(on(q, Shard(2)), cos=randn(B, T, H, 4), sin=randn(B, T, H, 4)),
        "cache": lambda: phasor.prepare_attention(k=on(k, Shard(0)), rotary=ROPES[0], k_cache=phasor.Cache(torch.zeros(B, T, HK, D))),
        "a table of buckets": lambda: phasor.nn.T5Bias(2)(on(at(T), Shard(0)), on(at(T), Replicate())),
        "attention's table": lambda: phasor.attention(q, k, k, phasor.T5(on(randn(H, 32), Replicate()))),
        "cached": lambda: phasor.cached_attention(on(q, Shard(0)), phasor.Cache(k), phasor.Cache(k), lengths=[T, T]),
        "moved": lambda: ROPES[0].rerotate_(on(k, Shard(0)), 3, 0),
        "core": lambda: sinusoidal(on(at(T), Replicate()), amplitude=0.5),
        "bias": lambda: phasor.Bias(phasor.Alibi(heads=2))(on(at(T), Shard(0)), on(at(T), Shard(0))),
    }
    heard = {}
    for name, call in calls.items():
        try:
            call()
            heard[name] = "nothing"
        except Exception as error:
            heard[name] = f"{type(error).__name__}: {error}"
    return heard
