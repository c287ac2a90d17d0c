// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: names, dtypes, shapes and places of its tensors, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "spec/files/cursor.hpp"

namespace phasor::spec {

struct SafetensorsTensor {
  std::string dtype;
  std::uint64_t bits = 0;  // of an element
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the file
  std::uint64_t end = 0;
};

struct SafetensorsFile {
  std::uint64_t data_begin = 0;  // the header, metadata included, is before it
  std::map<std::string, SafetensorsTensor, std::less<>> tensors;
};

/// Strict: a name or field given twice, an unknown dtype, a hole or an overlap in the data is an error. Throws ReadError.
SafetensorsFile read_safetensors(std::span<const std::byte> file);

}  // namespace phasor::spec
