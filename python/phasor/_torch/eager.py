# SPDX-License-Identifier: Apache-2.0
"""What phasor.Rotary and phasor.apply_rotary call for PyTorch tensors: straight to the core where nothing else wants to see the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasor import _core
from phasor._arrays import gpu_of, positions_argument
from phasor._spec import TableLayout
from phasor._torch import checks, operators, private, sharding
from phasor._torch.autograd import without_gradient
from phasor._torch.kernels import FORWARD, TRANSPOSE, TRANSPOSED, turn
from phasor._torch.layouts import codes_of, decoded, layout_codes
from phasor._torch.plain import dense, direct, in_place_through_copy, written

_compiling = torch.compiler.is_dynamo_compiling
_recording = torch.is_grad_enabled
_empty_like = torch.empty_like


def words_of_core(core: Any) -> Tensor:
    """A spec as the operators carry it: real numbers on the CPU, even where a model is being made without any."""
    return private.real_tensor(core.words)


def words_of(rope: Any) -> Tensor:
    """The spec of a phasor.Rotary as the operators carry it; made now if PyTorch was imported after the Rotary was made."""
    words = rope._words
    if words is None:
        if _compiling():
            raise RuntimeError("rotary: the Rotary was made before PyTorch was imported, wanted one call of it outside of torch.compile")
        words = rope._words = words_of_core(rope._core)
    return words


def _differentiates(q: Tensor, k: Tensor | None) -> bool:
    return (q.requires_grad or (k is not None and k.requires_grad)) and _recording()


def _torch_positions(positions: Any, beside: Tensor | None = None, tokens: int | None = None) -> Any:
    """Positions as a tensor, an int or None; other arrays, which are on no device, share their memory with the tensor where they can. `tokens`
    is how many there are, where the tensor beside does not say so: pages of a cache."""
    if positions is None or isinstance(positions, (Tensor, torch.SymInt)) or type(positions) is int:
        return positions
    positions = positions_argument(positions)
    if isinstance(positions, int):
        return positions
    if isinstance(beside, Tensor) and beside.is_cuda and not _compiling():
        return _positions_on_gpu(positions, beside, _tokens_of(beside) if tokens is None else tokens)
    made = torch.as_tensor(positions) if _compiling() else _tensor_of(positions)
    return made.to(beside.device) if isinstance(beside, Tensor) and (beside.is_meta or beside.is_cuda) else made


def _positions_on_gpu(positions: Any, beside: Tensor, tokens: int) -> Tensor | int:
    """Positions of the host beside a tensor of a GPU: copied there, or the first of them where that is all there is to know."""
    first = _first_of_consecutive(positions, tokens)
    if first is not None:
        return first
    made = _tensor_of(positions)
    if not made.is_cuda and torch.cuda.is_current_stream_capturing():
        raise ValueError(f"positions: are on the CPU while a CUDA graph is captured, wanted an int, or a tensor on {beside.device}")
    return made.to(beside.device)


def _tokens_of(x: Tensor) -> int:
    return x.shape[-2] if x.ndim == 2 else x.shape[-3] if x.ndim in (3, 4) else -1


def _first_of_consecutive(positions: Any, tokens: int) -> int | None:
    """The first of as many consecutive integers as there are tokens: an offset needs no memory, and so no copy to a GPU."""
    if not isinstance(positions, np.ndarray) or positions.shape != (tokens,) or not tokens or positions.dtype.kind not in "iu":
        return None
    first = int(positions[0])
    return first if first + tokens <= 2**63 and (positions == np.arange(first, first + tokens)).all() else None


def _tensor_of(positions: Any) -> Tensor:
    if gpu_of(positions) is not None:
        return torch.from_dlpack(positions)  # its library lets our stream wait for what is still to be written to it
    if not isinstance(positions, np.ndarray):
        try:
            positions = np.from_dlpack(positions)
        except (BufferError, RuntimeError, TypeError, ValueError):  # not in this machine's memory, or with no DLPack
            return torch.as_tensor(positions)
    if positions.dtype.kind not in "iuf" or positions.dtype.itemsize > 8:
        raise TypeError(f"positions: are of {positions.dtype}, wanted int32, int64 or float64")
    readable = positions.flags.writeable and positions.dtype.isnative and all(stride >= 0 for stride in positions.strides)
    return torch.from_numpy(positions if readable else positions.astype(positions.dtype.newbyteorder("="), order="C"))


def _beside_fake(words: Tensor, q: Tensor) -> Tensor:
    """Words as a fake tensor's mode takes them; those of an export become a constant of the program."""
    mode = getattr(q, "fake_mode", None)
    if mode is None or hasattr(words, "fake_mode") or mode.allow_non_fake_inputs:
        return words
    return mode.from_tensor(words)


def _by_operator(table: dict[int, Any], words: Tensor, tensors: tuple[Any, ...], positions: Any, direction: int) -> Any:
    where = "rotary" if table is operators.ROTARY else "rotary_"
    tensors = tensors if tensors[1] is not None else tensors[:1]
    offset = 0
    if not isinstance(positions, Tensor):
        positions, offset = None, 0 if positions is None else positions
    if type(offset) is int and not -(2**63) <= offset < 2**63:
        raise ValueError(f"{where}: positions begin at {offset}, which does not fit in 64 bits")
    checks.shapes_by_positions(where, tensors, words, positions, offset, direction)
    if not _compiling():
        words = _beside_fake(words, tensors[0])
    if not _compiling() and sharding.any_sharded(tensors):
        words, positions, offset = sharding.placed(tensors, words, positions, offset)
    if not private.OWN_KERNELS and positions is not None and positions.requires_grad and table is operators.ROTARY:
        outs = tuple(torch.ops.phasor.learned_rotary(x, words, None, positions, offset, direction) for x in tensors)
        return outs[0] if len(outs) == 1 else outs
    return table[len(tensors)](*tensors, words, positions, offset, direction)


def rotary(rope: Any, q: Tensor, k: Tensor | None, positions: Any, direction: int, words: Tensor | None = None) -> Any:
    """q, or q and k, rotated into new tensors. `words` are those of the rope where a module holds them."""
    if _compiling() or not direct(q, k, positions):
        positions = _torch_positions(positions, q)
        if _compiling() or not direct(q, k, positions):
            return _by_operator(operators.ROTARY, words_of(rope) if words is None else words, (q, k), positions, direction)
    if rope._words is None:  # for a compiler that looks at a later call
        words_of(rope)
    try:
        if _differentiates(q, k):
            q_out, k_out = Turned.apply(rope, direction, q, k, positions)
        else:
            q_out, k_out = _empty_like(q), None if k is None else _empty_like(k)
            turn(rope._core, (q, k, q_out, k_out), positions, direction)
    except Exception:
        checks.explain("rotary", (q, k), positions=positions)
        raise
    return q_out if k is None else (q_out, k_out)


def rotary_(rope: Any, q: Tensor, k: Tensor | None, positions: Any, direction: int, words: Tensor | None = None) -> Any:
    """q, or q and k, rotated in place and given back."""
    if _compiling():
        return _rotary_by_operator(rope, (q, k), _torch_positions(positions, q), direction, words)
    if rope._words is None:
        words_of(rope)
    try:
        # The call of every layer at every token that is generated: the core asks what `direct` asks, at a third of the cost.
        if rope._core.apply_past_torch(q, k, positions, direction):
            return q if k is None else (q, k)
        positions = _torch_positions(positions, q)
        if direct(q, k, positions):
            return _in_place_with_care(TurnedInPlace, rope, (q, k), (positions,), direction)
    except Exception:
        checks.explain("rotary_", (q, k), positions=positions)
        raise
    return _rotary_by_operator(rope, (q, k), positions, direction, words)


def _rotary_by_operator(rope: Any, tensors: tuple[Any, Any], positions: Any, direction: int, words: Tensor | None) -> Any:
    _by_operator(operators.ROTARY_, words_of(rope) if words is None else words, tensors, positions, direction)
    return tensors[0] if tensors[1] is None else tensors


def tables(q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, layout: TableLayout, direction: int) -> Any:
    """q, or q and k, rotated by given tables into new tensors."""
    if _compiling() or not direct(q, k, cos, sin):
        return _tables_by_operator(operators.TABLES, (q, k), (cos, sin), layout, direction)
    try:
        if _differentiates(q, k):
            q_out, k_out = TurnedByTables.apply(layout, direction, q, k, cos, sin)
        else:
            q_out, k_out = _empty_like(q), None if k is None else _empty_like(k)
            _core.apply_tables(q, k, cos, sin, decoded(layout_codes(layout)), direction, q_out, k_out)
    except Exception:
        checks.explain("apply_rotary", (q, k), cos=cos, sin=sin)
        raise
    return q_out if k is None else (q_out, k_out)


def tables_(q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, layout: TableLayout, direction: int) -> Any:
    """q, or q and k, rotated by given tables in place and given back."""
    if _compiling() or not direct(q, k, cos, sin):
        _tables_by_operator(operators.TABLES_, (q, k), (cos, sin), layout, direction)
        return q if k is None else (q, k)
    try:
        return _in_place_with_care(TurnedByTablesInPlace, layout, (q, k), (cos, sin), direction)
    except Exception:
        checks.explain("apply_rotary_", (q, k), cos=cos, sin=sin)
        raise


def positions_and_first(positions: Any, beside: Tensor | None = None, tokens: int | None = None) -> tuple[Tensor | None, Any]:
    """Positions as operators take them: a tensor, or the first of consecutive ones."""
    sharding.seen(beside)
    at = _torch_positions(positions, beside, tokens)
    return (at, 0) if isinstance(at, Tensor) else (None, 0 if at is None else at)


def learned_rotary(x: Tensor, words: Tensor, frequencies: Tensor, positions: Any, direction: int) -> Tensor:
    """x rotated by learned frequencies."""
    at, first = positions_and_first(positions, x)
    checks.explain("learned_rotary", (x,), positions=at, frequencies=frequencies)
    return torch.ops.phasor.learned_rotary(x, words, frequencies, at, first, direction)


def cos_sin(rope: Any, positions: Tensor, values: int, dtype: Any) -> tuple[Tensor, Tensor]:
    """The tables of positions, `values` wide."""
    if positions.requires_grad and _recording():
        raise NotImplementedError("cos_sin: positions require a gradient; rotate by them instead of by their tables")
    sharding.seen(positions)
    heads = getattr(rope._spec.scaling, "heads", 1)
    wanted = torch.float32 if dtype is None else getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return torch.ops.phasor.cos_sin(positions, words_of(rope), heads, values, wanted)


def _tables_by_operator(
    table: dict[int, Any], tensors: tuple[Any, ...], given: tuple[Any, Any], layout: TableLayout, direction: int
) -> Any:
    where = "apply_rotary" if table is operators.TABLES else "apply_rotary_"
    tensors = tensors if tensors[1] is not None else tensors[:1]
    codes = codes_of(layout)
    checks.shapes_by_tables(where, tensors, *given, codes, direction)
    if not _compiling() and sharding.any_sharded(tensors):
        given = sharding.tables_placed(tensors, given)
    return table[len(tensors)](*tensors, *given, codes, direction)


# ---- Gradients: autograd functions that call the core themselves, at a third of what an operator with gradients costs ----


def _transposed(front: Any, gradients: tuple[Tensor | None, Tensor | None], *rest: Any) -> tuple[Any, Any]:
    """`front(q, k, *rest)` on those gradients that are there."""
    q, k = (None if g is None else dense(g) for g in gradients)
    if q is None:
        return None, None if k is None else front(k, None, *rest)
    return (front(q, None, *rest), None) if k is None else front(q, k, *rest)


def _keep_positions(ctx: Any, rope: Any, direction: int, positions: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.rope, ctx.direction, ctx.positions = rope, direction, positions
    if isinstance(positions, Tensor):
        ctx.positions = None
        ctx.save_for_backward(positions)  # a later change of them is noticed


def _by_positions_backward(ctx: Any, q: Tensor | None, k: Tensor | None) -> tuple[Any, Any]:
    saved = ctx.saved_tensors  # once: torch.utils.checkpoint computes them again when they are asked for
    positions = saved[0] if saved else ctx.positions

    def front(q: Tensor, k: Tensor | None) -> Any:
        return rotary(ctx.rope, q, k, positions, TRANSPOSED[ctx.direction])

    return _transposed(front, (q, k))


class Turned(torch.autograd.Function):
    """Rotation by positions."""

    @staticmethod
    def forward(ctx: Any, rope: Any, direction: int, q: Tensor, k: Tensor | None, positions: Any) -> Any:
        _keep_positions(ctx, rope, direction, positions)
        q_out, k_out = _empty_like(q), None if k is None else _empty_like(k)
        turn(rope._core, (q, k, q_out, k_out), positions, direction)
        without_gradient(ctx, (q_out, k_out), ctx.needs_input_grad[2:])
        return q_out, k_out

    @staticmethod
    def backward(ctx: Any, q: Tensor | None, k: Tensor | None) -> Any:
        return None, None, *_by_positions_backward(ctx, q, k), None


class TurnedInPlace(torch.autograd.Function):
    """Rotation of one tensor in place: its gradient needs the positions only, so nothing that it overwrites is missed."""

    @staticmethod
    def run(rope: Any, q: Tensor, k: Tensor | None, by: tuple[Any, ...], direction: int) -> None:
        turn(rope._core, (q, k, None, None), by[0], direction)

    @staticmethod
    def forward(ctx: Any, rope: Any, direction: int, x: Tensor, positions: Any) -> Tensor:
        _keep_positions(ctx, rope, direction, positions)
        TurnedInPlace.run(rope, x, None, (positions,), direction)
        written(x, None)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, x: Tensor | None) -> Any:
        return None, None, _by_positions_backward(ctx, x, None)[0], None


def _by_tables_backward(ctx: Any, q: Tensor | None, k: Tensor | None) -> tuple[Any, Any]:
    direction = TRANSPOSE if ctx.direction == FORWARD else FORWARD  # inverse means transpose with tables
    return _transposed(tables, (q, k), *ctx.saved_tensors, ctx.layout, direction)


class TurnedByTables(torch.autograd.Function):
    """Rotation by given tables."""

    @staticmethod
    def forward(ctx: Any, layout: TableLayout, direction: int, q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.layout, ctx.direction = layout, direction
        ctx.save_for_backward(cos, sin)
        q_out, k_out = _empty_like(q), None if k is None else _empty_like(k)
        _core.apply_tables(q, k, cos, sin, decoded(layout_codes(layout)), direction, q_out, k_out)
        without_gradient(ctx, (q_out, k_out), ctx.needs_input_grad[2:])
        return q_out, k_out

    @staticmethod
    def backward(ctx: Any, q: Tensor | None, k: Tensor | None) -> Any:
        return None, None, *_by_tables_backward(ctx, q, k), None, None


class TurnedByTablesInPlace(torch.autograd.Function):
    """Rotation of one tensor by given tables in place."""

    @staticmethod
    def run(layout: TableLayout, q: Tensor, k: Tensor | None, by: tuple[Any, ...], direction: int) -> None:
        cos, sin = by
        _core.apply_tables(q, k, cos, sin, decoded(layout_codes(layout)), direction, None, None)

    @staticmethod
    def forward(ctx: Any, layout: TableLayout, direction: int, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.layout, ctx.direction = layout, direction
        ctx.save_for_backward(cos, sin)
        TurnedByTablesInPlace.run(layout, x, None, (cos, sin), direction)
        written(x, None)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, x: Tensor | None) -> Any:
        return None, None, _by_tables_backward(ctx, x, None)[0], None, None


def output(where: str, out: Tensor) -> None:
    """Refuses, as PyTorch does, an output that is written past it: one that learns, or one of inference mode outside of it."""
    checks.writable((out,))
    if out.requires_grad and _recording():
        raise RuntimeError(f"{where}: functions with out=... arguments don't support automatic differentiation, but out requires grad.")


def _in_place_with_care(function: Any, what: Any, tensors: tuple[Tensor, Tensor | None], by: tuple[Any, ...], direction: int) -> Any:
    """In place where a gradient may be wanted, or where PyTorch would refuse to write."""
    q, k = tensors
    given = (q,) if k is None else (q, k)
    checks.writable(given)
    if not _differentiates(q, k):
        function.run(what, q, k, by, direction)
        written(q, k)
        return q if k is None else (q, k)
    checks.rotated("rotary_", given)
    for x in given:  # one at a time: PyTorch takes a view that is written in place only from a function of one output
        if not x.requires_grad:
            function.run(what, x, None, by, direction)
            written(x, None)
        elif in_place_through_copy(x):
            x.copy_(function.apply(what, direction, x.clone(), *by))  # copy_ refuses, before anything is written, what may not be
        else:
            function.apply(what, direction, x, *by)
    return q if k is None else (q, k)
