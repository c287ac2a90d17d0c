# SPDX-License-Identifier: Apache-2.0
"""The handlers of the core (python/src/jax), made known to XLA, and a call of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from phasor import _core

_WANTED_JAX = (0, 10)


def register() -> None:
    """Once, when phasor.jax is imported."""
    if tuple(int(part) for part in jax.__version__.split(".")[:2]) < _WANTED_JAX:
        raise ImportError(f"phasor.jax: JAX is {jax.__version__}, wanted {'.'.join(map(str, _WANTED_JAX))} or newer")
    platforms = {"cpu": False, "CUDA": True} if _core.has_cuda() else {"cpu": False}
    for platform, cuda in platforms.items():
        for name, handler in _core.xla_handlers(cuda).items():
            jax.ffi.register_ffi_target(name, handler, platform=platform)


def _varying(x: Any) -> frozenset[str]:
    """The axes of a mesh along which an array differs, inside jax.shard_map."""
    return jax.typeof(x).mat.varying


def alike(arrays: Sequence[Any]) -> list[Any]:
    """Arrays that differ along the same axes of a mesh: what is the same everywhere (a table) becomes so, and JAX sums its gradients."""
    every = frozenset[str]().union(*(_varying(x) for x in arrays))
    return [jax.lax.pcast(x, missing, to="varying") if (missing := tuple(every - _varying(x))) else x for x in arrays]


def _result(shape: tuple[int, ...], dtype: Any, like: Any) -> jax.ShapeDtypeStruct:
    """A result that differs along the axes of a mesh as the operands do."""
    varying = _varying(like)
    if not varying:
        return jax.ShapeDtypeStruct(shape, dtype)
    whole = jax.NamedSharding(jax.typeof(like).sharding.mesh, jax.P())
    return jax.ShapeDtypeStruct(shape, dtype, sharding=whole, manual_axis_type=jax.sharding.ManualAxisType(varying=varying))


def called(target: str, results: Sequence[tuple[tuple[int, ...], Any]], operands: Sequence[Any], **attributes: str | int) -> list[Any]:
    """A call of a handler: results are shapes and dtypes. Axes that jax.vmap adds are before all others, 1 where an operand has none."""
    operands = alike(operands)
    made = [_result(shape, dtype, operands[0]) for shape, dtype in results]
    named = {name: np.int64(value) if isinstance(value, int) else value for name, value in attributes.items()}
    return jax.ffi.ffi_call(target, made, vmap_method="expand_dims")(*operands, **named)
