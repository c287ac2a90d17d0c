# SPDX-License-Identifier: Apache-2.0
"""DTensor: rotations of shards of the batch, the tokens or the heads, in two processes, without communication; refusals where there is no rule."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import sys, torch, torch.distributed as dist, phasor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

rank, path = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
rope = phasor.Rotary(8, rotary_width=6)
q, k = torch.randn(2, 6, 4, 8), torch.randn(2, 6, 2, 8)
positions = torch.randint(0, 10**9, (2, 6))
angle = torch.randn(2, 6, 4)

def sharded(placement, *tensors):
    return [distribute_tensor(x.clone(), mesh, [placement]) for x in tensors]

for placement in (Shard(0), Shard(1), Shard(2), Replicate()):
    for at in (positions, positions[0], None, 7):
        want = rope(q, k, at)
        a, b = (x.requires_grad_() for x in sharded(placement, q, k))
        with CommDebugMode() as communication:
            got = rope(a, b, at)
            gradients = torch.autograd.grad(got, (a, b), [x.detach() for x in got])
            with torch.no_grad():
                rope.apply_(a, b, at)
        assert communication.get_total_counts() == 0, (placement, communication.get_comm_counts())
        back = rope(*want, at, direction="transpose")
        for x, y in zip((*got, *gradients, a, b), (*want, *back, *want)):
            assert x.placements == (placement,)
            assert torch.equal(x.full_tensor(), y)
    a, b = sharded(placement, q, k)
    for x, y in zip(phasor.apply_rotary(a, b, angle.cos(), angle.sin()), phasor.apply_rotary(q, k, angle.cos(), angle.sin())):
        assert x.placements == (placement,) and torch.equal(x.full_tensor(), y)
    (x,) = sharded(placement, q)
    assert torch.equal(rope(x, positions=3).full_tensor(), rope(q, positions=3))

# One head of keys for all: replicated beside sharded queries.
one = torch.randn(2, 6, 1, 8)
a, b = sharded(Shard(2), q)[0], sharded(Replicate(), one)[0]
with CommDebugMode() as communication:
    got = rope(a, b, positions)
assert communication.get_total_counts() == 0 and got[0].placements == (Shard(2),)
assert all(torch.equal(x.full_tensor(), y) for x, y in zip(got, rope(q, one, positions)))

# Channels cannot be sharded: they are brought together, and what was written goes back.
(x,) = sharded(Shard(3), q)
assert torch.equal(rope(x).full_tensor(), rope(q))
rope.apply_(x)
assert x.placements == (Shard(3),) and torch.equal(x.full_tensor(), rope(q))
# The operator without positions does not let shards of tokens count from 0 each.
(x, words) = sharded(Shard(1), q)[0], sharded(Replicate(), rope._words)[0]
assert torch.equal(torch.ops.phasor.rotary(x, words, None, 5, 0).full_tensor(), rope(q, positions=5))
try:
    rope(x, k)
except TypeError as error:
    assert "DTensor" in str(error)
else:
    raise AssertionError("a DTensor beside a plain tensor was taken")

# What has no rule says so before anything is written. Other operators: tests/python/distributed/test_distributed_shards.py.
(b,), stored = sharded(Shard(0), k), distribute_tensor(torch.zeros(2, 6, 2, 8), mesh, [Shard(0)])
calls = [
    ("prepare_attention", lambda: phasor.prepare_attention(k=b, rotary=rope, k_cache=phasor.Cache(stored))),
    ("prepare_attention", lambda: phasor.prepare_attention(k=k, rotary=rope, k_cache=phasor.Cache(stored))),
    ("rerotate_", lambda: rope.rerotate_(b, 3, 0)),
    ("rerotate_", lambda: rope.rerotate_(b, 3, 0, slots=[0])),
]
for where, call in calls:
    try:
        call()
    except NotImplementedError as error:
        assert str(error).startswith(where + ": a tensor is a DTensor, wanted the shards of this rank: x.to_local()"), error
    else:
        raise AssertionError(where + " took a DTensor")
assert not stored.to_local().any() and torch.equal(b.full_tensor(), k)
print("rank", rank, "done")
dist.destroy_process_group()
"""


def test_two_processes_rotate_shards_without_communication(tmp_path):
    script = tmp_path / "sharded.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    for number, (rank, output) in enumerate(zip(ranks, outputs)):
        assert rank.returncode == 0, output
        assert f"rank {number} done" in output
