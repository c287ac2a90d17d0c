# SPDX-License-Identifier: Apache-2.0
"""The C API from Python's ctypes, with structs written by hand as another language would: ctypes_test.py LIBRARY"""
import ctypes
import math
import sys
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p


class Error(Structure):
    _fields_ = [("status", c_int32), ("message", c_char * 508)]


class Device(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class Dtype(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", Dtype), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class Positions(Structure):
    _fields_ = [("tensor", POINTER(Tensor)), ("offset", c_int64)]


class Execution(Structure):
    _fields_ = [("run", c_void_p), ("context", c_void_p), ("stream", c_void_p)]


class Rotation(Structure):
    _fields_ = [("size", c_size_t), ("q", POINTER(Tensor)), ("k", POINTER(Tensor)), ("q_out", POINTER(Tensor)), ("k_out", POINTER(Tensor)),
                ("positions", Positions), ("direction", c_int32), ("reserved", c_int32), ("execution", Execution)]


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.phasor_version.restype = c_char_p
    library.phasor_rotary_amplitude.restype = c_double
    library.phasor_rotary_amplitude.argtypes = [c_void_p]
    print("phasor", library.phasor_version().decode())

    error, rotary = Error(), c_void_p()
    text = b'{"phasor": 1, "type": "RotarySpec", "head_dim": 2, "scaling": {"type": "LinearScaling", "factor": 4}}'
    assert library.phasor_rotary_from_json(text, c_size_t(len(text)), byref(rotary), byref(error)) == 0, error.message
    assert library.phasor_rotary_amplitude(rotary) == 1

    values, shape = (c_float * 2)(1, 0), (c_int64 * 2)(1, 2)
    q = Tensor(ctypes.cast(values, c_void_p), Device(1, 0), 2, Dtype(2, 32, 1), shape, None, 0)
    rotation = Rotation(size=ctypes.sizeof(Rotation), q=ctypes.pointer(q), positions=Positions(None, 4_000_000))
    assert library.phasor_rotary_apply(rotary, byref(rotation), byref(error)) == 0, error.message
    wanted = [ctypes.c_float(f(1_000_000)).value for f in (math.cos, math.sin)]  # 4,000,000 positions, 1/4 radian each
    assert list(values) == wanted, (list(values), wanted)

    q.ndim = 9
    assert library.phasor_rotary_apply(rotary, byref(rotation), byref(error)) == 1
    assert error.message == b"apply_rotary: q has 9 axes, wanted 1 to 4", error.message
    library.phasor_rotary_free(rotary)
    print("ctypes: rotates, and explains its error")


if __name__ == "__main__":
    main()
