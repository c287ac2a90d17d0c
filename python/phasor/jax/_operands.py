# SPDX-License-Identifier: Apache-2.0
"""Arguments as the handlers take them: tensors of four axes, positions (B or 1, axes, T). What does not fit is said here, before anything runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasor._arrays import positions_argument

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_POSITIONS = ("int32", "int64", "float64")


def wide() -> bool:
    """Whether JAX has 64 bits."""
    return bool(jax.config.jax_enable_x64)


def float_dtype(where: str, dtype: Any) -> Any:
    """One that the library takes and JAX has; float32 unless given."""
    found = jnp.dtype("float32" if dtype is None else dtype)
    if found.name not in _FLOATS:
        raise TypeError(f"{where}: dtype is {found.name}, wanted one of {', '.join(_FLOATS)}")
    if found == np.float64 and not wide():
        raise ValueError(f"{where}: dtype is float64, wanted jax_enable_x64, without which JAX has none")
    return found


def tensor(where: str, name: str, x: Any) -> jax.Array:
    """An array of floats; lists and NumPy arrays become one."""
    made = jnp.asarray(x)
    if made.dtype.name not in _FLOATS:
        raise TypeError(f"{where}: {name} is of {made.dtype.name}, wanted one of {', '.join(_FLOATS)}")
    return made


def four_axes(where: str, name: str, x: jax.Array) -> jax.Array:
    """(B, T, H, D), (T, H, D) or (T, D) as the first."""
    if not 2 <= x.ndim <= 4:
        raise ValueError(f"{where}: {name} has {x.ndim} axes, wanted (B, T, H, D), (T, H, D) or (T, D)")
    return x[None, :, None] if x.ndim == 2 else x[None] if x.ndim == 3 else x


def integer_dtype() -> Any:
    return jnp.int64 if wide() else jnp.int32


def _fits(where: str, first: int, last: int) -> None:
    limits = np.iinfo(np.int64 if wide() else np.int32)
    for value in (first, last):
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{where}: {value} does not fit in {limits.bits} bits" + ("" if wide() else ", wanted jax_enable_x64"))


def _of_host(where: str, array: np.ndarray) -> jax.Array:
    """NumPy's as JAX's, which would cut wide integers and round float64 without a word."""
    if array.dtype.kind in "iu" and array.size:
        _fits(where, int(array.min()), int(array.max()))
    if array.dtype == np.float64 and not wide():
        raise ValueError(f"{where}: are float64, wanted jax_enable_x64, without which JAX has none")
    return jnp.asarray(array, integer_dtype() if array.dtype.kind in "iu" else None)


def _consecutive(where: str, first: Any, tokens: int) -> jax.Array:
    if isinstance(first, int):
        _fits(where, first, first + max(tokens - 1, 0))
    return jnp.arange(tokens, dtype=integer_dtype()) + jnp.asarray(first, integer_dtype())


def position_array(where: str, positions: Any) -> jax.Array:
    """(T), (B, T) or (axes, B, T) of a dtype that the library takes."""
    given = positions if isinstance(positions, jax.Array) else positions_argument(positions)
    if given is None or isinstance(given, int):
        raise TypeError(f"{where}: are {given!r}, wanted an array: jax.numpy.arange(n) for the first n")
    made = given if isinstance(given, jax.Array) else _of_host(where, np.asarray(given))
    if made.dtype.name not in _POSITIONS:
        raise TypeError(f"{where}: are of {made.dtype.name}, wanted int32, int64 or float64")
    if not 1 <= made.ndim <= 3:
        raise ValueError(f"{where}: have {made.ndim} axes, wanted (T), (B, T) or (axes, B, T)")
    return made


def three_axes(at: jax.Array) -> jax.Array:
    """(T), (B, T) or (axes, B, T) as (B or 1, axes, T)."""
    return at[None, None] if at.ndim == 1 else at[:, None] if at.ndim == 2 else at.swapaxes(0, 1)


def positions_of(where: str, positions: Any, batch: int, tokens: int) -> jax.Array:
    """(B or 1, axes, T) for so many rows and tokens: of an array, of the first of consecutive ones (an int, or an array of no axes), or of None."""
    if isinstance(positions, bool):
        raise TypeError(f"{where}: is bool, wanted an array, an int or None")
    if isinstance(positions, jax.Array) and positions.ndim == 0:
        if positions.dtype.name not in ("int32", "int64"):
            raise TypeError(f"{where}: the first is of {positions.dtype.name}, wanted int32 or int64")
        return three_axes(_consecutive(where, positions, tokens))
    if positions is None or isinstance(positions, (int, np.integer)):
        return three_axes(_consecutive(where, int(positions or 0), tokens))
    made = three_axes(position_array(where, positions))
    if made.shape[2] != tokens or made.shape[0] not in (1, batch):
        raise ValueError(f"{where}: are of {made.shape[0]} batch rows and {made.shape[2]} tokens, wanted {batch} or 1 and {tokens}")
    return made


def without_tokens(x: Any, axis: int) -> np.ndarray:
    """An array of that shape and dtype but of no tokens, by which the core checks a call before it is made."""
    shape = list(x.shape)
    shape[axis] = 0
    return np.empty(shape, x.dtype)
