# SPDX-License-Identifier: Apache-2.0
"""The exact frequencies behind a module's inv_freq, and the operator by which compiled graphs reach them."""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import Rotary, RotarySpec
from ._tables import buffer_of, given_rotary, numbers_of

# A config's frequencies are taken where the module's float32 ones are those, rounded: PyTorch's own pow and division cost a few ulps.
SAME = 2e-6
NARROW = (torch.bfloat16, torch.float16)  # what model.half() makes of inv_freq


@dataclasses.dataclass(frozen=True)
class Source:
    """A module's frequencies as they are now, and what is needed to find the exact ones."""

    kind: str | None  # layer type
    frequencies: Tensor  # float32
    dtype: torch.dtype  # in which the module holds them
    amplitude: float
    config: Any
    lengths: tuple[int, ...]  # at which the config may have been read

    @staticmethod
    def of(module: torch.nn.Module, kind: str | None) -> Source:
        """What the module says now."""
        frequencies, amplitude = numbers_of(module, kind)
        return Source(kind, frequencies, buffer_of(module, kind).dtype, amplitude, getattr(module, "config", None), lengths_of(module))

    def rotary(self) -> tuple[Rotary, str]:
        """Exact pairs by the config where they are the module's own, rounded; else the module's frequencies taken as they are."""
        own = self.frequencies.double()
        best, least = None, 1.0
        for length in self.lengths if self.config is not None else ():
            rotary = _of_config(self.config, self.kind, length, len(own))
            if rotary is None or abs(rotary.amplitude - self.amplitude) > SAME or rotary.frequencies.shape != own.shape:
                continue
            error = self._error(torch.from_numpy(rotary.frequencies), own)
            if error <= least and (best is None or error < least):
                best, least = rotary, error
        if best is not None:
            return best, "the config"
        return given_rotary(own.tolist(), self.amplitude), "inv_freq"

    def _error(self, exact: Tensor, own: Tensor) -> float:
        """The largest difference in units of what is allowed: the roundings of float32, and that to the dtype they are held in."""
        allowed = SAME * own.abs()
        if self.dtype in NARROW:
            info = torch.finfo(self.dtype)  # half an ulp, or half a step between the subnormal numbers
            allowed = allowed + info.eps / 2 * exact.abs() + info.smallest_normal * info.eps / 2
        difference = (exact - own).abs()
        return float(torch.where(difference == 0, 0.0, difference / allowed).max())


def lengths_of(module: torch.nn.Module) -> tuple[int, ...]:
    """Lengths that decide which frequencies a config means: none, the longest seen, the first of the long ones."""
    return tuple(sorted({0, int(getattr(module, "max_seq_len_cached", 0)), int(getattr(module, "original_max_seq_len", 0)) + 1}))


def _of_config(config: Any, kind: str | None, length: int, pairs: int) -> Rotary | None:
    """What phasor reads from the config, one axis of it; None where it cannot."""
    layers = list(getattr(config, "layer_types", None) or [])
    layer = layers.index(kind) if kind in layers else 0
    try:
        spec = Rotary.from_config(config, layer, length=length).spec
        return Rotary.from_spec(RotarySpec(2 * pairs, base=spec.base, scaling=spec.scaling, unit=spec.unit))
    except (ValueError, TypeError, NotImplementedError, LookupError):
        return None


# ---- In a compiled graph there are no numbers to look at: an operator looks when the graph runs. ----

_holders: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # handle: an ExactTables
_handles = itertools.count()


def operator_handle(holder: Any) -> int:
    """A number by which the operator finds the holder, in this process."""
    handle = next(_handles)
    _holders[handle] = holder
    return handle


@torch.library.custom_op("phasor_hf::cos_sin", mutates_args=())
def _cos_sin(
    positions: Tensor, inv_freq: Tensor, handle: int, kind: str, amplitude: float, lengths: list[int], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    holder = _holders[handle]
    numbers = inv_freq.detach().float().cpu()
    source = Source(kind or None, numbers, inv_freq.dtype, amplitude, holder.config, tuple(lengths))
    cos, sin = holder.rotary(source).cos_sin(positions.cpu(), dtype=dtype)
    return cos.to(positions.device), sin.to(positions.device)


@_cos_sin.register_fake
def _(positions: Tensor, inv_freq: Tensor, handle: int, kind: str, amplitude: float, lengths: list[int], dtype: torch.dtype) -> Any:
    return tuple(positions.new_empty((*positions.shape, inv_freq.shape[0]), dtype=dtype) for _ in range(2))


def by_operator(handle: int, module: torch.nn.Module, kind: str | None) -> Callable:
    """Cosines and sines of (axes, rows) positions by the operator."""
    prefix = "" if kind is None else f"{kind}_"
    amplitude = float(getattr(module, f"{prefix}attention_scaling", 1.0))

    def cos_sin(positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return _cos_sin(positions, buffer_of(module, kind), handle, kind or "", amplitude, list(lengths_of(module)), dtype)

    return cos_sin
