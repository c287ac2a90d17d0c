// SPDX-License-Identifier: Apache-2.0
// What calls that are timed on a GPU are made of, on any device: buffers, pointers to them, and how many bytes must move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "phasor/execution.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::bench {

using HostBuffers = std::vector<std::vector<std::byte>>;
using Pointers = std::vector<void*>;

inline Pointers pointers_of(HostBuffers& buffers) {
  Pointers pointers;
  for (auto& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

/// Where a call finds its buffers.
struct On {
  const Pointers& memory;
  Device device{};
  Execution execution{};
};

/// How much a call must read and write, in bytes.
struct Moved {
  std::size_t read = 0;
  std::size_t written = 0;
};

template <class T>
std::vector<std::byte> as_bytes(const std::vector<T>& list) {
  std::vector<std::byte> bytes(list.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

/// bf16 of either sign, 2^-7 to 2, in no order.
inline std::vector<std::byte> some_bf16(std::int64_t count, std::uint32_t seed = 1) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  std::uint32_t draw = seed;
  for (std::uint16_t& b : bits) {
    draw = draw * 1664525U + 1013904223U;
    b = static_cast<std::uint16_t>(0x3c00U | (draw >> 16 & 0x83ffU));
  }
  return as_bytes(bits);
}
/// The same numbers as float32.
inline std::vector<std::byte> some_f32(std::int64_t count) {
  const std::vector<std::byte> high = some_bf16(count);
  std::vector<std::byte> bytes(2 * high.size());
  for (std::size_t i = 0; i < high.size(); i += 2) std::memcpy(bytes.data() + 2 * i + 2, high.data() + i, 2);
  return bytes;
}

/// Slots of tokens in blocks that lie in a cache from the last to the first.
inline std::vector<std::int64_t> turned_slots(std::int64_t tokens, std::int64_t block) {
  const std::int64_t blocks = (tokens + block - 1) / block;
  std::vector<std::int64_t> slots;
  for (std::int64_t t = 0; t < tokens; ++t) slots.push_back((blocks - 1 - t / block) * block + t % block);
  return slots;
}

}  // namespace phasor::bench
