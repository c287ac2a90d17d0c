# SPDX-License-Identifier: Apache-2.0
"""What ranks measure of a call: the memory of its tensors, counted as PyTorch makes them and lets them go, the calls of kernels, and bytes received."""

from __future__ import annotations

import math
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import phasor.distributed as pd
from distributed_cases import Whole
from phasor.distributed import _kernel


class LiveBytes(TorchDispatchMode):
    """Bytes of the memory behind tensors of real numbers: now, and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.living: dict[int, int] = {}
        self.now = self.most = 0

    def see(self, x: Any) -> None:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return
        memory = x.untyped_storage()
        number = memory._cdata
        if number not in self.living:
            self.living[number] = memory.nbytes()
            self.now += memory.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(memory, self._gone, number)

    def _gone(self, number: int) -> None:
        self.now -= self.living.pop(number)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for x in tree_leaves(made):
            self.see(x)
        return made


def held(group: Any, comm: str, order: str, length: int, heads: tuple[int, int], width: int, dtype: torch.dtype) -> tuple[int, int]:
    """The most bytes of a causal call on this rank, forward and backward."""
    q, k, v = (pd.shard(torch.randn(1, length, n, width, dtype=dtype), group, order=order)[0] for n in (heads[0], heads[1], heads[1]))
    gradient = torch.ones_like(q)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    del q, k, v
    with LiveBytes() as forward:
        for x in leaves:
            forward.see(x)
        out = pd.attention(*leaves, causal=True, mesh=group, comm=comm, order=order)
    saved = [x for x in out.grad_fn.saved_tensors if x is not None] if hasattr(out.grad_fn, "saved_tensors") else []
    with LiveBytes() as backward:
        for x in (*leaves, out, gradient, *saved):
            backward.see(x)
        del saved
        torch.autograd.backward([out], [gradient])
    return forward.most, backward.most


class _Counted:
    """Stands before the kernels and before what is posted."""

    def __init__(self) -> None:
        self.calls = {"forward": 0, "backward": 0}
        self.received = 0
        self.kept = _kernel.forward, _kernel.backward, dist.batch_isend_irecv

    def __enter__(self) -> _Counted:
        def counting(name: str, function: Any) -> Any:
            def call(work: Any, *rest: Any) -> Any:
                self.calls[name] += work.q.numel() > 0
                return function(work, *rest)

            return call

        def posted(operations: list[Any]) -> Any:
            self.received += sum(x.tensor.numel() * x.tensor.element_size() for x in operations if x.op is dist.irecv and x.tensor.is_floating_point())
            return self.kept[2](operations)

        _kernel.forward, _kernel.backward = counting("forward", self.kept[0]), counting("backward", self.kept[1])
        dist.batch_isend_irecv = posted
        return self

    def __exit__(self, *rest: Any) -> None:
        _kernel.forward, _kernel.backward, dist.batch_isend_irecv = self.kept


def parts(group: Any, shape: dict[str, Any], options: dict[str, Any], order: Any) -> dict[str, int]:
    """How many kernels a rank ran by ring, and bytes of k and v that came, forward."""
    whole = Whole("plain", shape, options)
    with _Counted() as counted:
        whole.by_ranks(group, "ring", order)
        both = dict(counted.calls)
    both["forward"] -= 1  # a token of zeros, by which the core is asked whether shapes are right
    with torch.no_grad(), _Counted() as counted:
        whole.forward_by_ranks(group, "ring", order)
    return {**both, "received": counted.received}


def merged_in_turn(group: Any, count: int, middle: float) -> None:
    """Parts merged one after the other, against all at once in double precision: two halves of a unit for each merge, whatever lse are; lse has one."""
    lse = middle + 4 * torch.randn(count, 1, 50, 2, 1)
    out = torch.randn(count, 1, 50, 2, 16)
    out[3, :, :20], lse[3, :, :20] = math.nan, -math.inf  # saw nothing
    lse[:, :, :5] = -math.inf  # nobody does
    total = None
    for part in zip(out.clone().unbind(), lse.clone().unbind()):
        total = _kernel.merged(total, part)
    exact = torch.logsumexp(lse.double(), 0)
    weights = torch.exp(lse.double() - exact.masked_fill(exact.isneginf(), 0.0))
    out = out.double().masked_fill(weights == 0, 0.0)
    apart = (total[0].double() - (weights * out).sum(0)).abs()
    assert (apart <= 2.0**-24 * 2 * (count - 1) * out.abs().amax(0)).all()
    assert torch.equal(total[1].isneginf(), exact.isneginf()) and exact[:, :5].isneginf().all()
    assert ((total[1].float().double() - exact).nan_to_num(0.0).abs() <= 2.0**-24 * (1 + 2.0**-20) * exact.abs()).all()


def same_bits_again(group: Any) -> None:
    """A ring gives the same bits every time."""
    whole = Whole("several", {"batch": 2, "queries": 40, "keys": 40, "dtype": torch.float32}, {"causal": True, "window": 12})
    first, second = (whole.by_ranks(group, "ring", "zigzag") for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(first, second))
