# SPDX-License-Identifier: Apache-2.0
"""Rotary encoding in JAX: linear in q and k, so that its gradient is the transposed rotation, of any order."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from phasor import _core
from phasor._rotary import Rotary, direction_number
from phasor._spec import RotarySpec
from phasor.jax._operands import float_dtype, four_axes, position_array, positions_of, tensor, three_axes, without_tokens
from phasor.jax._targets import alike, called

# Directions of the core, and one more: the transpose of `inverse`, which differs from `forward` where the amplitude is not 1.
_FORWARD, _INVERSE, _TRANSPOSE, _INVERSE_TRANSPOSE = range(4)
_TRANSPOSED = (_TRANSPOSE, _INVERSE_TRANSPOSE, _FORWARD, _INVERSE)


@functools.lru_cache(maxsize=256)
def _made(spec: RotarySpec) -> tuple[Rotary, str]:
    rotary = Rotary.from_spec(spec)
    return rotary, _core.spec_to_json(rotary.spec)


def _rotary_of(where: str, rope: Rotary | RotarySpec) -> tuple[Rotary, str]:
    """The encoding, and the text that its calls carry."""
    spec = rope.spec if isinstance(rope, Rotary) else rope
    if not isinstance(spec, RotarySpec):
        raise TypeError(f"{where}: the encoding is {type(rope).__name__}, wanted a phasor.Rotary or a RotarySpec")
    return _made(spec)


def _turn(spec: RotarySpec, direction: int, positions: Any, tensors: list[Any]) -> list[Any]:
    rotary, text = _made(spec)
    turned = called(
        "phasor_rotary",
        [(x.shape, x.dtype) for x in tensors],
        [positions, *tensors],
        spec=text,
        direction=_FORWARD if direction == _INVERSE_TRANSPOSE else direction,
    )
    if direction != _INVERSE_TRANSPOSE or rotary.amplitude == 1:
        return turned
    # Forward has the amplitude where the transpose of the inverse has its reciprocal.
    rotated = slice(spec.rotary_offset, spec.rotary_offset + spec.rotary_width)
    factor = rotary.amplitude**-2

    def scaled(x: Any) -> Any:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return x.at[..., rotated].set((x[..., rotated].astype(wide) * jnp.asarray(factor, wide)).astype(x.dtype))

    return [scaled(x) for x in turned]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _rotated(spec: RotarySpec, direction: int, positions: Any, tensors: list[Any]) -> list[Any]:
    return _turn(spec, direction, positions, tensors)


def _forward(spec: RotarySpec, direction: int, positions: Any, tensors: list[Any]) -> tuple[list[Any], Any]:
    if positions.perturbed and jnp.issubdtype(positions.value.dtype, jnp.floating):
        raise NotImplementedError("rotary: a gradient by positions is wanted, which phasor.jax has not; wanted jax.lax.stop_gradient(positions)")
    return _rotated_at_once(spec, direction, positions.value, [x.value for x in tensors]), positions.value


def _backward(spec: RotarySpec, direction: int, positions: Any, gradients: list[Any]) -> tuple[None, list[Any]]:
    given = [x for x in gradients if not isinstance(x, SymbolicZero)]
    turned = iter(_rotated_at_once(spec, _TRANSPOSED[direction], positions, given) if given else [])
    return None, [None if isinstance(x, SymbolicZero) else next(turned) for x in gradients]


_rotated.defvjp(_forward, _backward, symbolic_zeros=True)
_rotated_at_once = jax.jit(_rotated, static_argnums=(0, 1), inline=True)  # calls outside of a program are one program, made once; shard_map wants it


def rotary(
    rope: Rotary | RotarySpec, q: Any, k: Any = None, positions: Any = None, *, inverse: bool = False, direction: str | None = None
) -> Any:
    """q, or q and k, rotated: `rope(q, k, positions)` for JAX's programs.

    Tensors are (B, T, H, D), (T, H, D) or (T, D). Positions are an array (T), (B, T) or (axes, B, T) of int32 (int64 and float64 with
    jax_enable_x64), an int or an array of no axes (the first of consecutive ones), or None (from 0 on).

    >>> import jax, jax.numpy as jnp, phasor, phasor.jax
    >>> rope = phasor.Rotary(head_dim=4)
    >>> turn = jax.jit(lambda x, first: phasor.jax.rotary(rope, x, positions=first))
    >>> turn(jnp.array([[1.0, 0, 0, 0]]), 1_000_000)[0, 0]
    Array(0.93675214, dtype=float32)
    """
    made, _ = _rotary_of("rotary", rope)
    turn = direction_number(inverse, direction)
    given = [tensor("rotary", name, x) for name, x in (("q", q), ("k", k)) if x is not None]
    tensors = [four_axes("rotary", name, x) for name, x in zip(("q", "k"), given)]
    batch, tokens = tensors[0].shape[:2]
    at = positions_of("positions", positions, batch, tokens)
    if any(x.shape[:2] != (batch, tokens) for x in tensors):
        raise ValueError(f"rotary: k is of {tensors[1].shape[0]} batch rows and {tensors[1].shape[1]} tokens, q of {batch} and {tokens}")
    _check(made, at, tensors, turn)
    at, *tensors = alike([at, *tensors])
    turned = [out.reshape(x.shape) for out, x in zip(_rotated_at_once(made.spec, turn, at, tensors), given)]
    return turned[0] if k is None else tuple(turned)


def _check(rotary: Rotary, at: Any, tensors: list[Any], turn: int) -> None:
    """By the core, of a call without tokens."""
    q, k = (*(without_tokens(x, 1) for x in tensors), None)[:2]
    where = without_tokens(at, 2).swapaxes(0, 1)
    rotary._core.apply(q, k, where, turn, np.empty_like(q), None if k is None else np.empty_like(k))


def cos_sin(rope: Rotary | RotarySpec, positions: Any, dtype: Any = None) -> tuple[jax.Array, jax.Array]:
    """The values nearest to amplitude * cos and amplitude * sin, float32 unless `dtype` says float64: (..., P) for positions (...).

    >>> import jax.numpy as jnp, phasor, phasor.jax
    >>> cos, sin = phasor.jax.cos_sin(phasor.Rotary(head_dim=4), jnp.array([10**9]))
    >>> cos.shape, cos[0, 0]
    ((1, 2), Array(0.83788717, dtype=float32))
    """
    made, text = _rotary_of("cos_sin", rope)
    found = float_dtype("cos_sin", dtype)
    given = position_array("positions", positions)
    at = three_axes(given)
    heads = getattr(made.spec.scaling, "heads", 1)
    values = made.spec.rotary_width // (1 if made.spec.lanes == "per_channel_frequencies" else 2)
    shape = (at.shape[0], at.shape[2], heads, values)
    empty = np.empty((at.shape[0], 0, heads, values), found)
    made._core.cos_sin(without_tokens(at, 2).swapaxes(0, 1), empty, empty.copy())
    tokens = given.shape[1:] if given.ndim == 3 else given.shape
    cos, sin = called("phasor_cos_sin", [(shape, found)] * 2, [at], spec=text)
    last = (values,) if heads == 1 else (heads, values)
    return cos.reshape(*tokens, *last), sin.reshape(*tokens, *last)
