// SPDX-License-Identifier: Apache-2.0
// Random calls of keys that move within a cache, as engines make them: pages of every size, in any order, with gaps and other layouts of
// heads, a part of a slot alone (MLA's rotated channels), slots that are nobody's; all tokens moved alike, or each its own way, or not at
// all; one axis or three.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "cuda/random_calls.hpp"
#include "cuda/random_specs.hpp"

namespace phasor::test {

/// A cache (pages, page, heads, channels) in a buffer.
struct MovedCache {
  Extents shape;
  Extents strides;
  int64_t first;     // elements before it
  int64_t elements;  // of the buffer
};

inline MovedCache any_cache(Draw& draw, DType dtype, const Extents& shape) {
  const auto [pages, page, heads, width] = shape;
  const int64_t vector = 16 / bytes_of(dtype);
  MovedCache cache = {shape, {page * heads * width, heads * width, width, 1}, 0, pages * page * heads * width};
  switch (draw.below(6)) {
    case 0:  // keys and values of a page side by side
      cache.strides[0] *= 2;
      cache.elements *= 2;
      break;
    case 1:  // heads before slots
      cache.strides = {page * heads * width, width, page * width, 1};
      break;
    case 2: {  // the last channels of wider slots
      const int64_t wide = width + 8 * vector;
      cache = {cache.shape, {page * heads * wide, heads * wide, wide, 1}, 8 * vector, pages * page * heads * wide};
      break;
    }
    case 3:  // nothing is aligned: the general kernel
      cache.first = 1;
      cache.elements += 1;
      break;
    default:
      break;
  }
  return cache;
}

/// Bits that are sometimes of a NaN, an infinity or a zero with its sign: what rests must keep them.
inline std::vector<std::byte> any_bits(Draw& draw, DType dtype, int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * bytes_of(dtype)));
  const auto size = static_cast<std::size_t>(bytes_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const double number = draw.one_in(20) ? draw.of({0.0, -0.0, 1.0}) : 16 * draw.real() - 8;
    uint64_t bits = 0;
    if (dtype == DType::f64) {
      std::memcpy(&bits, &number, 8);
    } else {
      const auto narrow = static_cast<float>(number);
      std::uint32_t word = 0;
      std::memcpy(&word, &narrow, 4);
      bits = dtype == DType::f32 ? word : dtype == DType::bf16 ? word >> 16 : (word >> 16 & 0x8000) | 0x3000 | (word >> 13 & 0xfff);
    }
    if (draw.one_in(20)) bits = static_cast<uint64_t>(draw.between(0, INT64_MAX)) * 2654435761U;
    std::memcpy(bytes.data() + i, &bits, size);
  }
  return bytes;
}

inline std::vector<int64_t> any_slots(Draw& draw, int64_t tokens, int64_t count) {
  std::vector<int64_t> slots(static_cast<std::size_t>(count));
  for (int64_t s = 0; s < count; ++s) slots[static_cast<std::size_t>(s)] = s;
  if (!draw.one_in(3)) {
    for (std::size_t i = slots.size() - 1; i > 0; --i)
      std::swap(slots[i], slots[static_cast<std::size_t>(draw.below(static_cast<int64_t>(i) + 1))]);
  }
  slots.resize(static_cast<std::size_t>(tokens));
  if (draw.one_in(2)) {
    for (int64_t& slot : slots) slot = draw.one_in(7) ? -1 : slot;
  }
  return slots;
}

/// Positions (axes, 1, tokens) before, and how far each moves.
struct MovedPositions {
  std::vector<int64_t> from;
  std::vector<int64_t> to;
};
inline MovedPositions any_moves(Draw& draw, int64_t axes, int64_t tokens, bool narrow) {
  const int64_t kind = draw.below(5);
  const int64_t alike = draw.of<int64_t>({-4096, -1, 1, 77, -100000, 0});
  MovedPositions moved;
  for (int64_t axis = 0; axis < axes; ++axis) {
    const int64_t first = draw.of<int64_t>({0, 1000, 1000000, narrow ? 7 : int64_t{1} << 40});
    for (int64_t t = 0; t < tokens; ++t) {
      int64_t by = alike;
      if (kind == 1) by = draw.between(-5000, 5000);     // each its own way
      if (kind == 2) by = t < tokens / 2 ? 0 : alike;    // the first rest
      if (kind == 3) by = axis == axes - 1 ? alike : 0;  // one axis of them
      int64_t from = first + t;
      if (kind == 4 && !narrow && draw.one_in(8)) {  // farther than 64 bits say
        from = (int64_t{1} << 62) + t;
        moved.from.push_back(from + (int64_t{1} << 61));
        moved.to.push_back(-(int64_t{1} << 62) - t);
        continue;
      }
      moved.from.push_back(from);
      moved.to.push_back(from + by);
    }
  }
  return moved;
}

inline RotarySpec any_moved_spec(Draw& draw, int64_t width, int64_t axes) {
  RotarySpec spec = {.head_dim = width};
  if (draw.one_in(5)) {
    spec.rotary_width = width / 2;
    spec.rotary_offset = draw.of<int64_t>({0, width / 2});
  }
  spec.pairing = draw.of({Pairing::half, Pairing::interleaved});
  spec.base = draw.of({10000.0, 500000.0});
  spec.sense = draw.one_in(5) ? Sense::clockwise : Sense::counterclockwise;
  if (axes == 3) {
    const int64_t pairs = (spec.rotary_width == 0 ? width : spec.rotary_width) / 2;
    spec.axes.sections = {pairs - 2 * (pairs / 3), pairs / 3, pairs / 3};
    spec.axes.order = draw.of({AxisOrder::chunked, AxisOrder::interleaved});
  } else {
    if (draw.one_in(3)) spec.scaling = YarnScaling{.factor = 4, .original_length = 4096};
    if (draw.one_in(6)) spec.segments = 2;
  }
  return spec;
}

/// A call of `tokens` tokens, 0: of any few.
inline std::optional<RandomCall> random_move(uint64_t seed, int64_t tokens) {
  Draw draw(seed);
  const DType dtype = draw.of({DType::f32, DType::f64, DType::f16, DType::bf16, DType::bf16});
  const bool many = tokens > 1000;  // then memory would be too much
  const int64_t width = many ? draw.of<int64_t>({64, 128}) : draw.of<int64_t>({64, 64, 96, 128, 128, 256});
  const int64_t axes = draw.one_in(4) ? 3 : 1;
  const Result<Rotary> rotary = Rotary::make(any_moved_spec(draw, width, axes));
  if (!rotary) return std::nullopt;
  RotarySpec before = rotary->spec();
  if (auto* yarn = std::get_if<YarnScaling>(&before.scaling); yarn != nullptr && draw.one_in(2)) yarn->attention_factor = 1.5;
  const Rotary old = *Rotary::make(before);
  if (tokens == 0) tokens = draw.of<int64_t>({1, 2, 5, 33, 70});
  const int64_t page = draw.of<int64_t>({1, 16, 17, 64});
  const int64_t pages = (tokens + page - 1) / page + 2;
  const MovedCache cache =
      any_cache(draw, dtype, {pages, page, many ? draw.of<int64_t>({1, 8}) : draw.of<int64_t>({1, 2, 8, 8, 40}), width});
  const bool narrow = draw.one_in(3);
  const MovedPositions moved = any_moves(draw, axes, tokens, narrow);
  const std::vector<int64_t> slots = any_slots(draw, tokens, pages * page);
  const auto bytes_of_list = [narrow](const std::vector<int64_t>& list, bool integers) {
    const std::vector<std::int32_t> small(list.begin(), list.end());
    const bool less = integers && narrow;
    std::vector<std::byte> bytes(list.size() * (less ? 4 : 8));
    std::memcpy(bytes.data(), less ? static_cast<const void*>(small.data()) : list.data(), bytes.size());
    return bytes;
  };
  const Direction direction = draw.of({Direction::forward, Direction::forward, Direction::inverse});
  RandomCall call = {
      "moves",
      {any_bits(draw, dtype, cache.elements), bytes_of_list(slots, false), bytes_of_list(moved.from, true), bytes_of_list(moved.to, true)},
      {dtype, DType::f64, narrow ? DType::f32 : DType::f64, narrow ? DType::f32 : DType::f64},
      {}};
  call.run = [=, rotary = *rotary](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
    const TensorView keys = {memory[0] + cache.first * bytes_of(dtype), dtype, cache.shape, cache.strides, device};
    const auto at = [&](std::size_t buffer) {
      return Positions{.data = memory[buffer],
                       .type = narrow ? PositionType::i32 : PositionType::i64,
                       .shape = {axes, 1, tokens},
                       .strides = {tokens, tokens, 1},
                       .device = device};
    };
    const Slots where({reinterpret_cast<const int64_t*>(memory[1]), static_cast<std::size_t>(tokens)}, device);
    return rerotate(keys, where, {old, at(2)}, {rotary, at(3)}, {direction, execution});
  };
  return call;
}

}  // namespace phasor::test
