# SPDX-License-Identifier: Apache-2.0
"""Several rotary encodings in one call: requests of a batch whose specs differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phasor import _core
from phasor._arrays import Array, Positions, is_torch, positions_argument, returned, torch_backend
from phasor._numbers import integers, new_like, ungraded, written
from phasor._rotary import Rotary, check_kinds, direction_number


def _checked(where: str, spec_of: Any, q: Array, k: Array | None, positions: Positions, in_place: bool) -> tuple[Any, Positions]:
    """Indices and positions as the core takes them; lists and NumPy's arrays lie where q does."""
    ungraded(where, q, k, positions)
    if is_torch(q):
        return torch_backend().rows(where, spec_of, q, k, positions, in_place)
    check_kinds(where, q, k)
    if spec_of is not None and not hasattr(spec_of, "__dlpack__"):
        spec_of = integers(spec_of, f"{where}: spec_of")
    return spec_of, positions_argument(positions)


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
    in all but base, scaling and axes. An index that no rotary has is an error on the CPU; on a GPU such a row is left alone. No gradients.

    >>> import numpy as np, phasor
    >>> ropes = [phasor.Rotary(8), phasor.Rotary(8, scaling=phasor.YarnScaling(factor=4, original_length=64))]
    >>> q = np.ones((2, 3, 1, 8), np.float32)
    >>> rotated = phasor.apply_rotaries(ropes, [1, 0], q)
    >>> bool((rotated[0] == ropes[1](q[:1])[0]).all() and (rotated[1] == ropes[0](q[1:])[0]).all())
    True
    """
    spec_of, positions = _checked("apply_rotaries", spec_of, q, k, positions, False)
    q_out, k_out = new_like(q), None if k is None else new_like(k)
    cores = [rotary._core for rotary in rotaries]
    _core.apply_rotaries(cores, spec_of, (q, k, q_out, k_out), positions, direction_number(inverse, direction))
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
    spec_of, positions = _checked("apply_rotaries_", spec_of, q, k, positions, True)
    cores = [rotary._core for rotary in rotaries]
    _core.apply_rotaries(cores, spec_of, (q, k, None, None), positions, direction_number(inverse, direction))
    written(q)
    return q if k is None else (q, written(k))
