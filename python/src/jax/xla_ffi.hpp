// SPDX-License-Identifier: Apache-2.0
// XLA's foreign function interface (version 0.3 of its C API), as far as it is used here: how XLA calls a handler and what a handler may
// ask for. Declared here so that no build needs jaxlib; structs begin with their size and grow at their end, so newer XLAs take these.
// tests/python/with_jax/test_ffi_layout.py holds every struct, number and function to the header that comes with jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phasor::python::xla {

inline constexpr int kMajor = 0;
inline constexpr int kMinor = 3;

struct Error;    // XLA's own
struct Context;  // of an execution

struct Extension {
  std::size_t struct_size;
  std::int32_t type;  // kMetadata
  Extension* next;
};
inline constexpr std::int32_t kMetadata = 1;

enum class ErrorCode : std::int32_t { invalid_argument = 3, not_found = 5, resource_exhausted = 8, unimplemented = 12, internal = 13 };
enum class DataType : std::int32_t { pred = 1, s32 = 4, s64 = 5, u8 = 6, u32 = 8, f16 = 10, f32 = 11, f64 = 12, bf16 = 16 };
enum class AttributeType : std::int32_t { array = 1, dictionary = 2, scalar = 3, string = 4 };
inline constexpr std::int32_t kExecute = 3;  // of the stages of a program

struct ApiVersion {
  std::size_t struct_size;
  Extension* extension_start;
  int major_version;
  int minor_version;
};

struct Buffer {
  std::size_t struct_size;
  Extension* extension_start;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

struct ByteSpan {
  const char* ptr;
  std::size_t len;
};
struct Scalar {
  DataType dtype;
  void* value;
};

/// Arguments and results alike: buffers.
struct Buffers {
  std::size_t struct_size;
  Extension* extension_start;
  std::int64_t size;
  std::int32_t* types;
  void** buffers;
};
struct Attributes {
  std::size_t struct_size;
  Extension* extension_start;
  std::int64_t size;
  AttributeType* types;
  ByteSpan** names;
  void** values;
};

// ---- What a handler may ask for: a struct in, an error or null back ----

struct ErrorCreate {
  std::size_t struct_size;
  Extension* extension_start;
  const char* message;
  ErrorCode code;
};
struct ErrorDestroy {
  std::size_t struct_size;
  Extension* extension_start;
  Error* error;
};
struct StreamGet {
  std::size_t struct_size;
  Extension* extension_start;
  Context* context;
  void* stream;  // out
};
struct MemoryAllocate {
  std::size_t struct_size;
  Extension* extension_start;
  Context* context;
  std::size_t size;
  std::size_t alignment;
  void* data;  // out
};
struct MemoryFree {
  std::size_t struct_size;
  Extension* extension_start;
  Context* context;
  std::size_t size;
  void* data;
};
struct PoolSchedule {
  std::size_t struct_size;
  Extension* extension_start;
  Context* context;
  void (*task)(void* data);
  void* data;
};
struct PoolThreads {
  std::size_t struct_size;
  Extension* extension_start;
  Context* context;
  std::int64_t* threads;  // out
};
struct DeviceOrdinal {
  std::size_t struct_size;
  Extension* extension_start;
  Context* context;
  std::int32_t ordinal;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extension_start;
  ApiVersion version;
  const void* internal;
  Error* (*error_create)(ErrorCreate*);
  void* error_message;
  void (*error_destroy)(ErrorDestroy*);
  void* handler_register;
  Error* (*stream_get)(StreamGet*);
  void* type_register;
  void* context_get;
  void* state_set;
  void* state_get;
  Error* (*memory_allocate)(MemoryAllocate*);
  Error* (*memory_free)(MemoryFree*);
  Error* (*pool_schedule)(PoolSchedule*);
  Error* (*pool_threads)(PoolThreads*);
  void* future_create;
  void* future_available;
  void* future_error;
  void* run_id;
  Error* (*device_ordinal)(DeviceOrdinal*);
};

struct CallFrame {
  std::size_t struct_size;
  Extension* extension_start;
  const Api* api;
  Context* context;
  std::int32_t stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
  void* future;
};
using Handler = Error* (*)(CallFrame*);

/// A call whose frame has this extension asks for the version only.
struct Metadata {
  std::size_t struct_size;
  ApiVersion version;
  std::uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};
/// Of the traits: its launches may be captured into a graph.
inline constexpr std::uint32_t kCapturable = 1;

}  // namespace phasor::python::xla
