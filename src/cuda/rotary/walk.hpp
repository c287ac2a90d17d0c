// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of one pair at some tokens, one after the other, which is what a thread makes where many rows are written: where the
// positions are evenly apart, each from the one before it (math/phase/walk.hpp). Float32, whole positions. Whatever is not proven is made
// by the definition.
#pragma once

#include <cstdint>

#include "cuda/bits.hpp"
#include "cuda/divided.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"
#include "cuda/rotary/row_value.hpp"
#include "cuda/tuning.hpp"
#include "math/phase/walk.hpp"

namespace phasor::cuda {

/// Whether a source's values are of walks: exact values at whole positions, one axis for each pair.
inline bool can_walk(const job::RowSource& rows) {
  return rows.kind == job::RowSource::Kind::phases && rows.profile.count == 0 && !has_fractions(rows.positions) &&
         rows.step_axis_stride == 0 && rows.step_lane_stride == 0 && rows.step_head_stride == 0 && rows.amplitude > 0x1p-64 &&
         rows.amplitude < 0x1p64;
}

/// Tokens [token, token + count) of a batch row.
struct WalkPlace {
  int64_t batch;
  int64_t token;
  int count;
};
/// How tokens, each of so many items, are cut into threads.
struct WalkShape {
  int64_t items;   // of a token
  int64_t walks;   // of a batch row
  int64_t tokens;  // of a batch row
};
template <int run>
PHASOR_HD inline WalkPlace walk_at(const WalkShape& shape, int64_t index, int64_t& item) {
  const int64_t walk = divided(index, shape.items);
  item = index - walk * shape.items;
  const int64_t batch = divided(walk, shape.walks);
  const int64_t token = (walk - batch * shape.walks) * run;
  const int64_t left = shape.tokens - token;
  return {batch, token, left < run ? static_cast<int>(left) : run};
}
PHASOR_HD inline WalkShape walk_shape(int64_t items, int64_t tokens, int run) { return {items, (tokens + run - 1) / run, tokens}; }
inline int64_t walk_threads(const WalkShape& shape, int64_t batch) { return shape.items * shape.walks * batch; }
/// Whether long walks leave enough threads.
inline bool walks_far(int64_t items, int64_t batch, int64_t tokens) {
  return walk_threads(walk_shape(items, tokens, kWalk), batch) >= kWalkThreads;
}

/// Whether a whole walk's positions are evenly apart: how far, and the one in the middle. Not so far that a sum of them wraps.
struct EvenPositions {
  bool even;
  int64_t middle;
  int64_t apart;
};
template <int run>
PHASOR_HD inline EvenPositions even_positions(const job::PositionSource& positions, int64_t axis, const WalkPlace& place) {
  return with_whole_positions(positions, axis, [&](const auto& source) {
    int64_t at[run];
    unrolled<run>([&](auto j) { at[j] = source.at(place.batch, place.token + j); });
    EvenPositions found{true, at[run / 2], 0};
    found.even = subtract(at[1], at[0], found.apart) && found.apart >> 31 == found.apart >> 63 && at[0] >> 62 == at[0] >> 63;
    unrolled<run>([&](auto j) { found.even = found.even && at[j] == at[0] + j * found.apart; });
    return found;
  });
}

/// A pair of a source, its axis and its tokens.
struct Walk {
  const job::RowSource& rows;
  math::Step step;
  int64_t axis;
  WalkPlace place;
};

/// A walk of all its tokens, from the middle to both sides: errors grow with the steps, and two chains wait less than one.
template <int run, class Each>
PHASOR_HD inline std::uint32_t walk_all(const Walk& walk, std::uint32_t all, const Each& each) {
  constexpr int kMiddle = run / 2;
  const EvenPositions at = even_positions<run>(walk.rows.positions, walk.axis, walk.place);
  math::WalkedPair point{};
  math::WalkedPair by{};
  if (!at.even || !math::point_of(math::phase128_of(walk.step, at.middle), at.middle, point) ||
      !math::point_of(math::phase128_of(walk.step, at.apart), at.apart, by)) {
    return all;
  }
  const math::FloatPair amplitude = math::pair_of(walk.rows.amplitude);
  const auto sign = static_cast<float>(walk.rows.sine_sign);
  if (amplitude.high != 1 || amplitude.low != 0) point = math::times(point, amplitude);
  std::uint32_t rest = 0;
  const auto emit = [&](auto j, const math::WalkedPair& value, float error) {
    if (math::is_rounded_within(value.cos, error) && math::is_rounded_within(value.sin, error)) {
      each(j, CosSin<float>{value.cos.high, value.sin.high * sign});
    } else {
      rest |= 1U << j;
    }
  };
  math::WalkedPair before = point;
  unrolled<kMiddle>([&](auto n) {
    before = math::turned(before, math::reversed(by));
    emit(std::integral_constant<int, kMiddle + n>(), point, math::walk_error(n) * amplitude.high);
    emit(std::integral_constant<int, kMiddle - 1 - n>(), before, math::walk_error(n + 1) * amplitude.high);
    point = math::turned(point, by);
  });
  return rest;
}

/// each(j, value) with the value at token j where it is proven. Returns bits of the other tokens, which are done apart: what is called out
/// of line would take the registers of those that are on their way.
template <int run, class Each>
PHASOR_HD inline std::uint32_t walk_pair(const Walk& walk, const Each& each) {
  const std::uint32_t all = (1U << walk.place.count) - 1;
  if constexpr (run > 1) {
    if (walk.place.count == run) return walk_all<run>(walk, all, each);
  }
  return all;
}

/// The value at token j by level 1; in doubt by definition(), out of line.
template <class Definition>
PHASOR_HD inline CosSin<float> value_apart(const Walk& walk, int j, const Definition& definition) {
  const int64_t position = whole_position(walk.rows.positions, walk.axis, walk.place.batch, walk.place.token + j);
  CosSin<float> value{};
  if (math::sincos_by_pairs(math::phase128_of(walk.step, position), position, math::pair_of(walk.rows.amplitude), value.cos, value.sin)) {
    return definition();
  }
  value.sin *= static_cast<float>(walk.rows.sine_sign);
  return value;
}

}  // namespace phasor::cuda
