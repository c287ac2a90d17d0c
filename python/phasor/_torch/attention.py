# SPDX-License-Identifier: Apache-2.0
"""The operators of attention: tensors in a list, everything else in a text, so that compiled programs hold it; and their gradients."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from phasor import _core, _position_types
from phasor._attention import core_spec
from phasor._rotary import Rotary
from phasor._torch.caches import cached
from phasor._torch.operators import LIBRARY
from phasor._torch.spec_text import bias_of, text_of

_TAGS = (torch.Tag.pt2_compliant_tag,)
LIBRARY.define("attention(Tensor q, Tensor k, Tensor v, Tensor[] tensors, str spec) -> (Tensor, Tensor)", tags=_TAGS)
LIBRARY.define(
    "attention_backward(Tensor q, Tensor k, Tensor v, Tensor[] tensors, str spec, Tensor out, Tensor lse, Tensor? out_gradient, Tensor? lse_gradient, bool[] wanted)"
    " -> Tensor[]",
    tags=_TAGS,
)

# Which gradient of a term belongs to which of its tensors.
_GRADIENT = {
    "table": "table",
    "rows_h": "table",
    "rows_w": "second",
    "bias": "table",
    "features": "features",
    "gate": "features",
    "shift": "shift",
    "parameters": "parameters",
}


# ---- A spec as text ----


def _plain(key: str, value: Any, tensors: list[Tensor]) -> Any:
    """What JSON can say: a tensor is its number, a bias, a rotation and a map are tagged."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, dict):
        return {name: _plain(name, item, tensors) for name, item in value.items() if item is not None}
    if key == "terms":
        return [_plain("term", term, tensors) for term in value]
    if isinstance(value, Rotary):
        return {"rotary": value._core.words}
    if key in ("bias", "rows"):
        return {"spec": text_of(value)}
    if key == "map":
        return {"map": type(value).__name__, "fields": dict(vars(value))}
    return list(value) if isinstance(value, tuple) else value


def encoded(spec: dict[str, Any]) -> tuple[str, list[Tensor]]:
    """The text of a spec and its tensors."""
    tensors: list[Tensor] = []
    return json.dumps(_plain("spec", spec, tensors), separators=(",", ":")), tensors


@cached
def _template(text: str) -> dict[str, Any]:
    """A text as a spec whose tensors are numbers: made once."""

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "spec" in value:
            return bias_of(value["spec"])
        if set(value) == {"rotary"} and isinstance(value["rotary"], list):
            return _core.rotary_from_words(torch.tensor(value["rotary"], dtype=torch.int64))
        if "map" in value and "fields" in value:
            return getattr(_position_types, value["map"])(**value["fields"])
        return {key: made(item) for key, item in value.items()}

    return made(json.loads(text))


def _filled(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, dict):
        return tensors[value["tensor"]] if set(value) == {"tensor"} else {key: _filled(item, tensors) for key, item in value.items()}
    return [_filled(item, tensors) for item in value] if isinstance(value, list) else value


def _core_spec(text: str, tensors: list[Tensor]) -> dict[str, Any]:
    spec = _filled(_template(text), [x.detach() for x in tensors])
    return core_spec({"content": None, "terms": [], **spec})


# ---- The operators ----


def _dense(x: Tensor) -> Tensor:
    x = x.detach().resolve_neg()
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def _lse_dtype(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _attention(q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], spec: str) -> tuple[Tensor, Tensor]:
    out = torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype)
    lse = torch.empty((*q.shape[:3], 1), dtype=_lse_dtype(q))
    _core.attention((_dense(q), _dense(k), _dense(v)), _core_spec(spec, tensors), out, lse)
    return out, lse


def _slots(value: Any, found: dict[int, tuple[int, str]], term: int) -> None:
    """Which term and which of its gradients each tensor of a term is."""
    for key, item in value.items():
        if isinstance(item, dict) and set(item) == {"tensor"} and key in _GRADIENT:
            found[item["tensor"]] = (term, _GRADIENT[key])


def _term_gradients(text: str, tensors: list[Tensor], wanted: list[bool]) -> tuple[list[dict[str, Tensor]], dict[int, Tensor], Tensor | None]:
    """The dicts that the core adds to, the same by the number of the tensor, and that of the content shift."""
    template = _template(text)
    found: dict[int, tuple[int, str]] = {}
    for number, term in enumerate(template.get("terms", [])):
        _slots(term, found, number)
    terms: list[dict[str, Tensor]] = [{} for _ in template.get("terms", [])]
    made: dict[int, Tensor] = {}
    shift = template.get("content_shift")
    shift_gradient = None
    for number, (x, want) in enumerate(zip(tensors, wanted)):
        if not want:
            continue
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        made[number] = torch.zeros(x.shape, dtype=wide)
        if shift is not None and shift["tensor"] == number:
            shift_gradient = made[number]
        else:
            term, name = found[number]
            terms[term][name] = made[number]
    return terms, made, shift_gradient


def _attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: list[Tensor],
    spec: str,
    out: Tensor,
    lse: Tensor,
    out_gradient: Tensor | None,
    lse_gradient: Tensor | None,
    wanted: list[bool],
) -> list[Tensor]:
    terms, made, shift = _term_gradients(spec, tensors, wanted[3:])
    by_qkv = [torch.empty(x.shape, dtype=x.dtype) if want else None for x, want in zip((q, k, v), wanted)]
    out_gradient = torch.zeros_like(out) if out_gradient is None else _dense(out_gradient)
    saved = (_dense(out), lse.detach(), out_gradient, None if lse_gradient is None else lse_gradient.detach())
    _core.attention_backward((_dense(q), _dense(k), _dense(v)), _core_spec(spec, tensors), saved, (*by_qkv, shift), terms)
    rest = [made[n].to(x.dtype) if n in made else x.new_empty(0) for n, x in enumerate(tensors)]
    return [q.new_empty(0) if x is None else x for x in by_qkv] + rest


LIBRARY.impl("attention", _attention, "CompositeExplicitAutograd")
LIBRARY.impl("attention_backward", _attention_backward, "CompositeExplicitAutograd")


@torch.library.register_fake("phasor::attention", lib=LIBRARY)
def _(q: Tensor, k: Tensor, v: Tensor, tensors: list[Tensor], spec: str) -> tuple[Tensor, Tensor]:
    return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty((*q.shape[:3], 1), dtype=_lse_dtype(q))


@torch.library.register_fake("phasor::attention_backward", lib=LIBRARY)
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: list[Tensor],
    spec: str,
    out: Tensor,
    lse: Tensor,
    out_gradient: Tensor | None,
    lse_gradient: Tensor | None,
    wanted: list[bool],
) -> list[Tensor]:
    return [x.new_empty(x.shape) if want else x.new_empty(0) for x, want in zip((q, k, v, *tensors), wanted)]


# ---- Gradients ----


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, tensors, spec = inputs
    ctx.save_for_backward(q, k, v, *output, *tensors)
    ctx.spec = spec
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, out_gradient: Tensor | None, lse_gradient: Tensor | None) -> Any:
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    needs = [*ctx.needs_input_grad[:3], *ctx.needs_input_grad[3]]
    if out_gradient is None and lse_gradient is None:
        return None, None, None, None, None
    made = torch.ops.phasor.attention_backward(q, k, v, tensors, ctx.spec, out, lse, out_gradient, lse_gradient, needs)
    made = [x if need else None for x, need in zip(made, needs)]
    return (*made[:3], made[3:], None)


torch.library.register_autograd("phasor::attention", _backward, setup_context=_setup, lib=LIBRARY)


def _no_second(ctx: Any, *gradients: Any) -> Any:
    raise NotImplementedError("attention: the gradient of its gradient is wanted, which it has not; use PyTorch's own attention for that")


torch.library.register_autograd("phasor::attention_backward", _no_second, lib=LIBRARY)


def attention(q: Tensor, k: Tensor, v: Tensor, spec: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """out and lse (B, T, H), with gradients."""
    text, tensors = encoded(spec)
    out, lse = torch.ops.phasor.attention(q, k, v, tensors, text)
    return out, lse[..., 0]


def merge_attention(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Made of PyTorch's own operations where a gradient is wanted, by the core where not."""
    if any(x.requires_grad for part in parts for x in part) and torch.is_grad_enabled():
        lses = torch.stack([lse for _, lse in parts])
        lse = torch.logsumexp(lses, 0)
        weights = torch.nan_to_num(torch.softmax(lses, 0))  # of rows that see no key: none
        out = sum(o.to(lse.dtype) * w[..., None] for (o, _), w in zip(parts, weights))
        return out.to(parts[0][0].dtype), lse
    first, first_lse = parts[0]
    out, lse = torch.empty_like(first), first_lse.new_empty((*first_lse.shape, 1))
    _core.merge_attention([(_dense(o), s.detach()[..., None]) for o, s in parts], out, lse)
    return out, lse[..., 0]


def detached(q: Tensor, k: Tensor, v: Tensor, spec: dict[str, Any]) -> Any:
    """What the core can read."""
    text, tensors = encoded(spec)
    return _dense(q), _dense(k), _dense(v), {"content": None, "terms": [], **_filled(_template(text), [x.detach() for x in tensors])}
