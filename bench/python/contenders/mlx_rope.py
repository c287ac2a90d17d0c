# SPDX-License-Identifier: Apache-2.0
"""MLX's fast.rope on the CPU, (B, H, T, D)."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from harness import BASE, HEAD_DIM, Case, Contestant

DTYPES = {"f32": mx.float32, "bf16": mx.bfloat16, "f16": mx.float16}


def contestants(case: Case) -> list[Contestant]:
    mx.set_default_device(mx.cpu)
    q, k = (mx.array(x.float().numpy()).astype(DTYPES[case.dtype]).transpose(0, 2, 1, 3) for x in case.inputs())
    mx.eval(q, k)

    def run() -> list[mx.array]:
        out = [mx.fast.rope(x, HEAD_DIM, traditional=False, base=BASE, scale=1.0, offset=case.first) for x in (q, k)]
        mx.eval(out)
        return out

    def output() -> tuple[np.ndarray, ...]:
        return tuple(np.array(x.astype(mx.float32)).transpose(0, 2, 1, 3) for x in run())

    return [Contestant("MLX fast.rope, CPU", run, output)]
