# SPDX-License-Identifier: Apache-2.0
"""What the tests of attention on a GPU share: results and gradients of a call on either device, how far they may be apart, schemes of phasor.nn."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import phasor
from cases import DEVICE, numbers

B, TQ, TK, H, HK, D = 2, 67, 131, 4, 2, 64  # more than a tile of queries and of keys, none of them whole
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-9}
Named = dict[str, Tensor]


def on(device: str, value: Any) -> Any:
    """A copy there, of tensors, lists of them and dicts; what is none stays."""
    if isinstance(value, (list, tuple)):
        return type(value)(on(device, x) for x in value)
    if isinstance(value, dict):
        return {name: on(device, x) for name, x in value.items()}
    return value.detach().clone().to(device).requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def qkv(dtype: torch.dtype, tokens: tuple[int, int] = (TQ, TK), batch: int = B, dim: int = D) -> list[Tensor]:
    """q, k and v of that dtype, on the CPU, with gradients."""
    shapes = ((batch, tokens[0], H, dim), (batch, tokens[1], HK, dim), (batch, tokens[1], HK, dim))
    return [numbers(*shape, seed=n).to(dtype).requires_grad_() for n, shape in enumerate(shapes)]


def results(attend: Callable[..., tuple[Tensor, Tensor]], inputs: list[Tensor], learned: Named, rounded: torch.dtype) -> Named:
    """out, lse and the gradients of everything, from the same gradient of the results (numbers of `rounded`), on the CPU in float64."""
    out, lse = attend(*inputs)
    by_out, by_lse = (numbers(*x.shape, seed=40 + n).to(rounded).to(x.device, x.dtype) for n, x in enumerate((out, lse)))
    seen = ~torch.isneginf(lse)  # a row that sees nothing has no gradient by lse
    by_lse = torch.where(seen, by_lse, 0.0)
    wanted = dict(zip("qkv", inputs)) | learned
    found = torch.autograd.grad((out, lse), list(wanted.values()), (by_out, by_lse), allow_unused=True)
    made = {"out": out, "lse": lse} | {f"gradient of {name}": g for name, g in zip(wanted, found) if g is not None}
    for name, x in made.items():
        assert x.device.type == inputs[0].device.type, f"{name} is on {x.device}"
    return {name: x.detach().cpu().double() for name, x in made.items()}


def widened(value: Any) -> Any:
    """The same numbers in float64."""
    if isinstance(value, (list, tuple)):
        return type(value)(widened(x) for x in value)
    if isinstance(value, dict):
        return {name: widened(x) for name, x in value.items()}
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).double()
    return value.detach().double().requires_grad_(value.requires_grad) if isinstance(value, Tensor) and value.is_floating_point() else value


def apart(got: Named, wanted: Named) -> dict[str, float]:
    """The largest distance of each result; infinite where one has infinities or NaN that the other has not."""
    found = {}
    assert got.keys() == wanted.keys(), (sorted(got), sorted(wanted))
    for name, x in wanted.items():
        same = (got[name] == x) | (got[name].isnan() & x.isnan())
        found[name] = torch.where(same, 0.0, (got[name] - x).abs()).nan_to_num(nan=torch.inf).max().item() if x.numel() else 0.0
    return found


def hold(got: Named, by_cpu: Named, exact: Named, dtype: torch.dtype, arithmetic: torch.dtype) -> None:
    """A GPU's results are as near to those in float64 as the CPU's in the same dtype, which derived bounds hold elsewhere, but for a factor of 4:
    other orders of sums and, in 16 bits, weights that are rounded before they meet values. Nothing is held to less than 64 roundings of the
    arithmetic (in float64, where the CPU's are what is held against, those of a sum over channels and one over keys, four times); gradients are sums
    over rows, whose roundings add up as the root of how many there are."""
    count = 4 * (D + TK) if dtype == torch.float64 else 64
    ours, theirs = apart(got, exact), apart(by_cpu, exact)
    for name, distance in ours.items():
        size = exact[name][exact[name].isfinite()].abs().max().item() if exact[name].numel() else 0.0
        rows = math.sqrt(B * H * TQ) if name.startswith("gradient") else 1.0
        least = count * UNIT[arithmetic] * rows * max(size, 1.0) + UNIT[dtype] * size
        assert distance <= 4 * theirs[name] + least, f"{name} is {distance:.3g} off, the CPU's {theirs[name]:.3g}, wanted {4 * theirs[name] + least:.3g}"


# ---- Schemes of phasor.nn: how each is made, and called with the tensors of a call ----

Made = tuple[Callable[[], nn.Module], Callable[[Any, Tensor], Any], dict[str, Any]]


def _plain(make: Callable[[], nn.Module], **options: Any) -> Made:
    return make, lambda scheme, hidden: scheme(TQ, TK), options


def _segments(scheme: Any, hidden: Tensor) -> Any:
    of = torch.arange(TK, device=hidden.device) // 40
    return scheme(TQ, TK, of[TK - TQ :].clone(), of)


SCHEMES: dict[str, Made] = {
    "T5Scheme": _plain(lambda: phasor.nn.T5Scheme(H, max_distance=50)),
    "T5Scheme behind": _plain(lambda: phasor.nn.T5Scheme(H, bidirectional=False), causal=True),
    "WavLMScheme": (lambda: phasor.nn.WavLMScheme(H, 8, 32, 50), lambda scheme, hidden: scheme(hidden), {}),
    "AlibiScheme": _plain(lambda: phasor.nn.AlibiScheme(H), causal=True),
    "AlibiScheme both ways": _plain(lambda: phasor.nn.AlibiScheme(H, learned=False, form="symmetric")),
    "KerpleScheme": _plain(lambda: phasor.nn.KerpleScheme(H), causal=True),
    "KerpleScheme power": _plain(lambda: phasor.nn.KerpleScheme(H, "power"), causal=True),
    "FireScheme": _plain(lambda: phasor.nn.FireScheme(H, 8, length=50.0), causal=True),
    "LearnedBiasScheme": _plain(lambda: phasor.nn.LearnedBiasScheme(H, 40, 9)),
    "ShawScheme": _plain(lambda: phasor.nn.ShawScheme(D, 16, 16)),
    "ShawScheme of heads": _plain(lambda: phasor.nn.ShawScheme(D, 30, 3, heads=H)),
    "ShawScheme of keys, few": _plain(lambda: phasor.nn.ShawScheme(D, 12, 40, heads=H, values=False), causal=True),
    "ShawScheme of keys, few, both ways": _plain(lambda: phasor.nn.ShawScheme(D, 12, 40, values=False)),
    "ShawScheme of keys": _plain(lambda: phasor.nn.ShawScheme(D, 200, 200, values=False)),
    "TransformerXLScheme": _plain(lambda: phasor.nn.TransformerXLScheme(H, D, 32)),
    "XLNetScheme": (lambda: phasor.nn.XLNetScheme(H, D, 32), _segments, {}),
    "DebertaScheme": _plain(lambda: phasor.nn.DebertaScheme(H, D, buckets=16, max_distance=64, width=32)),
    "DebertaScheme causal": _plain(lambda: phasor.nn.DebertaScheme(H, D, buckets=16, max_distance=64, width=32), causal=True),
    "GridScheme": _plain(lambda: phasor.nn.GridScheme(H, (11, 12))),  # 131 of 132 tokens
    "GridScheme with a class token": _plain(lambda: phasor.nn.GridScheme(H, (10, 13), class_token=True)),
    "DecomposedScheme": _plain(lambda: phasor.nn.DecomposedScheme(D, (11, 12))),
    "CopeScheme": _plain(lambda: phasor.nn.CopeScheme(D, 24), causal=True),
}


def module_results(name: str, dtype: torch.dtype, device: str, exact: bool = False) -> Named:
    """Of a scheme in a call of this dtype on a device, or in float64 with the same numbers."""
    make, call, options = SCHEMES[name]
    torch.manual_seed(5)
    module = make().to(torch.float64 if dtype == torch.float64 else torch.float32)
    inputs, hidden = qkv(dtype), numbers(B, TQ, H * 8, seed=9).to(next(iter(module.parameters()), torch.empty(0)).dtype)
    if exact:
        module, inputs, hidden = widened(module), widened(inputs), hidden.double()
    module, inputs, hidden = module.to(device), on(device, inputs), hidden.to(device)
    scale = getattr(module, "scale", None)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return phasor.attention(q, k, v, call(module, hidden), scale=scale, return_lse=True, **options)

    return results(attend, inputs, dict(module.named_parameters()), dtype)


def option_results(options: dict[str, Any], scheme: Any, dtype: torch.dtype, device: str, exact: bool = False, tokens: Any = (TQ, TK)) -> Named:
    """The same of a call with options, whose tensors and scheme are made on the CPU; `scheme` makes it of a dict of tensors."""
    learned = {name: numbers(*shape, seed=60 + n).requires_grad_() for n, (name, shape) in enumerate(scheme[0].items())}
    batch = 1 if "cu_seqlens" in options else B
    inputs = qkv(dtype, tokens, batch)
    if exact or dtype == torch.float64:
        learned, inputs, options = widened(learned), widened(inputs), widened(options)
        options.pop("out_dtype", None)
    learned, inputs, options = on(device, learned), on(device, inputs), on(device, options)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return phasor.attention(q, k, v, scheme[1](learned), return_lse=True, **options)

    return results(attend, inputs, learned | {name: options[name] for name in ("sinks",) if name in options}, dtype)


def hold_options(options: dict[str, Any], scheme: Any, dtype: torch.dtype, **more: Any) -> None:
    arithmetic = torch.float64 if dtype == torch.float64 else torch.float32
    exact = option_results(options, scheme, dtype, "cpu", True, **more)
    hold(option_results(options, scheme, dtype, DEVICE, **more), option_results(options, scheme, dtype, "cpu", **more), exact, dtype, arithmetic)
