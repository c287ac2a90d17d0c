# SPDX-License-Identifier: Apache-2.0
"""What a model does besides one forward: a backward, generation with a cache, far positions, and tables moved by their documented error."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from phasor.hf import _exact

from .samples import TOKENS, token_ids

FAR = 1_000_003
# docs/hf.md: a float32 angle is wrong by up to 1.2e-7 of the position, and its cosine and sine are rounded once more.
ANGLE = 1.2e-7
Model = torch.nn.Module


def gradients(call: Callable[[], Iterator[torch.Tensor]], model: Model) -> list[torch.Tensor]:
    """The gradients of a random linear function of the outputs by every parameter that has one."""
    torch.manual_seed(7)
    model.zero_grad(set_to_none=True)
    losses = [(t.float() * torch.randn(t.shape)).sum() for t in call() if t.requires_grad]
    if not losses:
        return []
    torch.stack(losses).sum().backward()
    made = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return made


def generated(model: Model) -> list[torch.Tensor]:
    """Tokens by greedy generation with a cache, and the logits they were chosen from."""
    options = {"do_sample": False, "pad_token_id": 0, "use_cache": True, "return_dict_in_generate": True, "output_logits": True}
    got = model.generate(token_ids(1, 4), max_new_tokens=3, min_new_tokens=3, **options)
    return [got.sequences.float(), *got.logits]


def embeddings(model: Model) -> list[Model]:
    """The modules that turn positions into tables."""
    return [m for m in model.modules() if _exact.is_rotary_embedding(m)]


def positions_of(args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """The second argument of such a module."""
    return kwargs["position_ids"] if "position_ids" in kwargs else args[1]


def allowed(positions: torch.Tensor) -> float:
    """The documented error of a cosine or sine at the farthest of these positions."""
    return ANGLE * (float(positions.abs().max()) + 1)


@contextlib.contextmanager
def watched(model: Model, change: bool) -> Iterator[list[tuple[float, Any]]]:
    """Collects (allowed error, tables) of every call of these modules; where `change`, moves tables by that error, up or down at random."""
    seen: list[tuple[float, Any]] = []

    def hook(module: Model, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
        pair = output if isinstance(output, tuple) else (output.real, output.imag)
        limit = allowed(positions_of(args, kwargs)) * max(1.0, *(float(t.abs().max()) for t in pair))
        seen.append((limit, pair))
        if not change:
            return None
        pair = tuple(t + limit * (2 * torch.randint(0, 2, t.shape) - 1) for t in pair)
        return pair if isinstance(output, tuple) else torch.complex(*pair)

    hooks = [m.register_forward_hook(hook, with_kwargs=True) for m in embeddings(model)]
    try:
        yield seen
    finally:
        for one in hooks:
            one.remove()


def table_error(own: list[tuple[float, Any]], exact: list[tuple[float, Any]]) -> float:
    """The largest difference of tables in units of what is documented."""
    return max((float((a - b).abs().max()) / limit for (limit, x), (_, y) in zip(own, exact) for a, b in zip(x, y)), default=0.0)


def far_inputs(batch: int = 1) -> dict[str, torch.Tensor]:
    """Tokens a million positions away."""
    return {"input_ids": token_ids(batch), "position_ids": torch.arange(FAR, FAR + TOKENS).expand(batch, -1)}


def exact_frequencies(module: Model) -> torch.Tensor | None:
    """base^(-2i/d) in float64 by PyTorch, where that is what the module has; None for scaled types and several layer types."""
    rope = getattr(getattr(module, "config", None), "rope_parameters", None) or {}
    if _exact.kinds_of(module) != [None] or not isinstance(rope.get("rope_theta"), (int, float)):
        return None
    pairs = len(module.inv_freq)
    frequencies = float(rope["rope_theta"]) ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    close = (frequencies - module.inv_freq.double()).abs() <= 2e-6 * frequencies
    return frequencies if bool(close.all()) else None


@contextlib.contextmanager
def in_float64(model: Model) -> Iterator[None]:
    """The unpatched model in float64, its own code for the tables included: .float() in it means .double()."""
    own = torch.Tensor.float
    frequencies = [(m, m.inv_freq, exact_frequencies(m)) for m in embeddings(model)]
    model.double()
    for module, _, wanted in frequencies:
        module.inv_freq = wanted
    torch.Tensor.float = lambda self, *args, **kwargs: self.double()
    try:
        yield
    finally:
        torch.Tensor.float = own
        model.float()
        for module, before, _ in frequencies:
            module.inv_freq = before
