# SPDX-License-Identifier: Apache-2.0
"""DTensor: how rotations may be sharded (over batch, tokens, heads), as rules of PyTorch's, registered when the first DTensor is seen.

Other operators are called by every rank with its own shards: shards.py cuts what they read, shard_rules.py says which axes each takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from phasor._torch import kernels


def any_sharded(args: tuple[Any, ...]) -> bool:
    """Whether there is a DTensor among the arguments."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or not any(isinstance(x, module.DTensor) for x in args):
        return False
    _register()
    return True


def seen(*args: Any) -> None:
    """Registers what there is for DTensors if one is among the arguments: in inference mode no kernel of ours would see it first."""
    if not torch.compiler.is_dynamo_compiling():
        any_sharded(args)


# Operators that every rank calls with its own shards; None: those that have no rule.
_BY_SHARDS: dict[Any, Callable[..., Any] | None] = {}


def by_shards(overload: Any, call: Callable[..., Any] | None) -> None:
    """Says how an operator is called with DTensors. `call` takes its arguments and gives its results, DTensors too."""
    _BY_SHARDS[overload] = call or _BY_SHARDS.get(overload)


def of_shards(overload: Any, args: tuple[Any, ...]) -> Any:
    """The operator of DTensors, by its rule."""
    call = _BY_SHARDS.get(overload)
    if call is None:
        raise NotImplementedError(f"{overload.name().removeprefix('phasor::').split('.')[0]}: {_NO_RULE}")
    return call(*args)


_NO_RULE = "a tensor is a DTensor, wanted the shards of this rank: x.to_local(), and DTensor.from_local of the result"


def refuse(where: str, args: tuple[Any, ...]) -> None:
    """Refuses DTensors where there is no rule for them, before PyTorch does in words about operators."""
    module = None if torch.compiler.is_dynamo_compiling() else sys.modules.get("torch.distributed.tensor")
    if module is not None and any([isinstance(x, module.DTensor) for x in args]):
        raise NotImplementedError(f"{where}: {_NO_RULE}")


def of_one_kind(where: str, tensors: tuple[Any, ...]) -> None:
    """Refuses q and k of which one alone is a DTensor."""
    found = [hasattr(x, "device_mesh") for x in tensors]
    if any(found) and not all(found):
        raise TypeError(f"{where}: one of q and k is a DTensor and the other is not, wanted two of a kind")


def placed(tensors: tuple[Any, ...], words: Tensor, positions: Tensor | None, offset: int) -> tuple[Any, Any, int]:
    """Words and positions beside a sharded q. A shard of tokens does not know where it begins, so an offset becomes positions."""
    of_one_kind("rotary", tensors)
    q = tensors[0]
    if positions is None:
        positions = torch.arange(offset, offset + q.shape[max(q.ndim - 3, 0)], device=q.device)
    return _words_beside(q, words), _replicated(q, positions), 0


def tables_placed(tensors: tuple[Any, ...], tables: tuple[Any, Any]) -> tuple[Any, Any]:
    """The tables beside sharded tensors."""
    of_one_kind("rotary", tensors)
    q = tensors[0]
    return _replicated(q, tables[0]), _replicated(q, tables[1])


_words: dict[Any, Any] = {}  # of each spec and mesh on a GPU


def _words_beside(q: Any, words: Tensor) -> Any:
    """Words on the mesh of q. DTensor moves them to a GPU, where nobody reads them: the kernel finds those of the CPU by their address."""
    if q.device_mesh.device_type == "cpu" or hasattr(words, "device_mesh"):
        return _replicated(q, words)
    key = (q.device_mesh, *words.tolist())
    if key not in _words:
        if len(_words) >= 1024:  # specs of learned frequencies are new at every step
            _words.clear()
            kernels.WORDS_ON_GPU.clear()
        _words[key] = made = _replicated(q, words)
        kernels.WORDS_ON_GPU[made.to_local().data_ptr()] = words
    return _words[key]


def _replicated(q: Any, x: Any) -> Any:
    """x as a DTensor on the mesh of q; a plain tensor is taken to be the same on every rank."""
    from torch.distributed.tensor import DTensor, Replicate

    if isinstance(x, DTensor):
        return x
    return DTensor.from_local(x, q.device_mesh, [Replicate()] * q.device_mesh.ndim, run_check=False)


def _axes(ndim: int) -> dict[str, int]:
    """Which axis of (B, T, H, D), (T, H, D) or (T, D) may be sharded."""
    return {2: {"token": 0}, 3: {"token": 0, "head": 1}, 4: {"batch": 0, "token": 1, "head": 2}}[ndim]


def _position_axis(positions: Any, axis: str) -> int | None:
    """The axis of (T), (B, T) or (axes, B, T) that is sharded along; None where every shard needs all."""
    if axis == "token":
        return positions.ndim - 1
    if axis == "batch" and positions.ndim > 1 and positions.shape[-2] > 1:
        return positions.ndim - 2
    return None


def _table_axis(table: Any, axis: str) -> int | None:
    """The same of (T, P), (B or 1, T, P) or (B or 1, T, 1 or H, P)."""
    if axis == "token":
        return 0 if table.ndim == 2 else 1
    if axis == "batch" and table.ndim > 2 and table.shape[0] > 1:
        return 0
    if axis == "head" and table.ndim == 4 and table.shape[2] > 1:
        return 2
    return None


def _shardings(count: int, by_tables: bool, args: tuple[Any, ...]) -> list[tuple[list[Any], list[Any]]]:
    """Outputs and inputs that fit together, one axis at a time."""
    from torch.distributed.tensor import Replicate, Shard

    tensors, first, second = args[:count], args[count], args[count + 1]
    scalars: list[Any] = [None] * (len(args) - count - 2)

    def shard(axis: int | None) -> Any:
        return Replicate() if axis is None else Shard(axis)

    none = None if second is None else Replicate()
    result: list[tuple[list[Any], list[Any]]] = [([Replicate()] * count, [Replicate()] * count + [Replicate(), none, *scalars])]
    for name, axis in _axes(tensors[0].ndim).items():
        if by_tables:
            rest = [shard(_table_axis(first, name)), shard(_table_axis(second, name))]
        elif second is None:
            if name == "token":
                continue  # a shard of tokens does not know where it begins
            rest = [Replicate(), None]
        else:
            rest = [Replicate(), shard(_position_axis(second, name))]
        placements = [Shard(axis)] * count
        result.append((list(placements), placements + rest + scalars))
        if name == "head" and count == 2:  # few heads of keys may be on every rank
            result.append(([Shard(axis), Replicate()], [Shard(axis), Replicate(), *rest, *scalars]))
    return result


@lru_cache(maxsize=1)
def _register() -> None:
    from torch.distributed.tensor.experimental import register_sharding

    from phasor._torch.operators import OPERATORS

    def rule(count: int, by_tables: bool) -> Any:
        return lambda *args: _shardings(count, by_tables, args)

    for operator in OPERATORS:
        if not operator.in_place:  # in place is functional and copy_, see autograd.py
            register_sharding(operator.overload)(rule(operator.tensors, operator.by_tables))
    _register_below_autograd()


def _register_below_autograd() -> None:
    """Where no kernel for autograd sees a call (in inference mode, or where such kernels cannot be written) PyTorch asks the tensor's class."""
    from torch.distributed.tensor import DTensor

    from phasor._torch.operators import LIBRARY

    def asked(overload: Any) -> Any:
        def call(cls: Any, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            with torch.no_grad():
                return of_shards(overload, args)

        return call

    for overload in _BY_SHARDS:
        torch.library.register_torch_dispatch(overload.name(), DTensor, asked(overload), lib=LIBRARY)
