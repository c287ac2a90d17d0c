// SPDX-License-Identifier: Apache-2.0
// The cosine and sine that one thread of a team makes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/teams/memory.hpp"

namespace phasor::cuda {

/// A position as it lies in memory, with zeros above 32 bits: nothing is done to it before it is needed, which would wait for it.
PHASOR_HD inline math::u64 position_bits(const TeamShape& shape, unsigned axis, const TeamPlace& place) {
  if (shape.positions == nullptr) return static_cast<math::u64>(shape.offset) + static_cast<math::u64>(place.token);
  const math::u64 index = math::u64{axis} * shape.position_axis + math::u64{static_cast<unsigned>(place.batch)} * shape.position_batch +
                          math::u64{static_cast<unsigned>(place.token)} * shape.position_token;
  return shape.narrow_positions ? static_cast<const math::u32*>(shape.positions)[index]
                                : static_cast<const math::u64*>(shape.positions)[index];
}
PHASOR_HD inline int64_t position_of(const TeamShape& shape, math::u64 bits) {
  return shape.narrow_positions ? int64_t{static_cast<std::int32_t>(bits)} : static_cast<int64_t>(bits);
}

/// What a thread asks memory for before anything else: its sine waits for it.
struct Asked {
  math::Step step;
  math::u64 position;
};
template <class Knows>
PHASOR_HD inline Asked asked_of(const TeamWorkAt& work, const TeamPlace& place, int pair) {
  const TeamShape& shape = work.shape();
  if constexpr (Knows::plain) return {work.steps[pair], position_bits(shape, 0, place)};
  if (seldom(shape.by_tables)) return {};
  const math::Step step = work.steps[pair];
  return {step, position_bits(shape, seldom(shape.many_axes) ? work.axis_of_pair[pair] : 0U, place)};
}

template <class T>
PHASOR_HD inline bool same_bits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(float), math::u32, math::u64>;
  return math::bit_cast<Bits>(a) == math::bit_cast<Bits>(b);
}

/// The value of a pair. True where it must be made again: it is not proven, or its two lanes are not alike.
template <class T>
PHASOR_HD inline bool table_value_of(const TeamWorkAt& work, const TeamPlace& place, int pair, CosSin<T>& value) {
  const RowPlace row = {place.batch, place.token, 0, segment_of(work.shape(), pair)};
  const PairRow<T> both = table_row<T>(work.rows, row, pair);
  value = both.lane[0];
  return !same_bits(value.cos, both.lane[1].cos) || !same_bits(value.sin, both.lane[1].sin);
}
template <class T>
PHASOR_HD inline bool phase_value_of(const TeamWorkAt& work, const Asked& asked, CosSin<T>& value) {
  const int64_t position = position_of(work.shape(), asked.position);
  bool doubt = false;
  if constexpr (sizeof(T) == sizeof(float)) {
    doubt = math::sincos_by_pairs(math::phase128_of(asked.step, position), position, work.shape().amplitude, value.cos, value.sin);
  } else {
    doubt = position == 0;
    math::sincos(asked.step, position, work.rows->amplitude, value.cos, value.sin);
  }
  value.sin *= static_cast<T>(work.shape().sine_sign);
  return doubt;
}
/// True also where the pair rests: it is left bit for bit, which costs an instruction for each element.
template <class Knows, class T>
PHASOR_HD inline bool make_value(const TeamWorkAt& work, const TeamPlace& place, int pair, const Asked& asked, CosSin<T>& value) {
  bool again = false;
  if (!Knows::plain && seldom(work.shape().by_tables)) {
    again = table_value_of(work, place, pair, value);
  } else {
    again = phase_value_of(work, asked, value);
  }
  return again || math::is_identity(value.cos, value.sin);
}

/// Both lanes of a pair of a common row, by the definition.
template <class T>
PHASOR_HD inline PairRow<T> common_row(const TeamWorkAt& work, const TeamPlace& place, int pair) {
  const Rows& rows = work.rows;
  if (rows->kind == job::RowSource::Kind::tables) {
    return table_row<T>(rows, {place.batch, place.token, 0, segment_of(work.shape(), pair)}, pair);
  }
  const CosSin<T> value = phase_value<T>(rows, positions_of<int64_t>(rows->positions, place.batch, place.token), pair, {});
  return {{value, value}};
}

}  // namespace phasor::cuda
