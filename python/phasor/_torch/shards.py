# SPDX-License-Identifier: Apache-2.0
"""DTensor: calls that every rank makes of its own shards, by itself; nothing travels but sums of gradients. Which axis may be sharded is each operator's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# What the axes of tensors mean, from the last one backwards: of fewer axes the first are not there.
TOKENS = ("batch", "token", "channel")
HEADS = ("batch", "token", "head", "channel")
POSITIONS = ("axis", "batch", "token")
_WORDS = {"batch": "batch rows", "token": "tokens", "head": "heads", "channel": "channels", "query": "queries", "key": "keys"}


def axes_of(names: tuple[str, ...], ndim: int) -> tuple[str, ...]:
    """The names of so many axes."""
    if names is HEADS and ndim == 2:  # (T, D) is one head
        return ("token", "channel")
    return names[-ndim:] if ndim else ()


class Shards:
    """What this rank has of each axis that one tensor of a call has, and the other tensors of the call cut to it."""

    def __init__(self, where: str, name: str, x: Any, names: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        from torch.distributed.tensor import DTensor

        if not isinstance(x, DTensor):
            raise TypeError(f"{where}: {name} is a {type(x).__name__} beside a DTensor, wanted all of one kind: DTensor.from_local, or x.to_local()")
        self.where, self.name, self.x, self.mesh = where, name, x, x.device_mesh
        self.names = axes_of(names, x.ndim)
        wanted = "it replicated or sharded by " + " or ".join([_WORDS[axis] for axis in allowed])
        self.roles = [self._role(name, place, self.names, allowed, number, wanted) for number, place in enumerate(x.placements)]
        self.parts = {axis: self._part(axis, x.shape[i]) for i, axis in enumerate(self.names) if axis in self.roles}
        self._check_dealt()

    def _refuse(self, name: str, place: Any, number: int, wanted: str) -> None:
        raise ValueError(f"{self.where}: {name} is {place!r} on axis {number} of the mesh, wanted {wanted}; redistribute() makes it so")

    def _role(self, name: str, place: Any, names: tuple[str, ...], allowed: Any, number: int, wanted: str) -> str | None:
        """Which axis of a tensor is sharded along one of the mesh; None: every rank has all of it."""
        from torch.distributed.tensor import Replicate, Shard

        if isinstance(place, Replicate):
            return None
        if isinstance(place, Shard) and names[place.dim] in allowed:  # PyTorch's other ways to shard are no subclasses of it
            return names[place.dim]
        self._refuse(name, place, number, wanted)
        return None

    def _part(self, axis: str, whole: int) -> tuple[int, int, int]:
        """The first, how many, and of how many: as torch.chunk deals them out, along one axis of the mesh after the other."""
        first, count, coordinate = 0, whole, self.mesh.get_coordinate()
        if coordinate is None:
            raise ValueError(f"{self.where}: this rank is not in the mesh of {self.name}, wanted a call by the ranks of the mesh")
        for number, role in enumerate(self.roles):
            if role == axis:
                chunk = -(-count // self.mesh.size(number))
                begin = min(count, chunk * coordinate[number])
                first, count = first + begin, min(chunk, count - begin)
        return first, count, whole

    def _check_dealt(self) -> None:
        """A DTensor.from_local may hold any shards; which positions such ones have cannot be known."""
        with torch.no_grad():
            local = self.x.to_local().shape
        for i, axis in enumerate(self.names):
            if axis in self.parts and local[i] != self.parts[axis][1]:
                _, count, whole = self.parts[axis]
                raise ValueError(f"{self.where}: this rank has {local[i]} of {whole} {_WORDS[axis]} of {self.name}, wanted {count}, as PyTorch deals them out")

    def local(self) -> Tensor:
        """The tensor's own shard."""
        return self.x.to_local(grad_placements=self.x.placements)

    def beside(self, name: str, x: Any, names: tuple[str, ...]) -> Any:
        """This rank's part of another tensor of the call, which is the same on every rank or sharded alike. Its gradient is summed over ranks."""
        from torch.distributed.tensor import DTensor

        if x is None:
            return None
        names = axes_of(names, x.ndim)
        done: set[str] = set()
        if isinstance(x, DTensor):
            done = self._sharded_alike(name, x, names)
        if isinstance(x, DTensor) or (x.requires_grad and torch.is_grad_enabled()):
            x = self._summed_local(x)
        for i, axis in enumerate(names):
            first, count, whole = self.parts.get(axis, (0, 1, 1))
            shared = whole == 1 and count  # a rank with nothing has none of what there is one of
            if x.shape[i] == whole and axis not in done and not shared:
                x = x.narrow(i, first, count).contiguous()
        return x

    def _sharded_alike(self, name: str, x: Any, names: tuple[str, ...]) -> set[str]:
        """Which of its axes are sharded, as those of the leading tensor are."""
        if x.device_mesh != self.mesh:
            raise ValueError(f"{self.where}: {name} is on another mesh than {self.name}, wanted one mesh")
        wanted = f"it replicated, or sharded as {self.name} is ({', '.join([repr(place) for place in self.x.placements])})"
        done: set[str] = set()
        for number, place in enumerate(x.placements):
            role = self._role(name, place, names, names, number, wanted)
            if role is None:
                continue
            alike = [n for n, mine in enumerate(self.roles) if mine == role]
            if number not in alike or x.shape[names.index(role)] != self.parts[role][2] or any([x.placements[n] != place for n in alike]):
                self._refuse(name, place, number, wanted)
            done.add(role)
        return done

    def _summed_local(self, x: Any) -> Tensor:
        """The local part of a tensor that all ranks of an axis of the mesh use: they add up its gradient."""
        from torch.distributed.tensor import DTensor, Partial, Replicate

        if not isinstance(x, DTensor):
            x = DTensor.from_local(x, self.mesh, [Replicate()] * self.mesh.ndim, run_check=False)
        parts = [Partial() if role is not None and isinstance(place, Replicate) else place for role, place in zip(self.roles, x.placements)]
        return x.to_local(grad_placements=parts)

    def where_tokens_are(self, positions: Any, first: Any) -> tuple[Any, Any]:
        """Positions of this rank's tokens: a tensor, or None and the first of them."""
        if positions is None:
            return None, first + self.parts.get("token", (0, 0, 0))[0]
        return self.beside("positions", positions, POSITIONS), first

    def whole(self, local: Tensor, names: tuple[str, ...]) -> Any:
        """A result of this rank as a part of the whole one."""
        from torch.distributed.tensor import DTensor, Replicate, Shard

        places = [Replicate() if role is None or role not in names else Shard(names.index(role)) for role in self.roles]
        shape = torch.Size([self.parts[axis][2] if axis in self.parts else size for axis, size in zip(names, local.shape)])
        strides = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(local.contiguous(), self.mesh, places, run_check=False, shape=shape, stride=strides)

    def whole_like(self, local: Tensor) -> Any:
        """The same of a result that has the leading tensor's axes."""
        return self.whole(local, self.names)
