# SPDX-License-Identifier: Apache-2.0
"""Attention over a sequence that lies on several ranks of torch.distributed: sequences dealt out, any scheme of phasor.attention, sharded caches.

    local, positions = phasor.distributed.shard(x, mesh)
    out = phasor.distributed.attention(q, k, v, phasor.T5(table), causal=True, mesh=mesh)
    whole = phasor.distributed.unshard(out, mesh)
"""

from phasor.distributed._attention import attention
from phasor.distributed._decode import decode, interleaved
from phasor.distributed._group import PeerError
from phasor.distributed._shards import shard, unshard

__all__ = ["PeerError", "attention", "decode", "interleaved", "shard", "unshard"]
