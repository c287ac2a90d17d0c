# SPDX-License-Identifier: Apache-2.0
"""rotary-embedding-torch with its own cache of angles; it pairs interleaved."""

from __future__ import annotations

import torch
from harness import BASE, HEAD_DIM, Case, Contestant
from rotary_embedding_torch import RotaryEmbedding


def contestants(case: Case) -> list[Contestant]:
    rotary = RotaryEmbedding(dim=HEAD_DIM, theta=BASE)
    # It counts positions in the tensor's dtype, and bf16 ends at 256 (error 1.7 at 2048 tokens). A cache filled in float32 serves all.
    rotary.rotate_queries_or_keys(torch.zeros(1, 1, case.first + case.tokens, HEAD_DIM))
    q, k = (x.transpose(1, 2) for x in case.inputs())

    def run() -> tuple:
        return tuple(rotary.rotate_queries_or_keys(x, offset=case.first) for x in (q, k))

    return [Contestant("rotary-embedding-torch", run, lambda: tuple(x.transpose(1, 2) for x in run()), "interleaved")]
