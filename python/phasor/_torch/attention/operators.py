# SPDX-License-Identifier: Apache-2.0
"""The operators of attention, whose calls are lists and a text (text.py), so that compiled programs hold them; and their gradients."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from phasor import _core
from phasor._attention import Call, core_tensors, plan_of
from phasor._attention.arrays import workspace_beside
from phasor._attention.types import CopeScheme, DecomposedScheme, SegmentScheme, TableScheme
from phasor._torch import checks, private
from phasor._torch.attention.place import put_beside, seed_beside
from phasor._torch.attention.text import Template, encoded, template
from phasor._torch.operators import LIBRARY
from phasor._torch.plain import direct
from phasor._torch.sharding import any_sharded, refuse

_OUT_DTYPE = re.compile(r'"out_dtype":"(\w+)"')  # in the text of a spec
_MOST_PARTS_OF_A_LAUNCH = 64  # that are merged on CUDA
_TAGS = (torch.Tag.pt2_compliant_tag,)
_SPEC = "Tensor[] tensors, SymInt[] sizes, str spec"
_SAVED = "Tensor out, Tensor lse, Tensor? out_gradient, Tensor? lse_gradient, bool[] wanted"
LIBRARY.define(f"attention(Tensor q, Tensor k, Tensor v, {_SPEC}) -> (Tensor, Tensor)", tags=_TAGS)
LIBRARY.define(f"attention_backward(Tensor q, Tensor k, Tensor v, {_SPEC}, {_SAVED}) -> Tensor[]", tags=_TAGS)

# ---- The operators ----


def dense_heads(x: Tensor) -> Tensor:
    x = x.detach().resolve_neg()
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def _lse_dtype(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def out_dtype_of(q: Tensor, name: str | None) -> torch.dtype:
    return q.dtype if name is None else getattr(torch, name)


def out_dtype_in(q: Tensor, spec: str) -> torch.dtype:
    """That of a call's text."""
    found = _OUT_DTYPE.search(spec)
    return out_dtype_of(q, found and found[1])


def workspace_of(q: Tensor) -> Any:
    """Memory by PyTorch's allocator: in the order of its stream, and of a graph's own where one is captured."""
    return workspace_beside(q) if q.is_cuda else None


def _by_core(q: Tensor, k: Tensor, v: Tensor, plan: Any, tensors: dict[str, Any], out_dtype: str | None) -> tuple[Tensor, Tensor]:
    out = q.new_empty((*q.shape[:3], v.shape[3]), dtype=out_dtype_of(q, out_dtype))
    lse = q.new_empty((*q.shape[:3], 1), dtype=_lse_dtype(q))
    _core.attention((dense_heads(q), dense_heads(k), dense_heads(v)), plan, tensors, out, lse, workspace_of(q))
    return out, lse


def _attention(q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], sizes: list[int], spec: str) -> tuple[Tensor, Tensor]:
    made = template(spec, tuple(sizes))
    return _by_core(q, k, v, made.plan, core_tensors(made.filled(tensors)), made.out_dtype)


class _TermGradients:
    """What the core adds gradients of a call's tensors to: a dict a term, the content's shift, the sinks."""

    def __init__(self, call: Template, tensors: list[Tensor], wanted: list[bool]) -> None:
        slots = {n: (number, name) for number, term in enumerate(call.terms) for name, n in term.items()}
        alone = {call.tensors.get(name): name for name in ("content_shift", "sinks")}
        self.terms: list[dict[str, Tensor]] = [{} for _ in call.terms]
        self.alone: dict[str, Tensor] = {}
        self.by_tensor: dict[int, Tensor] = {}
        for number in [n for n, want in enumerate(wanted) if want]:
            x = tensors[number]
            made = self.by_tensor[number] = x.new_zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32))
            if number in alone:
                self.alone[alone[number]] = made
            else:
                term, name = slots[number]
                self.terms[term][name] = made


def _attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: list[Tensor],
    sizes: list[int],
    spec: str,
    out: Tensor,
    lse: Tensor,
    out_gradient: Tensor | None,
    lse_gradient: Tensor | None,
    wanted: list[bool],
) -> list[Tensor]:
    call = template(spec, tuple(sizes))
    made = _TermGradients(call, tensors, wanted[3:])
    by_qkv = [x.new_empty(x.shape) if want else None for x, want in zip((q, k, v), wanted)]
    out_gradient = torch.zeros_like(out) if out_gradient is None else dense_heads(out_gradient)
    saved = (dense_heads(out), lse.detach(), out_gradient, None if lse_gradient is None else dense_heads(lse_gradient))
    alone = (made.alone.get("content_shift"), made.alone.get("sinks"))
    qkv = (dense_heads(q), dense_heads(k), dense_heads(v))
    deterministic = call.deterministic or torch.are_deterministic_algorithms_enabled()
    given = core_tensors(call.filled(tensors))
    _core.attention_backward(qkv, call.plan, given, saved, (*by_qkv, *alone), made.terms, workspace_of(q), deterministic)
    rest = [made.by_tensor[n].to(x.dtype) if n in made.by_tensor else x.new_empty(0) for n, x in enumerate(tensors)]
    return [q.new_empty(0) if x is None else x for x in by_qkv] + rest


LIBRARY.impl("attention", private.guarded(_attention), "CompositeExplicitAutograd")
LIBRARY.impl("attention_backward", _attention_backward, "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::attention", lib=LIBRARY)
def _(q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], sizes: Any, spec: str) -> tuple[Tensor, Tensor]:
    out = q.new_empty((*q.shape[:3], v.shape[3]), dtype=out_dtype_in(q, spec))
    return out, q.new_empty((*q.shape[:3], 1), dtype=_lse_dtype(q))


@torch.library.register_fake("phasor::attention_backward", lib=LIBRARY)
def _(q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], *rest: Any) -> list[Tensor]:
    return [x.new_empty(x.shape) if want else x.new_empty(0) for x, want in zip((q, k, v, *tensors), rest[-1])]


# ---- Gradients ----


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, tensors, ctx.sizes, ctx.spec = inputs
    ctx.save_for_backward(q, k, v, *output, *tensors)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, out_gradient: Tensor | None, lse_gradient: Tensor | None) -> Any:
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    needs = [*ctx.needs_input_grad[:3], *ctx.needs_input_grad[3]]
    of_spec: tuple[Any, None] = (None if ctx.sizes else [], None)  # an empty list could be one of tensors
    if out_gradient is None and lse_gradient is None:
        return (None, None, None, [None] * len(tensors), *of_spec)
    made = torch.ops.phasor.attention_backward(q, k, v, tensors, ctx.sizes, ctx.spec, out, lse, out_gradient, lse_gradient, needs)
    given = [x if need else None for x, need in zip(made, needs)]
    return (*given[:3], given[3:], *of_spec)


torch.library.register_autograd("phasor::attention", _backward, setup_context=_setup, lib=LIBRARY)


def _no_second(ctx: Any, *gradients: Any) -> Any:
    raise NotImplementedError("attention: the gradient of its gradient is wanted, which it has not; use PyTorch's own attention for that")


torch.library.register_autograd("phasor::attention_backward", _no_second, lib=LIBRARY)


class Attended(torch.autograd.Function):
    """The same for eager calls that nobody else looks at. An operator that takes a list has to be unpacked and packed by PyTorch at every step
    of the way; that takes it longer than this takes in all."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sizes: list[int], spec: str, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = _attention(q, k, v, list(tensors), sizes, spec)
        ctx.save_for_backward(q, k, v, out, lse, *tensors)
        ctx.sizes, ctx.spec = sizes, spec
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor | None, lse_gradient: Tensor | None) -> Any:
        q, k, v, out, lse, *tensors = ctx.saved_tensors
        needs = [*ctx.needs_input_grad[:3], *ctx.needs_input_grad[5:]]
        if out_gradient is None and lse_gradient is None:
            return (None,) * len(ctx.needs_input_grad)
        # Where the gradient's own gradient is recorded, and where somebody looks at backward passes alone, it is the operator again.
        seen = torch.is_grad_enabled() or not all(direct(x, None, None) for x in (q, out_gradient, lse_gradient) if x is not None)
        run = torch.ops.phasor.attention_backward if seen else _attention_backward
        made = run(q, k, v, tensors, ctx.sizes, ctx.spec, out, lse, out_gradient, lse_gradient, needs)
        given = [x if need else None for x, need in zip(made, needs)]
        return (*given[:3], None, None, *given[3:])


# ---- What phasor.attention calls ----


_MULTIPLIED = ("table", "second", "features")  # with q, k or weights: as the weights of a linear layer are
_OF_ROWS = (TableScheme, SegmentScheme, DecomposedScheme, CopeScheme)  # the tables of others are numbers that are added


def _cast(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Under autocast in its dtype, as PyTorch's own attention, and so are rows that q, k or weights are multiplied with: fast kernels multiply
    numbers of one dtype. Biases, which are added, stay; so does float64."""
    device = "cuda" if q.is_cuda else "cpu"
    if not torch.is_autocast_enabled(device) or torch.float64 in (q.dtype, k.dtype, v.dtype):
        return q, k, v
    dtype = torch.get_autocast_dtype(device)
    for number, (scheme, term) in enumerate(zip(call.scheme.terms, call.tensors["terms"])):
        if isinstance(scheme, _OF_ROWS):
            cast = {name: x.to(dtype) for name, x in term.items() if name in _MULTIPLIED and isinstance(x, Tensor) and x.dtype == torch.float32}
            call.tensors["terms"][number] = term | cast
    return q.to(dtype), k.to(dtype), v.to(dtype)


def tensors_of(call: Call) -> dict[str, Tensor]:
    """The tensors of a call and of its terms, by their names: several terms may have a `table`."""
    return {
        f"{name} of term {number - 1}" if number else name: value
        for number, term in enumerate((call.tensors, *call.tensors["terms"]))
        for name, value in term.items()
        if isinstance(value, Tensor) and name != "dropout_seed"  # which stays on the CPU
    }


def plain_call(contents: tuple[Tensor, ...], call: Call) -> bool:
    """Whether a call may go past the dispatcher: eager, of plain tensors."""
    if torch.compiler.is_compiling():
        return False
    seed = call.tensors.get("dropout_seed")
    return all(direct(x, None, None) for x in (*contents, *tensors_of(call).values(), *((seed,) if isinstance(seed, Tensor) else ())))


def records(contents: tuple[Tensor, ...], call: Call) -> bool:
    """Whether a gradient is wanted. Generating a token is a call without one."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in (*contents, *tensors_of(call).values()))


def nobody_looks(contents: tuple[Tensor, ...], call: Call) -> bool:
    """Whether there is nothing to do but the call."""
    return plain_call(contents, call) and not records(contents, call)


def attention(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """out and lse (B, T, H), with gradients."""
    if not torch.compiler.is_compiling() and any_sharded((q, k, v)):
        from phasor.distributed._dtensor import attention as of_shards

        return of_shards(q, k, v, call)
    refuse("attention", tuple(tensors_of(call).values()))
    put_beside(call, q, k)
    checks.one_device("attention", q=q, k=k, v=v, **tensors_of(call))
    q, k, v = _cast(q, k, v, call)
    if call.scheme.dropout:
        call.tensors["dropout_seed"] = seed_beside(q, call.tensors["dropout_seed"])
    plain = plain_call((q, k, v), call)
    if plain and not records((q, k, v), call):
        out, lse = _by_core(q, k, v, plan_of(call.scheme), core_tensors(call.tensors), call.out_dtype)
        return out, lse[..., 0]
    tensors, sizes, text = encoded(call)
    # What became a tensor only now (positions that were a list) was not looked at.
    if plain and all(direct(x, None, None) for x in tensors):
        out, lse = Attended.apply(q, k, v, sizes, text, *tensors)
    else:
        out, lse = torch.ops.phasor.attention(q, k, v, tensors, sizes, text)
    return out, lse[..., 0]


def merge_attention(parts: list[tuple[Tensor, Tensor]], out_dtype: str | None = None) -> tuple[Tensor, Tensor]:
    """By the core; made of PyTorch's own operations where a gradient is wanted, somebody looks on, or a launch cannot carry so many parts."""
    tensors = [x for part in parts for x in part]
    checks.one_device("merge_attention", **{f"{('out', 'lse')[i % 2]} of part {i // 2}": x for i, x in enumerate(tensors)})
    recorded = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    many = len(parts) > _MOST_PARTS_OF_A_LAUNCH and parts[0][0].is_cuda
    if recorded or many or torch.compiler.is_compiling() or not all(direct(x, None, None) for x in tensors):
        lses = torch.stack([lse for _, lse in parts])
        lse = torch.logsumexp(lses, 0)
        weights = torch.softmax(torch.where(torch.isneginf(lse), 0.0, lses), 0)  # of rows that see no key: any
        seen = [o.to(lse.dtype).masked_fill(torch.isneginf(s)[..., None], 0.0) for o, s in parts]  # whatever a part holds that saw nothing
        out = torch.stack([o * w[..., None] for o, w in zip(seen, weights.unbind())]).sum(0)
        return out.to(out_dtype_of(parts[0][0], out_dtype)), lse
    first, first_lse = parts[0]
    out, lse = first.new_empty(first.shape, dtype=out_dtype_of(first, out_dtype)), first_lse.new_empty((*first_lse.shape, 1))
    _core.merge_attention([(dense_heads(o), s.detach()[..., None]) for o, s in parts], out, lse)
    return out, lse[..., 0]


def placed(call: Call, q: Tensor, k: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """q, k and others as the core can read them; what the call holds is put where they are."""
    put_beside(call, q, k)
    return tuple(dense_heads(x) for x in (q, k, *rest))
