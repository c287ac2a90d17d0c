// SPDX-License-Identifier: Apache-2.0
// The cosine and sine that one thread of a team makes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/teams/memory.hpp"

namespace phasor::cuda {

template <class Knows>
PHASOR_HD inline Asked asked_of(const TeamWorkAt& work, const TeamPlace& place, int pair) {
  const TeamShape& shape = work.shape();
  const auto at = [&](unsigned axis) { return position_bits(shape.sines, axis, place.batch, place.token); };
  if constexpr (Knows::plain) return {work.steps[pair], at(0)};
  if (seldom(shape.by_tables)) return {};
  const math::Step step = work.steps[pair];
  return {step, at(seldom(shape.sines.many_axes) ? work.axis_of_pair[pair] : 0U)};
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
  const SineSource& sines = work.shape().sines;
  if constexpr (sizeof(T) == sizeof(float)) {
    return sine_of(sines, asked, value);
  } else {
    const int64_t position = position_of(sines, asked.position);
    math::sincos(asked.step, position, work.rows->amplitude, value.cos, value.sin);
    value.sin *= static_cast<T>(sines.sine_sign);
    return position == 0;
  }
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
