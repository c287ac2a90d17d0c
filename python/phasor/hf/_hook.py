# SPDX-License-Identifier: Apache-2.0
"""transformers' own hook: with the package `kernels`, a kernel mapping may replace rotations. phasor as such a mapping."""

from __future__ import annotations

import inspect
import types
from typing import Any

from torch import nn

from .._torch.private import nobody_watches
from ._plans import compiling
from ._recognise import Rotation, recognise
from ._replace import replacement

LAYER = "rotary_pos_emb"  # as transformers calls it
_OURS = "_phasor_rotation"  # in the module's __dict__: the function that serves it


class PhasorRotation(nn.Module):
    """What takes the place of a rotation: its own function where it is not recognised, or answers a call otherwise."""

    can_torch_compile = True
    has_backward = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        ours = self.__dict__.get(_OURS)
        if ours is None:
            if compiling() or not nobody_watches():  # nothing can be tried out now: a later call will
                return type(self).forward(self, *args, **kwargs)
            ours = _served(self)
        return ours(*args, **kwargs)


# What `kernels` compares with the function that is replaced; what is called is whatever that function takes.
PhasorRotation.forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "q", "k", "cos", "sin")]
    + [inspect.Parameter("unsqueeze_dim", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=1)]
)


def _served(module: nn.Module) -> Any:
    """The function for one rotation, found at its first call: `self` is the module that transformers made of the model's function."""
    own = types.MethodType(type(module).forward, module)
    found = recognise(own)
    module.__dict__[_OURS] = replacement(own, found, name=LAYER) if isinstance(found, Rotation) else own
    return module.__dict__[_OURS]


class PhasorRepository:
    """The entry of a kernel mapping: where `kernels` would load a layer from the hub, it is given ours."""

    def load(self) -> type[nn.Module]:
        """The layer."""
        return PhasorRotation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PhasorRepository)

    def __hash__(self) -> int:
        return hash(PhasorRepository)

    def __str__(self) -> str:
        return "phasor"


def kernel_mapping() -> dict[str, Any]:
    """phasor's rotation on the CPU as a mapping for kernels.register_kernel_mapping or kernels.use_kernel_mapping.

    The hook belongs to a model's class: kernels.kernelize(model) makes every model of that architecture in the process rotate with phasor.
    `patch` changes one model, and finds rotations that transformers has not marked.
    """
    try:
        from kernels import Mode  # type: ignore[import-not-found]  # no requirement
    except ImportError:
        raise ImportError("kernel_mapping: needs the package kernels, wanted: pip install kernels (phasor.hf.patch needs none)") from None
    return {LAYER: {"cpu": {Mode.FALLBACK: PhasorRepository()}}}
