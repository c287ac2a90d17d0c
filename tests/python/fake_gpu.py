# SPDX-License-Identifier: Apache-2.0
"""Arrays that say they are on a GPU, for machines without one: memory of the CPU behind a DLPack capsule whose device was changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

KIND_CUDA = 2


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device)]


def _pointer(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, b"dltensor")


class FakeGpuArray:
    """A NumPy array as an array on GPU `index`; `streams` are those that it was asked for."""

    def __init__(self, array: np.ndarray, index: int = 0):
        self._array, self._index = array, index
        self.streams: list[Any] = []
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return KIND_CUDA, self._index

    def __dlpack__(self, *, stream: Any = None) -> Any:  # without max_version: an older library
        self.streams.append(stream)
        capsule = self._array.__dlpack__()
        _Tensor.from_address(_pointer(capsule)).device = _Device(KIND_CUDA, self._index)
        return capsule
