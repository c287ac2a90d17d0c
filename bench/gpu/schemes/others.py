# SPDX-License-Identifier: Apache-2.0
"""Groups of the table whose contenders are not those of groups.py: rotation inside, mma.sync beside flash, DeBERTa's module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import phasor
from schemes import contenders as by
from schemes.groups import PLAIN_PEERS, Jobs, Scale, Target, least, shape
from schemes.problem import Problem, Size, Tensors, drawn, written_out
from schemes.schemes import PLAIN, rotated
from schemes.timed import Group, Line

# ---- Rotation ----


def rotated_before(problem: Problem, contents: tuple[Tensor, ...]) -> Tensor:
    """What a model does without it: rotate, then plain attention."""
    size, rope = problem.size, phasor.Rotary(problem.size.width)
    q, k, v = (x.transpose(1, 2) for x in contents[:3])
    return phasor.attention(*rope(q, k), v, causal=size.causal, scale=size.scale, deterministic=False).transpose(1, 2)


def rotary(scale: Scale, width: int, causal: bool) -> Group:
    size = scale.size(width, causal)
    contents = drawn(size, 4)
    plain, inside = (Problem(scheme, size, contents) for scheme in (PLAIN, rotated(width)))
    jobs: Jobs = {name: partial(by.plain_peer, name, plain) for name in by.BACKENDS} | {
        "plain": partial(by.ours, plain),
        "before": lambda: by.forward_job(inside, lambda: rotated_before(inside, contents), by.OURS),
        "inside": partial(by.ours, inside),
        "plain backward": partial(by.ours_backward, plain),
        "before backward": lambda: by.backward_job(inside, lambda qkv, tensors: rotated_before(inside, qkv), False, by.OUR_GRADIENTS),
        "inside backward": partial(by.ours_backward, inside),
    }
    lines = [
        Line("rotary inside", "inside", (Target("over rotating before", "inside", "before", 1.03), Target("over plain", "inside", "plain")), PLAIN_PEERS),
        Line("its gradients", "inside backward", (Target("over rotating before", "inside backward", "before backward"), Target("over plain", "inside backward", "plain backward"))),
    ]  # fmt: skip
    return Group(f"rotary {shape(size)}", jobs, lines, size.operations)


# ---- mma.sync, which runs on this GPU, too ----


def sinks(size: Size) -> dict[str, Tensor]:
    """Logits far below all scores: they change no bit that is looked at, and Hopper's own kernels do not take them."""
    return {"sinks": torch.full((size.heads,), -40.0, device=size.device)}


def flash(problem: Problem, contents: tuple[Tensor, ...], tensors: Tensors | None = None) -> Tensor:
    """PyTorch's flash attention; windows by its operator, since scaled_dot_product_attention has none."""
    size = problem.size
    if size.window is None:
        return by.sdpa("flash", problem)(contents, tensors)
    if size.device != "cuda":
        return written_out(PLAIN, contents[:3], {}, size)
    qkv = [x.transpose(1, 2) for x in contents[:3]]
    operator = torch.ops.aten._flash_attention_forward
    out = operator(*qkv, None, None, size.tokens, size.tokens, 0.0, size.causal, False, scale=size.scale, window_size_left=size.window, window_size_right=0)
    return out[0].transpose(1, 2)


def by_mma(job: Callable[[], by.Job], part: str) -> by.Job:
    """On a GPU the library says which kernels a call gets: `part` of its words are those of the forward, or of the gradients."""
    made = job()
    forward, _, backward = made.kernel.partition("gradients")
    if made.kernel.startswith("CUDA") and "mma.sync" not in (forward if part == "forward" else backward):
        raise RuntimeError(f"mma.sync does not take it: {made.kernel}")
    return made


def mma(scale: Scale, width: int, causal: bool, window: int | None = None) -> Group:
    """Forward, and backward up to 128 channels, beyond which there is none."""
    size = replace(scale.size(width, causal), window=window)
    problem = Problem(PLAIN, size, drawn(size, 6))
    plain = {"flash": lambda: by.forward_job(problem, lambda: flash(problem, problem.contents), by.THEIRS), "flex": partial(by.flex, problem)}
    jobs: Jobs = {**plain, "ours": lambda: by_mma(partial(by.ours, problem, **sinks(size)), "forward")}
    lines = [Line("forward by mma.sync", "ours", (least("of flash", "flash", "ours", 0.6),), {"flash": "flash", "FlexAttention": "flex"})]
    if width <= 128:
        jobs["flash backward"] = lambda: by.backward_job(problem, partial(flash, problem), False)
        jobs["flex backward"] = partial(by.flex_backward, problem)
        jobs["ours backward"] = lambda: by_mma(partial(by.ours_backward, problem, **sinks(size)), "backward")
        peers = {"flash": "flash backward", "FlexAttention": "flex backward"}
        lines.append(Line("backward by mma.sync", "ours backward", (least("of flash", "flash backward", "ours backward", 0.6),), peers))
    return Group(f"mma {shape(size)}" + (f" window {window}" if window else ""), jobs, lines, size.operations)


# ---- DeBERTa's own module ----


def deberta_modules(size: Size) -> tuple[Any, Any, tuple[Any, ...]]:
    """transformers' self-attention of DeBERTa-v3, float32, one with phasor's attention, and its other arguments."""
    try:
        import training
    except ImportError as why:
        raise by.NotHere(str(why)) from None
    torch.manual_seed(7)
    sizes = training.Size(size.heads * size.width, size.heads, layers=1, tokens=size.tokens, batch=size.batch, steps=0)
    models = [training.deberta(sizes).to(size.device).eval() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    training.deberta_ours(models[1])
    encoder = models[0].encoder
    x = torch.randn(size.batch, size.tokens, sizes.width, device=size.device)
    mask = encoder.get_attention_mask(torch.ones(size.batch, size.tokens, dtype=torch.bool, device=size.device))
    theirs, ours = (model.encoder.layer[0].attention.self for model in models)
    return theirs, ours, (x, mask, encoder.get_rel_pos(x), encoder.get_rel_embedding().detach())


def module_job(size: Size, which: int, learns: bool) -> by.Job:
    """One of both modules in bf16; learns: its forward and backward."""
    *modules, (x, mask, distances, rows) = deberta_modules(size)

    def call(module: Any, dtype: torch.dtype, batch: int) -> Tensor:
        return module(x[:batch].to(dtype), mask[:batch], relative_pos=distances, rel_embeddings=rows.to(dtype))[0]

    with torch.no_grad():
        wanted = call(modules[0], torch.float32, 1)
    module = modules[which].bfloat16()

    def run() -> Tensor:
        with torch.set_grad_enabled(learns):
            out = call(module, torch.bfloat16, size.batch)
            if learns:
                torch.autograd.grad(out.sum(), [p for p in module.parameters() if p.requires_grad], allow_unused=True)
        return out

    return by.Job(run, lambda: {"out": run()[:1].detach()}, lambda: {"out": wanted}, by.THEIRS)


def encoder(scale: Scale) -> Group:
    size = Size(8 * scale.batch, 12 if scale.heads > 12 else scale.heads, min(512, scale.tokens), 64, False, scale.device)
    jobs: Jobs = {f"{name}{words}": partial(module_job, size, which, learns) for which, name in enumerate(("theirs", "ours")) for learns, words in ((False, ""), (True, " learning"))}
    lines = [
        Line("DeBERTa's self-attention module", "ours", (least("as fast as transformers' module", "theirs", "ours", 2.5),)),
        Line("forward and backward", "ours learning", (least("as fast as transformers' module", "theirs learning", "ours learning", 2.5),)),
    ]
    return Group(f"encoder B{size.batch} H{size.heads} {shape(size)}", jobs, lines)

