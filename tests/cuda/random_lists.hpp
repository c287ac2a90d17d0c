// SPDX-License-Identifier: Apache-2.0
// What random calls of position builders read and write: lists of integers, and positions of any type and strides.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/random_memory.hpp"
#include "phasor/position_builders.hpp"

namespace phasor::test {

using Pointers = std::vector<std::byte*>;

/// Integers of either size, in memory.
struct PlacedIntegers {
  std::size_t buffer = 0;
  std::size_t size = 0;
  bool narrow = false;

  Integers at(const Pointers& memory, Device device) const {
    if (size == 0) return {};
    if (narrow) return {reinterpret_cast<const std::int32_t*>(memory[buffer]), size, device};
    return {reinterpret_cast<const std::int64_t*>(memory[buffer]), size, device};
  }
};
inline PlacedIntegers integers(Draw& draw, Builder& builder, const std::vector<int64_t>& list) {
  const bool narrow = draw.one_in(2);
  return {narrow ? builder.list(std::vector<std::int32_t>(list.begin(), list.end())) : builder.list(list), list.size(), narrow};
}

/// (axes, B, T) of any type.
struct PlacedOut {
  Placed memory_of;
  PositionType type;

  PositionsView at(const Pointers& memory, Device device) const {
    const TensorView view = memory_of.at(memory, device);
    return {.data = view.data,
            .type = type,
            .shape = {view.shape[0], view.shape[1], view.shape[2]},
            .strides = {view.strides[0], view.strides[1], view.strides[2]},
            .device = device};
  }
};
inline PlacedOut any_out(Draw& draw, Builder& builder, int64_t batch, int64_t tokens) {
  const PositionType type = draw.of({PositionType::i32, PositionType::i64, PositionType::f64});
  return {builder.tensor(type == PositionType::i32 ? DType::f32 : DType::f64, {draw.of<int64_t>({1, 1, 3}), batch, tokens, 1}), type};
}

/// The ends of some sequences, empty ones among them.
inline std::vector<int64_t> any_ends(Draw& draw) {
  std::vector<int64_t> ends = {0};
  for (int64_t s = draw.between(1, 9); s > 0; --s) ends.push_back(ends.back() + (draw.one_in(4) ? 0 : draw.between(1, 30)));
  if (ends.back() == 0) ends.push_back(3);
  return ends;
}

inline std::vector<int64_t> any_list(Draw& draw, std::size_t count, int64_t least, int64_t most) {
  std::vector<int64_t> list(count);
  for (int64_t& x : list) x = draw.between(least, most);
  return list;
}

}  // namespace phasor::test
