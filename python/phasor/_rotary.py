# SPDX-License-Identifier: Apache-2.0
"""Rotary encoding: phasor.Rotary, and rotation by given tables."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from phasor import _core
from phasor._arrays import (
    Array,
    Positions,
    empty_like,
    gpu_of,
    is_torch,
    positions_argument,
    returned,
    torch_backend,
    torch_backend_if_usable,
    torch_backend_of,
)
from phasor._numbers import empty, integers, torch_dtype
from phasor._spec import Axes, GivenDirections, RotarySpec, Scaling, TableLayout, Unscaled

_DIRECTIONS = {"forward": 0, "inverse": 1, "transpose": 2}


def direction_number(inverse: bool, direction: str | None) -> int:
    """0, 1 or 2 as the core counts them."""
    if direction is None:
        return 1 if inverse else 0
    if inverse or direction not in _DIRECTIONS:
        raise ValueError(f"direction: is {direction!r} with inverse={inverse}, wanted 'forward', 'inverse' or 'transpose', or inverse alone")
    return _DIRECTIONS[direction]


def check_kinds(where: str, q: Array, k: Array | None) -> None:
    """A tensor beside another library's array would be written behind PyTorch's back."""
    if k is not None and is_torch(k):
        raise TypeError(f"{where}: q is {type(q).__name__} and k is a PyTorch tensor, wanted both of one library")


def _wide(slots: Any) -> Any:
    """Slots as the core takes them, of 64 bits."""
    if slots is None:
        return None
    given = slots if gpu_of(slots) is not None else integers(slots, "rerotate_: slots")
    return given.astype(np.int64) if given.dtype == np.int32 else given


class Rotary:
    """A rotary encoding, ready to apply: immutable, cheap to copy, shared by threads and layers.

    Tensors are (B, T, H, D), (T, H, D) or (T, D), of float32, float64, float16 or bfloat16; other orders are strides: `q.transpose(1, 2)`.
    Positions are int32, int64 or float64 arrays (T), (B, T) or (axes, B, T), an int (the first of consecutive ones), or None (from 0 on).

    >>> import numpy as np, phasor
    >>> rope = phasor.Rotary(head_dim=4, base=10000)
    >>> q = np.array([[1, 0, 0, 0]], dtype=np.float32)
    >>> float(rope(q, positions=[1_000_000])[0, 0])  # the float32 nearest to cos(1000000)
    0.9367521405220032
    >>> bool((rope(rope(q, positions=[7]), positions=[7], inverse=True) == q).all())
    True
    """

    __slots__ = ("__weakref__", "_core", "_spec", "_words")

    def __init__(
        self,
        head_dim: int,
        *,
        rotary_width: int = 0,
        rotary_offset: int = 0,
        base: float = 10000.0,
        scaling: Scaling | None = None,
        pairing: str = "half",
        output_pairing: str | None = None,
        sense: str = "counterclockwise",
        axes: Axes | None = None,
        segments: int = 1,
        lanes: str = "alike",
        unit: str = "radians",
        numerics: str = "exact",
    ) -> None:
        spec = RotarySpec(
            head_dim,
            rotary_width,
            rotary_offset,
            base,
            Unscaled() if scaling is None else scaling,
            pairing,
            output_pairing,
            sense,
            Axes() if axes is None else axes,
            segments,
            lanes,
            unit,
            numerics,
        )
        self._take(_core.Rotary(spec))

    def _take(self, core: _core.Rotary) -> None:
        self._core = core
        self._spec: RotarySpec = core.spec
        # A PyTorch tensor, once PyTorch is there: a compiler that looks at a call could not make it then.
        backend = torch_backend_if_usable()
        self._words: Any = None if backend is None else backend.words_of_core(core)

    @classmethod
    def from_spec(cls, spec: RotarySpec) -> Rotary:
        """The encoding of a spec, such as `read_model(path).layers[0].rotary`."""
        rotary = cls.__new__(cls)
        rotary._take(_core.Rotary(spec))
        return rotary

    @classmethod
    def from_config(cls, config: Any, layer: int = 0, *, tower: str | None = None, length: int = 0) -> Rotary:
        """The rotary encoding of a layer by a config: a path, a dict, JSON text, or a transformers config.

        >>> import phasor
        >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 5e5}
        >>> phasor.Rotary.from_config(config).base
        500000.0
        """
        from phasor._model import rotary_spec_of

        return cls.from_spec(rotary_spec_of(config, layer, tower, length))

    @classmethod
    def from_gguf(cls, path: Any, layer: int = 0, *, length: int = 0) -> Rotary:
        """The rotary encoding of a layer of a GGUF file."""
        return cls.from_config(path, layer, length=length)

    def __call__(self, q: Array, k: Array | None = None, positions: Positions = None, *, inverse: bool = False, direction: str | None = None) -> Any:
        """q, or q and k, rotated into new arrays; in PyTorch with gradients."""
        turn = 0 if direction is None and not inverse else direction_number(inverse, direction)
        backend = torch_backend_of(q)
        if backend is not None:
            return backend.rotary(self, q, k, positions, turn)
        check_kinds("rotary", q, k)
        q_out, k_out = empty_like(q), None if k is None else empty_like(k)
        self._core.apply(q, k, positions_argument(positions), turn, q_out, k_out)
        return returned(q, q_out) if k is None else (returned(q, q_out), returned(k, k_out))

    def apply_(self, q: Array, k: Array | None = None, positions: Positions = None, *, inverse: bool = False, direction: str | None = None) -> Any:
        """q, or q and k, rotated in place and given back."""
        turn = 0 if direction is None and not inverse else direction_number(inverse, direction)
        backend = torch_backend_of(q)
        if backend is not None:
            return backend.rotary_(self, q, k, positions, turn)
        check_kinds("rotary_", q, k)
        self._core.apply(q, k, positions_argument(positions), turn, None, None)
        return q if k is None else (q, k)

    def cos_sin(self, positions: Positions, dtype: Any = None) -> tuple[Array, Array]:
        """The values nearest to amplitude * cos and amplitude * sin, float32 unless `dtype` says float64: (..., P) for positions (...).

        Positions of several axes are (axes, B, T) and give (B, T, P).

        >>> import phasor
        >>> cos, sin = phasor.Rotary(head_dim=4).cos_sin(10**15)
        >>> cos.shape, float(cos[0])
        ((2,), -0.5131937265396118)
        """
        at = positions_argument(positions)
        if at is None:
            raise ValueError("cos_sin: positions are None, wanted an array or an int")
        values = self._spec.rotary_width // (1 if self._spec.lanes == "per_channel_frequencies" else 2)
        backend = torch_backend_of(at)
        if backend is not None:
            return backend.cos_sin(self, at, values, torch_dtype(dtype))
        single = isinstance(at, int)
        if single:
            at = positions_argument([at])
        shape = tuple(at.shape[1:] if len(at.shape) == 3 else at.shape)
        heads = getattr(self._spec.scaling, "heads", 1)
        cos, sin = (empty((*shape, heads, values), dtype, at) for _ in range(2))
        if len(shape) == 1:
            self._core.cos_sin(at, cos[None], sin[None])
        else:
            self._core.cos_sin(at, cos, sin)
        if heads == 1:
            cos, sin = cos.reshape(*shape, values), sin.reshape(*shape, values)
        return (cos[0], sin[0]) if single else (returned(at, cos), returned(at, sin))

    def rerotate_(
        self, k: Array, from_positions: Positions, to_positions: Positions, *, source: Rotary | None = None, slots: Any = None
    ) -> Array:
        """Keys rotated by `source` (self if not given) at from_positions become keys rotated by self at to_positions, in place.

        With slots k is a paged cache (blocks, page, H, D): token i lies at slots[i] = block * page + offset, and is at the i-th position;
        negative slots are skipped, one that is there twice is an error. On a GPU slots are the caller's word. No gradients.

        >>> import numpy as np, phasor
        >>> rope, k = phasor.Rotary(head_dim=4), np.ones((3, 1, 4), np.float32)
        >>> cache = np.zeros((4, 2, 1, 4), np.float32)  # 4 blocks of 2 tokens
        >>> cache.reshape(8, 1, 4)[[5, 0, 6]] = rope(k, positions=10)
        >>> moved = rope.rerotate_(cache, 10, 0, slots=[5, 0, 6])
        >>> bool(np.abs(moved.reshape(8, 1, 4)[[5, 0, 6]] - rope(k, positions=0)).max() < 1e-6)
        True
        """
        origin = self if source is None else source
        if is_torch(k):
            return torch_backend().rerotate_((origin, self), k, (from_positions, to_positions), slots)
        at = (positions_argument(from_positions), positions_argument(to_positions))
        _core.rerotate((origin._core, self._core), k, at, _wide(slots), None)
        return k

    @property
    def spec(self) -> RotarySpec:
        """The spec, with the rotary width filled in."""
        return self._spec

    @property
    def frequencies(self) -> np.ndarray:
        """Radians a position, float64: (P), or (axes, heads, P) with GivenDirections."""
        flat = np.array(self._core.frequencies)
        scaling = self._spec.scaling
        if isinstance(scaling, GivenDirections):
            return flat.reshape(scaling.axes, scaling.heads, -1)
        return flat

    @property
    def amplitude(self) -> float:
        """The factor on cos and sin."""
        return self._core.amplitude

    @property
    def softmax_scale(self) -> float:
        """The factor on the attention's own scale."""
        return self._core.softmax_scale

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # every field of the spec is one of the encoding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rotary) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        return f"Rotary({_changed_fields(self._spec)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # What a subclass has beside the spec travels too.
        return (type(self).from_spec, (self._spec,), getattr(self, "__dict__", None) or None)


def _field(name: str) -> property:
    return property(lambda self: getattr(self._spec, name), doc=f"`{name}` of the spec.")


for _name in RotarySpec.__dataclass_fields__:  # not by __getattr__, with which every other attribute takes twice as long
    setattr(Rotary, _name, _field(_name))


def _changed_fields(spec: RotarySpec) -> str:
    """head_dim, and what is not as it would be without being said."""
    plain = RotarySpec(spec.head_dim, spec.head_dim)
    shown = [f"head_dim={spec.head_dim}"]
    for name in RotarySpec.__dataclass_fields__:
        value = getattr(spec, name)
        if value != getattr(plain, name):
            shown.append(f"{name}={value!r}")
    return ", ".join(shown)


@functools.lru_cache(maxsize=256)
def layout_of(layout: TableLayout) -> _core.TableLayout:
    """The layout as the core has it."""
    return _core.TableLayout(layout)


def apply_rotary(
    q: Array, k: Array | None, cos: Array, sin: Array, *, inverse: bool = False, direction: str | None = None, **layout: Any
) -> Any:
    """q, or q and k, rotated by given tables into new arrays. Keywords are the fields of TableLayout: pairing, rotary_width, numerics, ...

    Tables are (T, P), (B or 1, T, P) or (B or 1, T, 1 or H, P), or R wide instead of P with a value for each channel.

    >>> import numpy as np, phasor
    >>> rope = phasor.Rotary(head_dim=8, pairing="interleaved")
    >>> q = np.ones((3, 2, 8), np.float32)
    >>> cos, sin = rope.cos_sin(np.arange(3))
    >>> bool((phasor.apply_rotary(q, None, cos, sin, pairing="interleaved") == rope(q)).all())
    True
    """
    chosen = TableLayout(**layout)
    turn = direction_number(inverse, direction)
    if is_torch(q):
        return torch_backend().tables(q, k, cos, sin, chosen, turn)
    check_kinds("apply_rotary", q, k)
    q_out, k_out = empty_like(q), None if k is None else empty_like(k)
    _core.apply_tables(q, k, cos, sin, layout_of(chosen), turn, q_out, k_out)
    return returned(q, q_out) if k is None else (returned(q, q_out), returned(k, k_out))


def apply_rotary_(
    q: Array, k: Array | None, cos: Array, sin: Array, *, inverse: bool = False, direction: str | None = None, **layout: Any
) -> Any:
    """q, or q and k, rotated by given tables in place and given back; see apply_rotary."""
    chosen = TableLayout(**layout)
    turn = direction_number(inverse, direction)
    if is_torch(q):
        return torch_backend().tables_(q, k, cos, sin, chosen, turn)
    check_kinds("apply_rotary_", q, k)
    _core.apply_tables(q, k, cos, sin, layout_of(chosen), turn, None, None)
    return q if k is None else (q, k)
