# SPDX-License-Identifier: Apache-2.0
"""Several rotary encodings in one call: requests of a batch whose specs differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasor import _core
from phasor._arrays import Array, Positions, is_torch, positions_argument, returned, torch_backend
from phasor._numbers import integers, new_like, ungraded, written
from phasor._rotary import Rotary, check_kinds, direction_number


def _apply(where: str, rotaries: Sequence[Rotary], spec_of: Any, operands: tuple[Any, ...], positions: Positions, turn: int) -> None:
    q, k = operands[:2]
    ungraded(where, q, k)
    if spec_of is not None and not hasattr(spec_of, "__dlpack__"):
        spec_of = integers(spec_of, f"{where}: spec_of")
    if is_torch(q):
        if k is not None and not is_torch(k):
            raise TypeError(f"{where}: q is a PyTorch tensor and k is {type(k).__name__}, wanted both of one library")
        spec_of, positions = _beside(q, spec_of, positions)
    else:
        check_kinds(where, q, k)
    _core.apply_rotaries([rotary._core for rotary in rotaries], spec_of, operands, positions_argument(positions), turn)


def _beside(q: Array, spec_of: Any, positions: Positions) -> tuple[Any, Positions]:
    """Lists and NumPy's arrays beside a tensor of PyTorch: on its device. Tensors stay where they are."""
    import torch

    tensor, first = torch_backend().positions_and_first(positions, q)
    if isinstance(spec_of, np.ndarray) and q.is_cuda:
        spec_of = torch.from_numpy(np.ascontiguousarray(spec_of)).to(q.device)
    return spec_of, first if tensor is None else tensor


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
    q_out, k_out = new_like(q), None if k is None else new_like(k)
    _apply("apply_rotaries", rotaries, spec_of, (q, k, q_out, k_out), positions, direction_number(inverse, direction))
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
    _apply("apply_rotaries_", rotaries, spec_of, (q, k, None, None), positions, direction_number(inverse, direction))
    written(q)
    return q if k is None else (q, written(k))
