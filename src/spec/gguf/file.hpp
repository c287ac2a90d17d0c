// SPDX-License-Identifier: Apache-2.0
// The GGUF container: its keys and the infos of its tensors, checked; what they mean is in gguf.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/files/cursor.hpp"

namespace phasor::spec {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

struct GgufValue {
  GgufType type = GgufType::u32;
  std::uint64_t offset = 0;  // of the value in the file
  std::uint64_t count = 1;   // of an array
  // Integers are kept as int64 or uint64. An array of strings, or one longer than any count of layers, is counted but not kept.
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string, std::vector<double>> content = std::int64_t{0};
};

struct GgufTensor {
  std::vector<std::uint64_t> shape;  // innermost first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
};

/// The bytes of a file, or its beginning and a way to the rest.
struct GgufBytes {
  std::span<const std::byte> head;
  std::uint64_t size = 0;  // of the whole file
  std::function<bool(std::uint64_t offset, std::span<std::byte> to)> fetch = nullptr;
};

struct GgufFile {
  std::uint32_t version = 3;
  std::map<std::string, GgufValue, std::less<>> keys;
  std::map<std::string, GgufTensor, std::less<>> tensors;
  std::map<std::string, std::vector<double>, std::less<>> rope_tensors;  // rope_freqs, rope_factors_short, rope_factors_long
};

/// Throws ReadError.
GgufFile read_gguf_file(const GgufBytes& bytes);

}  // namespace phasor::spec
