# SPDX-License-Identifier: Apache-2.0
"""Sinusoidal encoding, added to a token: its specs, phasor.Sinusoidal, and the functions for one call."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from phasor import _core
from phasor._arrays import Array, Positions, is_torch, positions_argument, returned, torch_backend, torch_backend_if_usable
from phasor._numbers import empty, freeze, new_like, one_device, past_torch, reals, torch_dtype, ungraded, written

__all__ = [
    "BandLadder",
    "GeometricLadder",
    "GivenLadder",
    "LogSpacedLadder",
    "ShiftOperator",
    "Sinusoidal",
    "SinusoidalSpec",
    "add_sinusoidal_",
    "sinusoidal",
]


@dataclass(frozen=True)
class GeometricLadder:
    """base^(-i / (P - shift)). shift 0: the paper, RoFormer, MAE, DETR; 1: tensor2tensor, fairseq, Whisper."""

    base: float = 10000.0
    shift: float = 0.0


@dataclass(frozen=True)
class LogSpacedLadder:
    """fastest * (slowest / fastest)^(i / (P - 1)): MLX's."""

    fastest: float = 1.0
    slowest: float = 1e-4


@dataclass(frozen=True)
class BandLadder:
    """Fourier features of coordinates in [-1, 1]: pi times P numbers from 1 to highest / 2, evenly spaced or in equal ratios."""

    highest: float = 224.0
    spacing: Literal["even", "ratio"] = "even"


@dataclass(frozen=True)
class GivenLadder:
    """frequencies[i], any sign; of several axes one after the other."""

    frequencies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "frequencies")


SinusoidLadder = GeometricLadder | LogSpacedLadder | BandLadder | GivenLadder


@dataclass(frozen=True)
class SinusoidalSpec:
    """What a sinusoidal encoding is.

    >>> SinusoidalSpec(width=512).order
    'interleaved'
    """

    width: int
    ladder: SinusoidLadder = field(default_factory=GeometricLadder)
    order: Literal["interleaved", "sin_cos", "cos_sin"] = "interleaved"
    axis_widths: tuple[int, ...] = ()  # channels of each axis, one axis after the other, each with its own ladder; empty: one axis
    odd: Literal["zero", "unpaired"] = "zero"  # what the last channel of an odd width is
    unit: Literal["radians", "turns"] = "radians"
    position_scale: float = 1.0
    amplitude: float = 1.0
    zero_position: int | None = None  # whose encoding is 0 (fairseq's padding_idx)

    def __post_init__(self) -> None:
        freeze(self, "axis_widths", kind=int)


class ShiftOperator:
    """The linear map that takes encodings some distance further on: two channels of each pair turned, the others kept.

    >>> import numpy as np, phasor
    >>> encoding = phasor.Sinusoidal(8)
    >>> rows = encoding(np.arange(6), dtype="float64")
    >>> bool(np.allclose(encoding.shift(2)(rows[3]), rows[5], atol=1e-15))
    True
    """

    def __init__(self, core: _core.ShiftOperator) -> None:
        self._core = core

    def __call__(self, encoding: Any) -> np.ndarray:
        """The encoding `distance` further on, float64."""
        return self._core.apply(reals(encoding, "encoding"))

    @property
    def matrix(self) -> np.ndarray:
        """The map as a dense (width, width) matrix."""
        return self._core.matrix()

    @property
    def pairs(self) -> list[tuple[int, int, float, float]]:
        """(sin channel, cos channel, cos, sin) of each pair, of distance times frequency."""
        return self._core.pairs


def _token_shape(positions: Any, where: str) -> tuple[int, ...]:
    if positions is None or isinstance(positions, int):
        raise TypeError(f"{where}: positions are {positions!r}, wanted an array: numpy.arange(n) for the first n")
    shape = tuple(positions.shape)
    return shape[1:] if len(shape) == 3 else shape


def _host_number(x: Array, amplitude: float) -> Array:
    """A number as the operators take it: beside x, but of a GPU on the host, from where it is read."""
    return x.new_tensor(amplitude, dtype=torch_dtype("float64"), device="cpu" if x.is_cuda else x.device)


def _number(amplitude: Any) -> float | None:
    return None if amplitude is None else float(amplitude)


class Sinusoidal:
    """A sinusoidal encoding, ready to write or add. Keywords are the fields of SinusoidalSpec; `base` is that of a GeometricLadder.

    Tokens are (B, T, D) or (T, D), of float32, float64, float16 or bfloat16. Positions are int32, int64 or float64 arrays (T), (B, T) or
    (axes, B, T), an int (the first of consecutive ones), or None (from 0 on).

    >>> import numpy as np, phasor
    >>> encoding = phasor.Sinusoidal(4)
    >>> encoding(np.array([1_000_000])).round(6).tolist()
    [[-0.3499940037727356, 0.9367520213127136, -0.30561399459838867, -0.9521549940109253]]
    >>> x = np.ones((3, 4), np.float32)
    >>> bool((encoding.add(x) == 1 + encoding(np.arange(3))).all())
    True
    """

    __slots__ = ("_core", "_spec", "_text")

    def __init__(self, width: int, *, base: float | None = None, ladder: SinusoidLadder | None = None, **spec: Any) -> None:
        if base is not None and ladder is not None:
            raise ValueError("Sinusoidal: base and ladder are both given, wanted one of them")
        if ladder is None:
            ladder = GeometricLadder() if base is None else GeometricLadder(base=base)
        self._take(SinusoidalSpec(width, ladder, **spec))

    def _take(self, spec: SinusoidalSpec) -> None:
        self._core = _core.Sinusoidal(spec)
        self._spec = spec
        # The spec as PyTorch's operators carry it: made here where PyTorch is in use, because torch.compile cannot trace the making.
        backend = torch_backend_if_usable()
        self._text = "" if backend is None else backend.text_of(spec)

    @classmethod
    def from_spec(cls, spec: SinusoidalSpec) -> Sinusoidal:
        """The encoding of a spec.

        >>> Sinusoidal.from_spec(SinusoidalSpec(width=6)).frequencies.size
        3
        """
        made = cls.__new__(cls)
        made._take(spec)
        return made

    def __call__(self, positions: Positions, dtype: Any = None, *, out: Array | None = None, amplitude: float | None = None) -> Array:
        """The encoding of every token, (..., D) for positions (...): the nearest values, of `dtype` (float32), or written to `out`.

        >>> Sinusoidal(4)(np.arange(3)).shape
        (3, 4)
        """
        at = positions_argument(positions)
        if is_torch(at) and out is None and amplitude is None:
            torch_backend().seen(at)
            return self._torch_operators().sinusoidal(at, self._text, torch_dtype(dtype))
        ungraded("Sinusoidal", at, amplitude)
        one_device("Sinusoidal", positions=at, out=out)
        given = out is not None
        if out is None:
            out = empty((*_token_shape(at, "Sinusoidal"), self._spec.width), dtype, at)
        elif is_torch(out):
            torch_backend().output("Sinusoidal", out)
        self._core.fill(out, at, _number(amplitude))
        return written(out) if given else returned(at, out)

    def _torch_operators(self) -> Any:
        import torch

        if not self._text:
            self._text = torch_backend().text_of(self._spec)
        return torch.ops.phasor

    def add(self, x: Array, positions: Positions = None, *, amplitude: float | None = None) -> Array:
        """x + encoding in one pass and with one rounding, as a new array.

        >>> Sinusoidal(2).add(np.zeros((2, 2), np.float32)).round(4).tolist()
        [[0.0, 1.0], [0.8414999842643738, 0.5403000116348267]]
        """
        if is_torch(x):
            at, first = torch_backend().positions_and_first(positions, x)
            # A tensor may be one that learns.
            factor = amplitude if amplitude is None or is_torch(amplitude) else _host_number(x, amplitude)
            return self._torch_operators().add_sinusoidal(x, self._text, at, first, factor)
        ungraded("Sinusoidal.add", positions, amplitude)
        out = new_like(x)
        self._core.add(x, positions_argument(positions), out, _number(amplitude))
        return returned(x, out)

    def add_(self, x: Array, positions: Positions = None, *, amplitude: float | None = None) -> Array:
        """x + encoding in place; gives x back.

        >>> Sinusoidal(2).add_(np.zeros((1, 2), np.float32), 7).round(4).tolist()
        [[0.6570000052452087, 0.7538999915122986]]
        """
        if is_torch(x) and (is_torch(amplitude) or not past_torch(x)):
            return x.copy_(self.add(x, positions, amplitude=amplitude))
        if is_torch(x):
            self._torch_operators()  # a compiler that looks at a later call could not make the text
        ungraded("Sinusoidal.add_", positions, amplitude)
        one_device("Sinusoidal.add_", x=x, positions=positions)
        self._core.add(x, positions_argument(positions), None, _number(amplitude))
        return written(x)

    def amplitude_gradient(self, gradient: Array, positions: Positions = None) -> float:
        """The gradient by the amplitude: the sum of `gradient` times the encoding of amplitude 1, in float64.

        >>> round(Sinusoidal(2).amplitude_gradient(np.ones((2, 2)), [0, 1]), 6)
        2.381773
        """
        ungraded("amplitude_gradient", gradient, positions)
        if is_torch(gradient) and gradient.is_cuda:
            at, first = torch_backend().positions_and_first(positions, gradient)
            return float(self._torch_operators().sinusoidal_amplitude_gradient(gradient, self._text, at, first))
        return self._core.amplitude_gradient(gradient, positions_argument(positions))

    def shift(self, distance: float | tuple[float, ...]) -> ShiftOperator:
        """The operator that takes encodings `distance` further on: one distance, or one for each axis.

        >>> Sinusoidal(2).shift(1).matrix.round(4).tolist()
        [[0.5403, 0.8415], [-0.8415, 0.5403]]
        """
        distances = [float(one) for one in (distance if isinstance(distance, (tuple, list)) else (distance,))]
        return ShiftOperator(self._core.shift(distances))

    @property
    def spec(self) -> SinusoidalSpec:
        """The spec."""
        return self._spec

    @property
    def frequencies(self) -> np.ndarray:
        """Radians a position, float64, axis by axis."""
        return np.array(self._core.frequencies)

    def __getattr__(self, name: str) -> Any:
        # Every field of the spec is one of the encoding. Private names are never fields: without this copy and pickle would recurse.
        if name.startswith("_") or name not in SinusoidalSpec.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self._spec, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sinusoidal) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        return f"Sinusoidal.from_spec({self._spec!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Sinusoidal.from_spec, (self._spec,))


@functools.lru_cache(maxsize=256)
def _made(spec: SinusoidalSpec) -> Sinusoidal:
    return Sinusoidal.from_spec(spec)


def _spec_of(width: int, base: float, order: str, fields: dict[str, Any]) -> SinusoidalSpec:
    if "ladder" not in fields:
        fields["ladder"] = GeometricLadder(base=base)
    elif base != 10000.0:
        raise ValueError("sinusoidal: base and ladder are both given, wanted one of them")
    return SinusoidalSpec(width, order=order, **fields)  # type: ignore[arg-type]


def sinusoidal(
    positions: Positions, dim: int, base: float = 10000.0, order: str = "interleaved", *, dtype: Any = None, **spec: Any
) -> Array:
    """The sinusoidal encoding of positions (T), (B, T) or (axes, B, T): (..., dim). Further keywords are fields of SinusoidalSpec.

    >>> import numpy as np, phasor
    >>> phasor.sinusoidal(np.arange(2), 4).round(4).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8414999842643738, 0.5403000116348267, 0.009999999776482582, 1.0]]
    >>> phasor.sinusoidal([0, 1], 4, order="sin_cos", dtype="float64").shape
    (2, 4)
    """
    return _made(_spec_of(dim, base, order, spec))(positions, dtype)


def add_sinusoidal_(x: Array, positions: Positions = None, base: float = 10000.0, order: str = "interleaved", **spec: Any) -> Array:
    """Adds the sinusoidal encoding to x, (B, T, D) or (T, D), in place; gives x back.

    >>> import numpy as np, phasor
    >>> x = np.zeros((3, 4), np.float32)
    >>> bool((phasor.add_sinusoidal_(x) == phasor.sinusoidal(range(3), 4)).all())
    True
    """
    return _made(_spec_of(int(x.shape[-1]), base, order, spec)).add_(x, positions)
