// SPDX-License-Identifier: Apache-2.0
// Arrays of structs that begin with their size: a caller of another version has other distances between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/call.hpp"

namespace phasor::c {

/// The structs as this library knows them, one after the other by the size that the first has.
template <class T>
std::vector<T> known_list(const char* where, const char* name, const T* first, std::size_t count) {
  if (count == 0) return {};
  const std::size_t step = need(where, name, first)->size;
  const auto of = [&](std::size_t i) { return std::string(name) + "[" + std::to_string(i) + "]"; };
  check_size(where, of(0).c_str(), step, sizeof(T));
  if (count > static_cast<std::size_t>(PTRDIFF_MAX) / step) {
    fail(std::string(where) + ": " + name + " has " + std::to_string(count) + " elements, wanted at most " +
         std::to_string(static_cast<std::size_t>(PTRDIFF_MAX) / step));
  }
  std::vector<T> list;
  for (std::size_t i = 0; i < count; ++i) {
    const T* const one = reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + i * step);
    if (one->size != step) {
      fail(std::string(where) + ": the size of " + of(i) + " is " + std::to_string(one->size) + " and that of " + of(0) + " " +
           std::to_string(step) + ", wanted one size");
    }
    list.push_back(known(where, of(i).c_str(), one));
  }
  return list;
}

}  // namespace phasor::c
