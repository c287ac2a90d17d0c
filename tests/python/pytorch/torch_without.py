# SPDX-License-Identifier: Apache-2.0
"""python torch_without.py NAME...: what phasor gives when it cannot see a private name of PyTorch, as JSON: {name: {case: result}}.

Each name is hidden in a fork of its own, from phasor alone: PyTorch itself goes on using it. The name "" hides nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

torch.set_num_threads(1)


class Gone(property):
    """An attribute of tensors that is not there; older compilers of PyTorch ask whose it is."""

    __objclass__ = torch.Tensor


def hide(path: str) -> None:
    """Makes the name unknown to phasor."""
    place, _, name = path.rpartition(".")
    if place == "torch.Tensor":
        setattr(torch.Tensor, name, Gone(lambda self: (_ for _ in ()).throw(AttributeError(name))))
        return
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError:  # torch._C._autograd is no module of its own to the import system
        module = torch
        for part in place.split(".")[1:]:
            module = getattr(module, part)

    class Hiding(type(module)):
        def __getattribute__(self, asked: str) -> Any:
            if asked == name and sys._getframe(1).f_globals.get("__name__", "").startswith("phasor"):
                raise AttributeError(asked)
            return super().__getattribute__(asked)

    module.__class__ = Hiding


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(3)
    return tuple(torch.randn(2, 5, heads, 8, generator=made) for heads in (3, 1, 3))


def cases(phasor: Any) -> dict[str, Callable[[], Any]]:
    """What users do, each giving tensors."""
    rope = phasor.Rotary(head_dim=8)
    at = torch.tensor([3, 1, 4, 1, 5])

    def gradients() -> Any:
        q, k, by = (x.requires_grad_() for x in tensors())
        outs = rope(q, k, at)
        first = torch.autograd.grad(outs, (q, k), (by, k.detach()), create_graph=True)
        return *outs, *first, *torch.autograd.grad(first[0].square().sum(), by)

    def in_place() -> Any:
        q, k, _ = tensors()
        kept = q.clone().requires_grad_()
        moving = kept * 2
        rope.apply_(moving, positions=at)
        part = (kept * 3).split(1, dim=2)[1]  # one of several views of a call
        rope.apply_(part.clone(), positions=at)
        return rope.apply_(q, k, at), *torch.autograd.grad(moving.sin().sum(), kept), phasor.apply_rotary_(k.clone(), None, *rope.cos_sin(at))

    def noticed() -> Any:
        x = tensors()[0].requires_grad_()
        y = x * 1
        z = y.square()
        rope.apply_(y.detach(), positions=at)  # shares its memory and its version with y, which square keeps
        try:
            z.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)
        return False

    def tables() -> Any:
        q, k, by = tensors()
        cos, sin = (t.requires_grad_() for t in rope.cos_sin(at))
        out = phasor.apply_rotary(q.requires_grad_(), None, cos, sin)
        return out, *torch.autograd.grad(out, (q, cos, sin), by)

    def learned() -> Any:
        q, _, by = tensors()
        module = phasor.nn.LearnedRotary(8)
        places = at.double().requires_grad_()
        out = module(q.requires_grad_(), positions=places)
        own = rope(q, positions=places)
        return *torch.autograd.grad(out, (q, module.frequencies, places), by), *torch.autograd.grad(own, (q, places), by)

    def additive() -> Any:
        x, table = torch.ones(2, 5, 8, requires_grad=True), torch.arange(72.0).reshape(9, 8).requires_grad_()
        module = phasor.nn.Sinusoidal(8, learned_amplitude=True)
        out = phasor.lookup_add(module(x, at), table, at)
        return out, *torch.autograd.grad(out.square().sum(), (x, table, module.amplitude)), phasor.add_sinusoidal_(torch.ones(5, 8), at)

    def attention() -> Any:
        q, k, v = (x.requires_grad_() for x in tensors())
        keys = torch.ones(3, 8, requires_grad=True)
        out, lse = phasor.attention(q, k, v[:, :, :1], scheme=[phasor.Shaw(keys), phasor.Rope(rope)], causal=True, return_lse=True)
        return out, lse, *torch.autograd.grad(out.square().sum() + lse.sum(), (q, k, v, keys))

    def prepared() -> Any:
        """With a list of the host and a head that does not learn; then to a cache; then what is refused, whose kind is the result."""
        q, k, by = tensors()
        weight = torch.ones(8, requires_grad=True)
        given = {"rotary": [rope, rope], "spec_of": [1, 0], "positions": at, "q_norm": phasor.HeadNorm(weight=weight)}
        outs = phasor.prepare_attention(q.requires_grad_(), k, **given)
        cache = torch.zeros(2, 5, 1, 8)
        phasor.prepare_attention(k=k, rotary=rope, positions=at, k_cache=phasor.Cache(cache))
        refused = []
        for out in ({}, {"q_out": torch.zeros_like(q)}):
            with forward_ad.dual_level():
                try:
                    phasor.prepare_attention(forward_ad.make_dual(q.detach(), by), rotary=rope, **out)
                except NotImplementedError:
                    refused.append(True)
        return *outs, *torch.autograd.grad(outs[0], (q, weight), by), cache, str([x.requires_grad for x in outs]), str(refused)

    def rows() -> Any:
        q, k, by = (x.requires_grad_() for x in tensors())
        ropes = [rope, phasor.Rotary(head_dim=8, scaling=phasor.YarnScaling(factor=4, original_length=64))]
        outs = phasor.apply_rotaries(ropes, [1, 0], q, k, at, inverse=True)
        moving = q * 2
        phasor.apply_rotaries_(ropes, [1, 0], moving, None, at)
        first = torch.autograd.grad(outs[0], q, by, create_graph=True)
        return *outs, *first, *torch.autograd.grad(first[0].square().sum(), by), *torch.autograd.grad(moving.sin().sum(), q)

    def keys_that_move() -> Any:
        """In a tensor and in a paged cache; what learns is refused."""
        k = tensors()[1]
        refused = False
        try:
            rope.rerotate_((k * 1).requires_grad_(), at, 3)
        except NotImplementedError:
            refused = True
        return rope.rerotate_(k.clone(), at, 3), rope.rerotate_(k.clone(), at[:2], 3, slots=[7, 2]), str(refused)

    def mapped() -> Any:
        q, k, _ = tensors()
        return torch.func.vmap(lambda q, k: rope(q, k, at))(q, k)

    def fake_and_meta() -> Any:
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            shapes = [tuple(x.shape) for x in rope(*tensors()[:2], torch.arange(5))]
        with torch.device("meta"):
            module = phasor.nn.Rotary(8)
        with torch.inference_mode():
            inferred = rope.apply_(tensors()[0], positions=at)
        return str(shapes), module.to_empty(device="cpu")(tensors()[0]), inferred

    def functional_gradient() -> Any:
        q, _, by = tensors()
        return torch.func.grad(lambda q: (rope(q, positions=at).sin() * by).sum())(q)

    def forward_mode() -> Any:
        q, _, by = tensors()
        with forward_ad.dual_level():
            primal, tangent = forward_ad.unpack_dual(rope(forward_ad.make_dual(q, by), positions=at))
            return primal, tangent

    found = (gradients, in_place, noticed, tables, learned, additive, attention, prepared, rows, keys_that_move, mapped, fake_and_meta, functional_gradient, forward_mode)
    return {function.__name__: function for function in found}


def words(result: Any) -> str:
    """A result as text: hashes of tensors."""
    if isinstance(result, torch.Tensor):
        return hashlib.sha256(np.ascontiguousarray(result.detach().numpy()).tobytes()).hexdigest()[:16]
    return " ".join(words(one) for one in result) if isinstance(result, (tuple, list)) else str(result)


def results(name: str) -> dict[str, str]:
    if name:
        hide(name)
    import phasor
    import phasor.nn

    from phasor._torch import private

    made = {"ways": f"asks {private.CAN_ASK}, own kernels {private.OWN_KERNELS}"}
    for case, function in cases(phasor).items():
        try:
            made[case] = words(function())
        except Exception as error:  # noqa: BLE001
            made[case] = f"{type(error).__name__}: {error}"
    return made


def main() -> None:
    found = {}
    for name in sys.argv[1:]:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            os.write(write, json.dumps(results(name)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            found[name] = json.loads(answer.read() or b'{"died": ""}')
        os.waitpid(child, 0)
    print(json.dumps(found))


main()
