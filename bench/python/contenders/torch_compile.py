# SPDX-License-Identifier: Apache-2.0
"""The steps of transformers_eager under torch.compile with fixed shapes."""

from __future__ import annotations

import torch
from harness import Case, Contestant

from contenders import transformers_eager


def contestants(case: Case) -> list[Contestant]:
    torch._dynamo.reset()  # every case is a first one: no recompilation limit is met
    return [
        transformers_eager.contestant(f"torch.compile, {name}", torch.compile(step, dynamic=False), case)
        for name, step in transformers_eager.steps(case).items()
    ]
