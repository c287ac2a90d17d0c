# SPDX-License-Identifier: Apache-2.0
"""The ranks that share a sequence: a mesh of one axis, a process group, or everybody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["Group", "PeerError", "group_of"]


class PeerError(RuntimeError):
    """Another rank did not answer within the time limit, or is gone."""


@dataclass(frozen=True, eq=False)
class Group:
    """Ranks 0 to size - 1 of one call; `where` begins its errors."""

    where: str
    process_group: Any
    rank: int
    size: int
    global_ranks: tuple[int, ...]
    timeout: timedelta
    device: torch.device  # of what travels: gloo sends memory of the CPU, NCCL that of a GPU

    def after(self, steps: int = 1) -> int:
        """The rank so many places further on in the ring."""
        return (self.rank + steps) % self.size


def _process_group(mesh: Any, where: str) -> Any:
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(f"{where}: torch.distributed has no process group, wanted torch.distributed.init_process_group before")
    if mesh is None:
        return dist.group.WORLD
    if mesh == dist.GroupMember.NON_GROUP_MEMBER:  # what new_group gives to whom it leaves out
        raise ValueError(f"{where}: rank {dist.get_rank()} is not in the mesh, wanted a mesh that holds it")
    if isinstance(mesh, dist.ProcessGroup):
        return mesh
    if not hasattr(mesh, "get_group"):
        raise TypeError(f"{where}: mesh is {type(mesh).__name__}, wanted a DeviceMesh, a process group or None for all ranks")
    if mesh.ndim != 1:
        names = mesh.mesh_dim_names
        named = f" {names}" if names else ""
        raise ValueError(f"{where}: mesh has {mesh.ndim} axes{named}, wanted one: that of the sequence, such as mesh['cp']")
    return mesh.get_group()


def group_of(mesh: Any, where: str, timeout: float | None, beside: Any) -> Group:
    """The group of a mesh; timeout in seconds, 60 unless given; beside: a tensor of the call, which says where memory is, or nothing."""
    process_group = _process_group(mesh, where)
    rank = dist.get_rank(process_group)
    if rank < 0:
        raise ValueError(f"{where}: rank {dist.get_rank()} is not in the mesh, wanted a mesh that holds it")
    limit = 60.0 if timeout is None else float(timeout)
    if not 0 < limit < 1e6:
        raise ValueError(f"{where}: timeout is {timeout}, wanted seconds above 0")
    backend = str(dist.get_backend(process_group))
    known = isinstance(beside, torch.Tensor)
    if backend == "nccl" and known and not beside.is_cuda:
        raise ValueError(f"{where}: the mesh communicates by NCCL and the tensors are on {beside.device}, wanted them on a GPU, or gloo")
    device = torch.device("cpu") if backend != "nccl" else beside.device if known else torch.device("cuda", torch.cuda.current_device())
    return Group(
        where, process_group, rank, dist.get_world_size(process_group), tuple(dist.get_process_group_ranks(process_group)),
        timedelta(seconds=limit), device,
    )  # fmt: skip
