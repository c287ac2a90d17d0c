# SPDX-License-Identifier: Apache-2.0
"""Who solves a problem: phasor, PyTorch's cuDNN and flash attention (plain alone), FlexAttention compiled, and PyTorch's attention with a dense bias.

A contender is a Job: `run` is what is timed, `results` gives what one head of it gave, to be held against float32. On the CPU (a rehearsal of this
code, which shows nothing about speed) PyTorch's attention has one backend and FlexAttention is not compiled.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import phasor
from schemes.problem import CONTENTS, Problem, Scheme, Size, Tensors, added, hidden

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
# The greatest relative errors that are right. Of theirs, since a dense bias, its gradient and sums of that are rounded to bf16.
OURS, THEIRS, OUR_GRADIENTS, THEIR_GRADIENTS = 6e-3, 2e-2, 2e-2, 5e-2


class NotHere(Exception):
    """A contender that this machine or its libraries do not have."""


@dataclass
class Job:
    run: Callable[[], Any]
    results: Callable[[], Tensors]
    wanted: Callable[[], Tensors]
    most: float  # relative error
    kernel: str = ""  # ours: which one takes the call
    calls: int = 1  # that `run` makes


def first_head(x: Tensor) -> Tensor:
    return x[:, :1]


def forward_job(problem: Problem, call: Callable[[], Tensor], most: float) -> Job:
    """call: (batch, heads, tokens, width)."""

    def run() -> Tensor:
        with torch.no_grad():
            return call()

    return Job(run, lambda: {"out": first_head(run())}, lambda: problem.forward, most)


class Leaves:
    """q, k, v and what a scheme learns, as inputs of a call that has been made, and their gradients by it."""

    def __init__(self, problem: Problem, learned: bool) -> None:
        *qkv, self.gradient = problem.contents
        names = [name for name in problem.tensors if learned and name not in problem.scheme.fixed]
        self.contents = tuple(x.detach().requires_grad_() for x in qkv)
        self.tensors = problem.tensors | {name: problem.tensors[name].detach().requires_grad_() for name in names}
        self.wanted = [*self.contents, *(self.tensors[name] for name in names)]
        self.names, self.of_all_heads = [*CONTENTS, *names], problem.scheme.of_all_heads

    def gradients(self, out: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, self.wanted, self.gradient, retain_graph=True)

    def first_heads(self, gradients: tuple[Tensor, ...]) -> Tensors:
        """Of contents the axis of heads is the second one."""
        named = dict(zip(self.names, gradients, strict=True))
        return {name: x[:, :1] if name in CONTENTS else x[:1] for name, x in named.items() if name not in self.of_all_heads}


def backward_job(problem: Problem, call: Callable[[tuple[Tensor, ...], Tensors], Tensor], learned: bool, most: float = THEIR_GRADIENTS) -> Job:
    """call: outputs by q, k, v and the scheme's tensors. It runs once; what is timed are the gradients."""
    leaves = Leaves(problem, learned)
    out = call(leaves.contents, leaves.tensors)
    run = lambda: leaves.gradients(out)  # noqa: E731
    return Job(run, lambda: leaves.first_heads(run()), lambda: problem.backward, most)


# ---- phasor ----


def options_of(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    size = problem.size
    window = {} if size.window is None else {"window": (size.window, None)}
    return {"causal": size.causal, "scale": size.scale, **problem.scheme.options, **window, **options}


def ours_of(problem: Problem, contents: tuple[Tensor, ...], tensors: Tensors, options: dict[str, Any]) -> Callable[[], Tensor]:
    qkv = tuple(x.transpose(1, 2) for x in contents[:3])
    given = options_of(problem, options)
    return lambda: phasor.attention(*qkv, problem.scheme.ours(tensors), **given).transpose(1, 2)


def words_of(problem: Problem, options: dict[str, Any]) -> str:
    """Which kernel takes a call and by which gradients are made, in the library's words."""
    *qkv, _ = (x.transpose(1, 2) for x in problem.contents)
    return str(phasor.explain_attention(*qkv, problem.scheme.ours(problem.tensors), **options_of(problem, options))["words"])


def ours(problem: Problem, **options: Any) -> Job:
    job = forward_job(problem, ours_of(problem, problem.contents, problem.tensors, options), OURS)
    job.kernel = words_of(problem, options)
    return job


def ours_backward(problem: Problem, learned: bool = True, deterministic: bool = False, **options: Any) -> Job:
    given = {**options, "deterministic": deterministic}
    job = backward_job(problem, lambda contents, tensors: ours_of(problem, contents, tensors, given)(), learned, OUR_GRADIENTS)
    job.kernel = words_of(problem, options)
    return job


# ---- PyTorch's own attention ----


def backend_of(name: str, size: Size) -> Any:
    return sdpa_kernel(BACKENDS[name]) if size.device == "cuda" else contextlib.nullcontext()


def sdpa(name: str, problem: Problem) -> Callable[..., Tensor]:
    size = problem.size
    grouped = {"enable_gqa": True} if size.key_heads not in (None, size.heads) else {}

    def call(contents: tuple[Tensor, ...], tensors: Tensors | None = None) -> Tensor:
        del tensors
        with backend_of(name, size):
            return scaled_dot_product_attention(*contents[:3], is_causal=size.causal, scale=size.scale, **grouped)

    return call


def plain_peer(name: str, problem: Problem) -> Job:
    return forward_job(problem, lambda: sdpa(name, problem)(problem.contents), THEIRS)


def plain_peer_backward(name: str, problem: Problem) -> Job:
    return backward_job(problem, sdpa(name, problem), False)


def dense_of(scheme: Scheme, size: Size, contents: tuple[Tensor, ...], tensors: Tensors) -> Tensor:
    """What a scheme adds to scores, written out for all of them in the dtype of q, and -infinity where a key is not seen."""
    q, k = contents[:2]
    more = added(scheme, q, k, tensors, size)
    assert more is not None, "plain attention has no dense bias"
    more = more.to(q.dtype)
    return (more.masked_fill(hidden(size), -math.inf) if size.causal or size.window is not None else more).contiguous()


def with_bias(problem: Problem, contents: tuple[Tensor, ...], bias: Tensor) -> Tensor:
    return scaled_dot_product_attention(*contents[:3], attn_mask=bias, scale=problem.size.scale)


def dense(problem: Problem) -> Job:
    """A function of the distance is written out before, once, as a model does that shares it among layers. Products with q or k are of each call."""
    if problem.scheme.to_outputs is not None:
        raise NotHere("PyTorch's attention adds nothing to values")
    make = lambda: dense_of(problem.scheme, problem.size, problem.contents, problem.tensors)  # noqa: E731
    if problem.scheme.diagonal is None:
        return forward_job(problem, lambda: with_bias(problem, problem.contents, make()), THEIRS)
    bias = make()
    return forward_job(problem, lambda: with_bias(problem, problem.contents, bias), THEIRS)


def dense_backward(problem: Problem, learned: bool = True) -> Job:
    if problem.scheme.to_outputs is not None:
        raise NotHere("PyTorch's attention adds nothing to values")

    def call(contents: tuple[Tensor, ...], tensors: Tensors) -> Tensor:
        return with_bias(problem, contents, dense_of(problem.scheme, problem.size, contents, tensors))

    return backward_job(problem, call, learned)


# ---- FlexAttention ----


@cache
def flex_of(device: str) -> Callable[..., Tensor]:
    """Compiled for fixed shapes; on the CPU as it is. Its backward keeps its buffers, since gradients are asked for again and again."""
    from torch._functorch import config
    from torch.nn.attention.flex_attention import flex_attention

    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):  # every score_mod is one more
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 1024)
    return torch.compile(flex_attention, dynamic=False) if device == "cuda" else flex_attention


@cache
def block_mask(size: Size) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        near = q >= k if size.causal else q >= 0
        return near if size.window is None else near & (q - k <= size.window)

    if not size.causal and size.window is None:
        return None
    return create_block_mask(seen, None, None, size.tokens, size.tokens, device=size.device)


def flex_call(problem: Problem, contents: tuple[Tensor, ...], tensors: Tensors) -> Callable[[], Tensor]:
    scheme, size = problem.scheme, problem.size
    if scheme.added is not None or scheme.to_outputs is not None:
        raise NotHere("a score_mod does not see q and k")
    options: dict[str, Any] = {"scale": size.scale, "block_mask": block_mask(size)}
    if size.key_heads not in (None, size.heads):
        options["enable_gqa"] = True
    if scheme.diagonal is not None:
        diagonal, last = scheme.diagonal(tensors, size).contiguous(), size.tokens - 1

        def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return score + diagonal[h, k - q + last]

        options["score_mod"] = score_mod
    flex = flex_of(size.device)
    return lambda: flex(*contents[:3], **options)


def flex(problem: Problem) -> Job:
    return forward_job(problem, flex_call(problem, problem.contents, problem.tensors), THEIRS)


def flex_backward(problem: Problem, learned: bool = True) -> Job:
    if problem.size.device != "cuda":
        raise NotHere("FlexAttention has no gradients on the CPU")
    return backward_job(problem, lambda contents, tensors: flex_call(problem, contents, tensors)(), learned)
