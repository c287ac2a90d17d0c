# SPDX-License-Identifier: Apache-2.0
"""What python/src/jax/xla_ffi.hpp declares of XLA's interface is what the header of the installed jaxlib declares: a compiler compares them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).resolve().parents[3]

# Ours, theirs, and the members of each in their order: ours alone where the names agree.
STRUCTS = {
    ("Extension", "XLA_FFI_Extension_Base"): ["struct_size", "type", "next"],
    ("ApiVersion", "XLA_FFI_Api_Version"): ["struct_size", "extension_start", "major_version", "minor_version"],
    ("Buffer", "XLA_FFI_Buffer"): ["struct_size", "extension_start", "dtype", "data", "rank", "dims"],
    ("ByteSpan", "XLA_FFI_ByteSpan"): ["ptr", "len"],
    ("Scalar", "XLA_FFI_Scalar"): ["dtype", "value"],
    ("Buffers", "XLA_FFI_Args"): ["struct_size", "extension_start", "size", "types", "buffers=args"],
    ("Buffers", "XLA_FFI_Rets"): ["struct_size", "extension_start", "size", "types", "buffers=rets"],
    ("Attributes", "XLA_FFI_Attrs"): ["struct_size", "extension_start", "size", "types", "names", "values=attrs"],
    ("ErrorCreate", "XLA_FFI_Error_Create_Args"): ["struct_size", "extension_start", "message", "code=errc"],
    ("ErrorDestroy", "XLA_FFI_Error_Destroy_Args"): ["struct_size", "extension_start", "error"],
    ("StreamGet", "XLA_FFI_Stream_Get_Args"): ["struct_size", "extension_start", "context=ctx", "stream"],
    ("MemoryAllocate", "XLA_FFI_DeviceMemory_Allocate_Args"): ["struct_size", "extension_start", "context=ctx", "size", "alignment", "data"],
    ("MemoryFree", "XLA_FFI_DeviceMemory_Free_Args"): ["struct_size", "extension_start", "context=ctx", "size", "data"],
    ("PoolSchedule", "XLA_FFI_ThreadPool_Schedule_Args"): ["struct_size", "extension_start", "context=ctx", "task", "data"],
    ("PoolThreads", "XLA_FFI_ThreadPool_NumThreads_Args"): ["struct_size", "extension_start", "context=ctx", "threads=num_threads"],
    ("DeviceOrdinal", "XLA_FFI_DeviceOrdinal_Get_Args"): ["struct_size", "extension_start", "context=ctx", "ordinal=device_ordinal"],
    ("Metadata", "XLA_FFI_Metadata"): ["struct_size", "version=api_version", "traits"],
    ("MetadataExtension", "XLA_FFI_Metadata_Extension"): ["base=extension_base", "metadata"],
    ("CallFrame", "XLA_FFI_CallFrame"): [
        *("struct_size", "extension_start", "api", "context=ctx", "stage"),
        *("arguments=args", "results=rets", "attributes=attrs", "future"),
    ],
    ("Api", "XLA_FFI_Api"): [
        *("struct_size", "extension_start", "version=api_version", "internal=internal_api"),
        *("error_create=XLA_FFI_Error_Create", "error_destroy=XLA_FFI_Error_Destroy", "stream_get=XLA_FFI_Stream_Get"),
        *("memory_allocate=XLA_FFI_DeviceMemory_Allocate", "memory_free=XLA_FFI_DeviceMemory_Free"),
        *("pool_schedule=XLA_FFI_ThreadPool_Schedule", "pool_threads=XLA_FFI_ThreadPool_NumThreads"),
        "device_ordinal=XLA_FFI_DeviceOrdinal_Get",
    ],
}
NUMBERS = {
    "kMajor": "XLA_FFI_API_MAJOR",
    "kMetadata": "XLA_FFI_Extension_Metadata",
    "kExecute": "XLA_FFI_ExecutionStage_EXECUTE",
    "kCapturable": "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE",
    **{f"ErrorCode::{name}": f"XLA_FFI_Error_Code_{name.upper()}" for name in ("invalid_argument", "not_found", "resource_exhausted", "unimplemented", "internal")},
    **{f"DataType::{name}": f"XLA_FFI_DataType_{name.upper()}" for name in ("pred", "s32", "s64", "u8", "u32", "f16", "f32", "f64", "bf16")},
    **{f"AttributeType::{name}": f"XLA_FFI_AttrType_{name.upper()}" for name in ("array", "dictionary", "scalar", "string")},
}
# Sizes of enumerations and of what points to functions, and that ours is not newer than the header.
REST = [
    "sizeof(XLA_FFI_DataType) == sizeof(x::DataType)",
    "sizeof(XLA_FFI_AttrType) == sizeof(x::AttributeType)",
    "sizeof(XLA_FFI_ArgType) == sizeof(std::int32_t) && sizeof(XLA_FFI_RetType) == sizeof(std::int32_t)",
    "sizeof(XLA_FFI_ExecutionStage) == sizeof(std::int32_t)",
    "sizeof(x::Api) <= sizeof(XLA_FFI_Api) && sizeof(x::CallFrame) <= sizeof(XLA_FFI_CallFrame)",
    "XLA_FFI_API_MINOR >= x::kMinor",
]


def claims() -> list[str]:
    found = list(REST)
    for (ours, theirs), members in STRUCTS.items():
        for member in members:
            mine, _, other = member.partition("=")
            other = other or mine
            found.append(f"offsetof(x::{ours}, {mine}) == offsetof({theirs}, {other})")
            found.append(f"sizeof(x::{ours}::{mine}) == sizeof({theirs}::{other})")
        if members[0] == "struct_size" and theirs.endswith("_Args"):  # what XLA is told that it is given
            found.append(f"sizeof(x::{ours}) >= {theirs}_STRUCT_SIZE")
    return found + [f"static_cast<long>(x::{ours}) == static_cast<long>({theirs})" for ours, theirs in NUMBERS.items()]


def compiled(tmp_path: Path, claimed: list[str]) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "layout.cpp"
    lines = ['#include "xla/ffi/api/c_api.h"', '#include "jax/xla_ffi.hpp"', "namespace x = phasor::python::xla;"]
    source.write_text("\n".join([*lines, *(f'static_assert({claim}, "{claim}");' for claim in claimed)]) + "\n")
    compiler = os.environ.get("CXX") or shutil.which("c++")
    assert compiler, "a C++ compiler is wanted, as for the wheel"
    command = [*compiler.split(), "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{jax.ffi.include_dir()}", f"-I{ROOT / 'python/src'}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_interface_is_that_of_jaxlibs_header(tmp_path: Path) -> None:
    done = compiled(tmp_path, claims())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("wrong", ["offsetof(x::Buffer, data) == offsetof(XLA_FFI_Buffer, rank)", "static_cast<long>(x::DataType::f32) == XLA_FFI_DataType_F64"])
def test_a_difference_is_found(tmp_path: Path, wrong: str) -> None:
    assert "static assertion failed" in compiled(tmp_path, [wrong]).stderr.replace("static_assert failed", "static assertion failed")
