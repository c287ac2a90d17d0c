# SPDX-License-Identifier: Apache-2.0
"""SGLang's rotary layers by phasor. SGLang calls `register` in every process, by the entry point `sglang.srt.plugins`.

Run with SGLang 0.5.23 on the CPU; its forwards for CUDA are tried on stand-ins alone. PHASOR_SGLANG_PROFILE: "sglang", the default, takes the layer's own tables; "exact" the true angles at any position.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from phasor.engines import Turner, Unlike, profile_named, turner_of

__all__ = ["HOOKS", "VERSIONS", "calls", "register"]

VARIABLE = "PHASOR_SGLANG_PROFILE"
VERSIONS = ((0, 5, 20), (0, 6, 0))  # from the first on, below the second
PACKAGE = "sglang.srt.layers.rotary_embedding"
# Methods to go around: the module in the package, the class, the method. Classes below RotaryEmbedding that have no method of their own
# (linear, dynamic, YaRN, Llama 3, Gemma 4, alpha) come through its.
HOOKS = (
    *(("base", "RotaryEmbedding", m) for m in ("forward_native", "forward_cpu", "forward_cuda")),
    *(("mrope", "MRotaryEmbedding", m) for m in ("forward_native", "forward_cpu", "forward_cuda")),
    *(("rope_variant", "DeepseekScalingRotaryEmbedding", m) for m in ("forward_native", "forward_cpu")),
)

logger = logging.getLogger("sglang.phasor")
calls: Counter[str] = Counter()


def register() -> None:
    """Goes around the forwards of SGLang's rotary layers. An engine that is not known stays as it is, with a warning."""
    import sglang

    profile = profile_named(VARIABLE, os.environ.get(VARIABLE, "") or "sglang", "sglang")
    numbers = tuple(int(n) for n in str(sglang.__version__).split(".")[:3] if n.isdigit())
    if len(numbers) < 3 or not VERSIONS[0] <= numbers < VERSIONS[1]:
        known = " to ".join(".".join(map(str, v)) for v in VERSIONS)
        logger.warning("phasor-sglang: SGLang is %s, wanted %s (exclusive); its own rotary layers stay", sglang.__version__, known)
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for module, cls, method in HOOKS:
        HookRegistry.register(f"{PACKAGE}.{module}.{cls}.{method}", around(method, profile), HookType.AROUND)
    logger.info("phasor-sglang: %d forwards by phasor, profile %s", len(HOOKS), "sglang" if profile == "engine" else profile)


def around(method: str, profile: str) -> Callable[..., Any]:
    """The hook of a method: phasor's rotation, or SGLang's own where the call or the layer is not what we know."""

    def hook(original: Callable[..., Any], layer: Any, positions: Any, query: Any, key: Any, *rest: Any, **named: Any) -> Any:
        turner = turner_for(layer, profile)
        if turner is None or any(x is not None for x in (*rest, *named.values())):  # offsets, or a cache to be written at once
            return original(layer, positions, query, key, *rest, **named)
        if not torch.compiler.is_compiling():
            calls[type(layer).__name__] += 1
        kernel = method == "forward_cuda"
        table = table_for(layer, query, kernel) if turner.exact is None else None
        at = positions if positions.ndim == 2 and turner.axis_of_channel is not None else positions.flatten()
        return turner.turn(table, at, query, key, kernel, not kernel and not torch.compiler.is_compiling())

    return hook


def table_for(layer: Any, query: torch.Tensor, kernel: bool) -> torch.Tensor:
    """The table in the dtype that SGLang's own forward reads it in: float32 in FlashInfer's kernel and with DeepSeek, else the queries'."""
    table = layer.cos_sin_cache.to(query.device)
    wide = type(layer).__name__.startswith("Deepseek") or (kernel and not getattr(layer, "use_fallback_kernel", True))
    return table if wide else table.to(query.dtype)


def turner_for(layer: Any, profile: str) -> Turner | None:
    """The rotation of a layer, made at its first call and kept with it; None where it is left to SGLang."""
    kept = layer.__dict__
    if "phasor_turner" not in kept:
        kept["phasor_turner"] = None
        try:
            if getattr(layer, "mrope_interleaved_glm", False):
                raise Unlike("GLM's order of axes")
            kept["phasor_turner"] = turner_of(layer, profile)
        except Unlike as why:
            logger.warning("phasor-sglang: %s is left to SGLang: %s", type(layer).__name__, why)
    return kept["phasor_turner"]
