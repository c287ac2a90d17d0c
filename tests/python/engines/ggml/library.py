# SPDX-License-Identifier: Apache-2.0
"""The installed ggml by ctypes: one rotation as a graph of one node, on any of its backends."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shutil
from ctypes import c_bool, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

LIBRARIES = os.environ["PHASOR_GGML_LIBRARIES"].split(":")  # libggml-base.so and libggml.so
BACKEND = Path(os.environ["PHASOR_GGML_BACKEND"])  # libggml-phasor.so
NORMAL, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40
TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 26}


class InitParams(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("memory", c_void_p), ("no_alloc", c_bool)]


@dataclasses.dataclass(frozen=True)
class Rope:
    """The numbers of a node, as ggml_rope_ext and ggml_rope_multi take them."""

    n_dims: int
    mode: int = NEOX
    sections: tuple[int, ...] = (0, 0, 0, 0)
    n_ctx_orig: int = 0
    freq_base: float = 10000.0
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    n_offs: int = 0

    def numbers(self):
        names = ("freq_base", "freq_scale", "ext_factor", "attn_factor", "beta_fast", "beta_slow")
        return [self.n_ctx_orig, *(c_float(getattr(self, name)) for name in names)]


class Library:
    def __init__(self):
        self.base, self.top = map(ctypes.CDLL, LIBRARIES)
        self.has_offsets = hasattr(self.base, "ggml_rope_set_offset")  # newer ones

    def call(self, name, *arguments, result=c_void_p):
        """Pointers are Python integers: they are passed as such, everything else as its own type says."""
        function = getattr(self.top, name, None) or getattr(self.base, name)
        function.restype = result
        function.argtypes = None
        return function(*(c_void_p(a) if isinstance(a, Pointer) or a is None else a for a in arguments))

    def pointer(self, name, *arguments):
        return Pointer(self.call(name, *arguments) or 0)

    def load(self, path) -> Pointer:
        return self.pointer("ggml_backend_load", str(path).encode())

    def device(self, registry) -> Pointer:
        return self.pointer("ggml_backend_reg_dev_get", registry, c_size_t(0))

    def backend(self, device) -> Pointer:
        return self.pointer("ggml_backend_dev_init", device, None)

    def cpu(self) -> Pointer:
        return self.pointer("ggml_backend_init_by_name", b"CPU", None)

    def rotations(self, registry) -> int:
        function = self.call("ggml_backend_reg_get_proc_address", registry, b"phasor_ggml_rotations")
        return ctypes.CFUNCTYPE(ctypes.c_uint64)(function)()


class Pointer(int):
    pass


def load_copy(library: Library, folder: Path, numerics: str | None) -> Pointer:
    """The backend under a name of its own, so that each has its own variables: numerics are read when it is loaded."""
    copy = folder / f"libggml-phasor-{numerics}.so"
    shutil.copy(BACKEND, copy)
    with variable("PHASOR_GGML_NUMERICS", numerics):
        return library.load(copy)


@contextlib.contextmanager
def variable(name, value):
    before = os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


class Node:
    """A rotation of x, (B, T, H, D), in a context of its own. `view`: x is a part of a larger tensor; `inplace`, `back`: as in ggml."""

    def __init__(self, library, rope, x, positions, factors=None, *, view=False, inplace=False, back=False):
        self.library, self.rope = library, rope
        self.values = []
        self.context = library.pointer("ggml_init", InitParams(1 << 20, None, True))
        a = self._viewed(x) if view else self._tensor(x)
        b = self._tensor(np.ascontiguousarray(positions, np.int32).reshape(-1))
        c = None if factors is None else self._tensor(np.asarray(factors, np.float32))
        suffix = "_inplace" * inplace + "_back" * back
        kind = "ggml_rope_multi" if rope.mode & MROPE else "ggml_rope_ext"
        sections = [(c_int * 4)(*rope.sections)] if rope.mode & MROPE else []
        self.node = library.pointer(kind + suffix, self.context, a, b, c, rope.n_dims, *sections, rope.mode, *rope.numbers())
        if rope.n_offs:
            self.node = library.pointer("ggml_rope_set_offset", self.node, rope.n_offs)
        # A view rotated in place lies amid the tensor that it is a view of.
        self.shape, self.dtype, self.amid = x.shape, x.dtype, view and inplace

    def _tensor(self, array):
        extents = [c_int64(n) for n in reversed(array.shape)] + [c_int64(1)] * (4 - array.ndim)
        made = self.library.pointer("ggml_new_tensor_4d", self.context, TYPES[array.dtype], *extents)
        self.values.append((made, np.ascontiguousarray(array)))
        return made

    def _viewed(self, x):
        """x amid a tensor with more heads and channels, as q is amid q, k and v; what is around it is NaN."""
        batch, tokens, heads, channels = x.shape
        whole = np.full((batch, tokens, heads + 3, channels + 8), np.nan, x.dtype)
        whole[:, :, 2 : 2 + heads, 4 : 4 + channels] = x
        size = x.itemsize
        strides = [size * (channels + 8), size * (channels + 8) * (heads + 3), size * (channels + 8) * (heads + 3) * tokens]
        offset = 2 * strides[0] + 4 * size
        extents = [c_int64(n) for n in reversed(x.shape)]
        return self.library.pointer("ggml_view_4d", self.context, self._tensor(whole), *extents, *map(c_size_t, strides), c_size_t(offset))

    def supported(self, device) -> bool:
        return self.library.call("ggml_backend_dev_supports_op", device, self.node, result=c_bool)

    def compute(self, backend):
        """Its values, or the status where that is not 0."""
        call, pointer = self.library.call, self.library.pointer
        graph = pointer("ggml_new_graph", self.context)
        call("ggml_build_forward_expand", graph, self.node, result=None)
        buffer = pointer("ggml_backend_alloc_ctx_tensors", self.context, backend)
        for tensor, array in (value for value in self.values if value[1].size):
            call("ggml_backend_tensor_set", tensor, array.ctypes.data_as(c_void_p), c_size_t(0), c_size_t(array.nbytes), result=None)
        status = call("ggml_backend_graph_compute", backend, graph, result=c_int)
        read, out = (self.values[0][0], np.empty_like(self.values[0][1])) if self.amid else (self.node, np.empty(self.shape, self.dtype))
        if status == 0 and out.size:
            call("ggml_backend_tensor_get", read, out.ctypes.data_as(c_void_p), c_size_t(0), c_size_t(out.nbytes), result=None)
        call("ggml_backend_buffer_free", buffer, result=None)
        if status != 0:
            return status
        return out[:, :, 2:-1, 4:-4] if self.amid else out

    def free(self):
        self.library.call("ggml_free", self.context, result=None)
