// SPDX-License-Identifier: Apache-2.0
// What every function of the C API does around the C++ one: errors out, exceptions caught, structs of any version in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "phasor/c/base.h"
#include "phasor/result.hpp"

namespace phasor::c {

/// What a call to the C API failed with: thrown inside, never let out.
struct Failure {
  phasor_status status = PHASOR_INVALID;
  std::string message;
};

[[noreturn]] void fail(const Status& status);
[[noreturn]] void fail(std::string message, phasor_status status = PHASOR_INVALID);

inline void must(const Status& status) {
  if (!status) fail(status);
}
template <class T>
T value_of(Result<T> result) {
  if (!result) fail(result.status());
  return *std::move(result);
}

/// Fills the caller's error, which may be null, and returns its status.
phasor_status failed(phasor_error* error, phasor_status status, std::string_view message);

/// Runs the body of a function: whatever it throws becomes a status and the caller's error.
template <class Body>
phasor_status call(phasor_error* error, const Body& body) noexcept {
  try {
    body();
    return PHASOR_OK;
  } catch (const Failure& failure) {
    return failed(error, failure.status, failure.message);
  } catch (const std::bad_alloc&) {
    return failed(error, PHASOR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {  // a container that no memory could hold
    return failed(error, PHASOR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& other) {
    return failed(error, PHASOR_INVALID, other.what());
  } catch (...) {
    return failed(error, PHASOR_INVALID, "a callback threw");
  }
}

/// Something that a call cannot do without: "rotary_apply: rotary is null, wanted one".
template <class T>
T* need(const char* where, const char* name, T* pointer) {
  if (pointer == nullptr) fail(std::string(where) + ": " + name + " is null, wanted one");
  return pointer;
}

// ---- Structs that begin with their size ----

/// The least that any version of a struct had: its size, and something behind it. A size that was never set is mostly 0 or a stray
/// number: more than any version will have is one of those, and its bytes are not looked at.
inline constexpr std::size_t kLeastSize = sizeof(std::size_t) + 1;
inline constexpr std::size_t kMostSize = 4096;

void check_size(const char* where, const char* name, std::size_t size, std::size_t known);
/// Fields that this library does not know must be zero: it cannot do what they ask for.
void check_unknown(const char* where, const char* name, const void* given, std::size_t size, std::size_t known);

/// A caller's struct as this library knows it: what an older caller's lacks is zero. Null: all zeros, the defaults.
template <class T>
T known(const char* where, const char* name, const T* given) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, size) == 0);
  T copy{};
  copy.size = sizeof(T);
  if (given == nullptr) return copy;
  const std::size_t size = given->size;
  check_size(where, name, size, sizeof(T));
  check_unknown(where, name, given, size, sizeof(T));
  std::memcpy(&copy, given, std::min(size, sizeof(T)));
  copy.size = sizeof(T);
  if constexpr (requires { copy.reserved; }) {
    if (copy.reserved != 0) fail(std::string(where) + ": `reserved` of " + name + " is " + std::to_string(copy.reserved) + ", wanted 0");
  }
  return copy;
}

/// A caller's struct that a later `give` will fill: checked before anything is written.
template <class T>
void check_given(const char* where, const char* name, const T* to) {
  check_size(where, name, need(where, name, to)->size, sizeof(T));
}

/// Fills a caller's struct, of whatever version: as much as it has room for; its size stays.
template <class T>
void give(const char* where, const char* name, T value, T* to) {
  check_given(where, name, to);
  const std::size_t size = to->size;
  value.size = size;
  std::memcpy(static_cast<void*>(to), &value, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
}

// ---- Results of a length that the caller does not know ----

void give(const char* where, std::string_view text, phasor_text* to);
void give(const char* where, const std::byte* data, std::size_t count, phasor_bytes* to);
void give(const char* where, const double* data, std::size_t count, phasor_doubles* to);
/// For calls with several results: tells the count and asks for room, before any of them is written.
void need_room(const char* where, std::size_t count, phasor_doubles* to);

}  // namespace phasor::c
