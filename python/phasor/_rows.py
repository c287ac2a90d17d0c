# SPDX-License-Identifier: Apache-2.0
"""Several rotary encodings in one call: requests of a batch whose specs differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phasor import _core
from phasor._arrays import Array, Positions, is_torch, positions_argument, returned, torch_backend
from phasor._numbers import integers, new_like, ungraded
from phasor._rotary import Rotary, check_kinds, direction_number


def _run(where: str, rotaries: Sequence[Rotary], spec_of: Any, arrays: tuple[Any, ...], positions: Positions, direction: int) -> None:
    """The core's call on (q, k, q_out, k_out), none of them PyTorch's."""
    ungraded(where, positions)
    check_kinds(where, *arrays[:2])
    if spec_of is not None and not hasattr(spec_of, "__dlpack__"):
        spec_of = integers(spec_of, f"{where}: spec_of")
    _core.apply_rotaries([rotary._core for rotary in rotaries], spec_of, arrays, positions_argument(positions), direction)


def apply_rotaries(
    rotaries: Sequence[Rotary],
    spec_of: Any,
    q: Array,
    k: Array | None = None,
    positions: Positions = None,
    *,
    inverse: bool = False,
    direction: str | None = None,
) -> Any:
    """q, or q and k, rotated into new arrays, each row by its own rotary: bitwise what a call for each rotary with its rows alone gives.

    `spec_of` has an index into `rotaries` for each batch row (B) or each token (B, T), int32 or int64, on the device of q. Rotaries agree
    in all but base, scaling and axes. An index that no rotary has is an error on the CPU; on a GPU such a row is left alone. In PyTorch with gradients.

    >>> import numpy as np, phasor
    >>> ropes = [phasor.Rotary(8), phasor.Rotary(8, scaling=phasor.YarnScaling(factor=4, original_length=64))]
    >>> q = np.ones((2, 3, 1, 8), np.float32)
    >>> rotated = phasor.apply_rotaries(ropes, [1, 0], q)
    >>> bool((rotated[0] == ropes[1](q[:1])[0]).all() and (rotated[1] == ropes[0](q[1:])[0]).all())
    True
    """
    turn = direction_number(inverse, direction)
    if is_torch(q):
        outs = torch_backend().rotaries(rotaries, spec_of, (q,) if k is None else (q, k), positions, turn)
        return outs[0] if k is None else outs
    q_out, k_out = new_like(q), None if k is None else new_like(k)
    _run("apply_rotaries", rotaries, spec_of, (q, k, q_out, k_out), positions, turn)
    return returned(q, q_out) if k is None else (returned(q, q_out), returned(k, k_out))


def apply_rotaries_(
    rotaries: Sequence[Rotary],
    spec_of: Any,
    q: Array,
    k: Array | None = None,
    positions: Positions = None,
    *,
    inverse: bool = False,
    direction: str | None = None,
) -> Any:
    """q, or q and k, rotated in place and given back; see apply_rotaries."""
    turn = direction_number(inverse, direction)
    if is_torch(q):
        torch_backend().rotaries_(rotaries, spec_of, (q,) if k is None else (q, k), positions, turn)
    else:
        _run("apply_rotaries_", rotaries, spec_of, (q, k, None, None), positions, turn)
    return q if k is None else (q, k)
