# SPDX-License-Identifier: Apache-2.0
"""phasor.attention in JAX: the same schemes and options, forward and backward."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Unpack

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from phasor import _core
from phasor._attention import AttentionOptions, call_of
from phasor._attention.types import AttentionScheme
from phasor.jax._attention_tensors import check_qkv, named_tensors
from phasor.jax._targets import alike, called

_LEARN = ("table", "second", "features", "shift", "parameters", "content_shift", "sinks")  # what has a gradient beside q, k and v


@functools.lru_cache(maxsize=256)
def _text_of(scheme: AttentionScheme) -> str:
    return _core.spec_to_json(scheme)


@dataclass(frozen=True)
class _Program:
    """What a call is but for its arrays; `slots` are the names of those beside q, k and v (python/src/jax/attention_tensors.hpp)."""

    scheme: str
    slots: tuple[str, ...]
    out_dtype: Any

    @property
    def attributes(self) -> dict[str, str]:
        return {"scheme": self.scheme, "slots": " ".join(self.slots)}


@jax.tree_util.register_static
@dataclass(frozen=True)
class _Wanted:
    """The names of those whose gradients are wanted."""

    names: tuple[str, ...]


def _lse_dtype(q: Any) -> Any:
    return jnp.promote_types(q.dtype, jnp.float32)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attended(program: _Program, qkv: tuple[Any, ...], tensors: tuple[Any, ...]) -> tuple[Any, Any]:
    q, _, v = qkv
    results = [((*q.shape[:3], v.shape[3]), program.out_dtype), ((*q.shape[:3], 1), _lse_dtype(q))]
    out, lse = called("phasor_attention", results, [*qkv, *tensors], **program.attributes)
    return out, lse


def _forward(program: _Program, qkv: Any, tensors: Any) -> tuple[Any, Any]:
    named = dict(zip(("q", "k", "v", *program.slots), (*qkv, *tensors)))
    wanted = [name for name, x in named.items() if x.perturbed and (name in "qkv" or name.split(".")[-1] in _LEARN)]
    given = tuple(x.value for x in qkv), tuple(x.value for x in tensors)
    outs = _attended_at_once(program, *given)
    return outs, (*given, *outs, _Wanted(tuple(wanted)))


def _backward(program: _Program, saved: Any, gradients: Any) -> tuple[Any, Any]:
    qkv, tensors, out, lse, wanted = saved
    named = dict(zip(("q", "k", "v", *program.slots), (*qkv, *tensors)))
    by_out, by_lse = (None if isinstance(x, SymbolicZero) else x for x in gradients)
    found: dict[str, Any] = {}
    if wanted.names and (by_out is not None or by_lse is not None):
        by_out = jnp.zeros_like(out) if by_out is None else by_out
        found = dict(zip(wanted.names, _gradients(program, wanted.names, (*qkv, out, lse, by_out), tensors, by_lse)))
    of = [found[name].astype(x.dtype) if name in found else None for name, x in named.items()]
    return tuple(of[:3]), tuple(of[3:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _gradients(program: _Program, wanted: tuple[str, ...], saved: tuple[Any, ...], tensors: tuple[Any, ...], by_lse: Any) -> list[Any]:
    named = dict(zip(("q", "k", "v", *program.slots), (*saved[:3], *tensors)))
    results = [(x.shape, x.dtype if name in "qkv" else jnp.promote_types(x.dtype, jnp.float32)) for name, x in named.items() if name in wanted]
    slots, operands = program.slots, tensors
    if by_lse is not None:
        slots, operands = (*slots, "lse_gradient"), (*operands, by_lse)
    attributes = {"scheme": program.scheme, "slots": " ".join(slots), "wanted": " ".join(wanted)}
    return called("phasor_attention_backward", results, [*saved, *operands], **attributes)


def _no_second(*_: Any) -> Any:
    raise NotImplementedError("attention: the gradient of its gradient is wanted, which it has not; use JAX's own attention for that")


_attended.defvjp(_forward, _backward, symbolic_zeros=True)
_gradients.defvjp(_no_second, _no_second)
_attended_at_once = jax.jit(_attended, static_argnums=(0,), inline=True)


def attention(
    q: Any,
    k: Any,
    v: Any,
    scheme: Any = None,
    causal: bool = False,
    *,
    scale: float | None = None,
    return_lse: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """softmax(scale q . k + what the scheme adds) v, of (B, T, H, D) or (T, H, D): `phasor.attention` for JAX's programs.

    Schemes and options are those of phasor.attention; arrays among them may be traced, and tables, gates, shifts, parameters and sinks have
    gradients. dropout_seed is an int, two (seed, offset), or a key of jax.random. There is no second gradient.

    >>> import jax, jax.numpy as jnp, phasor, phasor.jax
    >>> x = jnp.ones((1, 3, 2, 4))
    >>> loss = lambda table: phasor.jax.attention(x, x, x, phasor.T5(table), causal=True).sum()
    >>> jax.grad(loss)(jnp.zeros((2, 32))).shape
    (2, 32)
    """
    given = dict(options)
    seed = given.pop("dropout_seed", None)
    (q, k, v), added = check_qkv(q, k, v)
    call = call_of(q.shape[2], scheme, causal, scale, given)
    named = named_tensors(call, seed, q, k)
    program = _Program(_text_of(call.scheme), tuple(named), jnp.dtype(call.out_dtype or q.dtype))
    q, k, v, *tensors = alike([q, k, v, *named.values()])
    out, lse = _attended_at_once(program, (q, k, v), tuple(tensors))
    lse = lse[..., 0]
    if added:
        out, lse = out[0], lse[0]
    return (out, lse) if return_lse else out
