# SPDX-License-Identifier: Apache-2.0
"""A search that kills itself inside its loss after so many evaluations of its own: killed.py STATE EVALUATIONS (0: none). Prints what it found."""

from __future__ import annotations

import math
import os
import signal
import sys

import phasor
import phasor.search


def main(state: str, evaluations: int) -> None:
    done = 0

    def loss(spec: phasor.RotarySpec) -> float:
        nonlocal done
        done += 1
        if done == evaluations:
            os.kill(os.getpid(), signal.SIGKILL)
        return math.sin(sum((i + 1) * math.log(f) for i, f in enumerate(spec.scaling.long_factors)))

    found = phasor.search.longrope(loss, phasor.RotarySpec(16), 4, 64, population=12, parents=6, mutations=4, crossovers=4, iterations=5, seed=3, state=state)
    print(phasor.spec_to_json(found.spec), found.loss.hex(), len(found.evaluations), done)


main(sys.argv[1], int(sys.argv[2]))
