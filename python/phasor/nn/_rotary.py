# SPDX-License-Identifier: Apache-2.0
"""Rotary encoding as modules: with the frequencies of a spec, and with frequencies that are learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from phasor import _rotary, _torch
from phasor._rotary import direction_number
from phasor._spec import RotarySpec
from phasor._torch.learned import given_scaling


class Rotary(torch.nn.Module):
    """Rotary encoding of queries and keys. Keywords are those of phasor.Rotary; nothing is learned, and the state dict is empty.

    The spec travels as a buffer of integers that is not saved, so that compiled and exported programs hold it; `.to(bfloat16)` and
    `.to_empty()` leave it as it is.

    >>> import torch, phasor
    >>> rope = phasor.nn.Rotary(8, base=500000.0)
    >>> q, k = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 1, 8)
    >>> q, k = rope(q, k, torch.arange(5))
    >>> rope
    Rotary(head_dim=8, base=500000.0)
    >>> len(rope.state_dict())
    0
    """

    words: Tensor

    def __init__(self, head_dim: int, **fields: Any) -> None:
        super().__init__()
        self._take(_rotary.Rotary(head_dim, **fields))

    def _take(self, rope: _rotary.Rotary) -> None:
        self.rope = rope
        self.words = _torch.words_of(rope).clone()  # no buffer: nobody is to move it to a GPU, or send it to other processes

    @classmethod
    def from_rotary(cls, rope: _rotary.Rotary) -> Rotary:
        """The module of a phasor.Rotary."""
        module = cls.__new__(cls)
        torch.nn.Module.__init__(module)
        module._take(rope)
        return module

    @classmethod
    def from_spec(cls, spec: RotarySpec) -> Rotary:
        """The module of a spec."""
        return cls.from_rotary(_rotary.Rotary.from_spec(spec))

    @classmethod
    def from_config(cls, config: Any, layer: int = 0, *, tower: str | None = None, length: int = 0) -> Rotary:
        """The module of a layer by a config: see phasor.Rotary.from_config."""
        return cls.from_rotary(_rotary.Rotary.from_config(config, layer, tower=tower, length=length))

    def forward(
        self, q: Tensor, k: Tensor | None = None, positions: Any = None, *, inverse: bool = False, direction: str | None = None
    ) -> Any:
        """q, or q and k, rotated into new tensors."""
        return _torch.rotary(self.rope, q, k, positions, direction_number(inverse, direction), self.words)

    def apply_(
        self, q: Tensor, k: Tensor | None = None, positions: Any = None, *, inverse: bool = False, direction: str | None = None
    ) -> Any:
        """q, or q and k, rotated in place and given back."""
        return _torch.rotary_(self.rope, q, k, positions, direction_number(inverse, direction), self.words)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        super()._apply(fn, recurse)
        self.words = _kept_words(self.rope, fn(torch.empty(0)))
        return self

    def extra_repr(self) -> str:
        return repr(self.rope).removeprefix("Rotary(").removesuffix(")")


def _kept_words(rope: _rotary.Rotary, moved: Tensor) -> Tensor:
    """The words of a module that was moved as `moved` was. They stay on the CPU, which reads them for every device, but follow to the meta
    device, where nothing is read."""
    return _torch.words_of(rope).to("meta" if moved.is_meta else "cpu", copy=True)


class LearnedRotary(torch.nn.Module):
    """Rotary encoding whose frequencies are a parameter: (P), or (axes, heads, P), where pairs of heads turn along directions of their own.

    Without `frequencies` they begin as those of phasor.Rotary(head_dim, **fields). Gradients are by tensors, frequencies and float
    positions. The parameter stays float32 or float64: a cast of the model to 16 bits passes it by.

    >>> import torch, phasor
    >>> rope = phasor.nn.LearnedRotary(8, frequencies=torch.rand(2, 4, 4))    # RoPE-Mixed on a grid: 2 axes, 4 heads
    >>> rows, columns = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
    >>> q = rope(torch.randn(1, 9, 4, 8), positions=torch.stack((rows, columns)).reshape(2, 1, 9))
    >>> q.sum().backward()
    >>> rope.frequencies.grad.shape
    torch.Size([2, 4, 4])
    """

    words: Tensor

    def __init__(self, head_dim: int, *, frequencies: Tensor | None = None, **fields: Any) -> None:
        super().__init__()
        rope = _rotary.Rotary(head_dim, **fields)
        if frequencies is None:
            frequencies = torch.tensor(rope.frequencies, dtype=torch.float32)
        elif "scaling" in fields:
            raise ValueError("LearnedRotary: frequencies and scaling are both given, wanted one of them")
        if frequencies.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"LearnedRotary: frequencies are {frequencies.dtype}, wanted float32 or float64")
        if frequencies.ndim not in (1, 3):
            raise ValueError(f"LearnedRotary: frequencies are {tuple(frequencies.shape)}, wanted (P) or (axes, heads, P)")
        # Not the values that a tensor made on the meta device does not have; every call takes those of the parameter.
        own = rope.frequencies if frequencies.device.type == "meta" and frequencies.shape == rope.frequencies.shape else frequencies
        self.rope = _learned_from(rope, own)
        self.frequencies = frequencies if isinstance(frequencies, torch.nn.Parameter) else torch.nn.Parameter(frequencies.detach().clone())
        self.words = _torch.words_of(self.rope).clone()  # no buffer, as in Rotary

    def forward(
        self, q: Tensor, k: Tensor | None = None, positions: Any = None, *, inverse: bool = False, direction: str | None = None
    ) -> Any:
        """q, or q and k, rotated into new tensors."""
        turn = direction_number(inverse, direction)
        q_out = _torch.learned_rotary(q, self.words, self.frequencies, positions, turn)
        return q_out if k is None else (q_out, _torch.learned_rotary(k, self.words, self.frequencies, positions, turn))

    def rotary(self) -> _rotary.Rotary:
        """The phasor.Rotary of the frequencies as they are now: for inference."""
        return _learned_from(self.rope, self.frequencies)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LearnedRotary:
        def moved(x: Tensor) -> Tensor:
            result = fn(x)
            return x.to(result.device) if x.is_floating_point() and result.element_size() < 4 else result

        super()._apply(moved, recurse)
        self.words = _kept_words(self.rope, fn(torch.empty(0)))
        return self

    def extra_repr(self) -> str:
        spec = self.rope.spec
        return f"head_dim={spec.head_dim}, frequencies={tuple(self.frequencies.shape)}, pairing={spec.pairing!r}"


def _learned_from(rope: _rotary.Rotary, frequencies: Any) -> _rotary.Rotary:
    """`rope` with these frequencies, and its amplitude."""
    if rope.softmax_scale != 1:
        raise NotImplementedError(f"LearnedRotary: the scaling has a softmax scale of {rope.softmax_scale}, wanted one without")
    return _rotary.Rotary.from_spec(replace(rope.spec, scaling=given_scaling(frequencies, rope.amplitude)))
