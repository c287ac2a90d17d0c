// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of one pair at some tokens, one after the other, which is what a thread makes where many rows are written: where the
// positions are evenly apart, each from the one before it (math/sincos_walk.hpp). Float32, whole positions. Whatever is not proven is made
// by the definition.
#pragma once

#include <cstdint>

#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"
#include "cuda/rotary/row_value.hpp"
#include "math/sincos_walk.hpp"

namespace phasor::cuda {

/// Tokens of a thread where there are many.
constexpr int kWalk = 16;
/// Threads below which shorter walks are worth it.
constexpr int64_t kWalkThreads = 65536;

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
/// How walks of `tokens` and `items` of each token are cut into threads.
struct WalkShape {
  int64_t items;   // of a token
  int64_t walks;   // of a batch row
  int64_t tokens;  // of a batch row
};
PHASOR_HD inline int64_t narrow_quotient(int64_t n, int64_t by) {
  const auto narrow = static_cast<std::uint32_t>(n);
  const auto narrow_by = static_cast<std::uint32_t>(by);
  return n == narrow && by == narrow_by ? narrow / narrow_by : n / by;
}
template <int run>
PHASOR_HD inline WalkPlace walk_at(const WalkShape& shape, int64_t index, int64_t& item) {
  const int64_t walk = narrow_quotient(index, shape.items);
  item = index - walk * shape.items;
  const int64_t batch = narrow_quotient(walk, shape.walks);
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

/// Whether the positions of a walk are evenly apart, and how far. Not so far that a sum of them wraps.
template <int run>
PHASOR_HD inline bool is_even(const job::PositionSource& positions, int64_t axis, const WalkPlace& place, int64_t first, int64_t& apart) {
  if (place.count < 2) return false;
  const int64_t second = whole_position(positions, axis, place.batch, place.token + 1);
  if (!subtract(second, first, apart) || apart >> 31 != apart >> 63 || first >> 62 != first >> 63) return false;
  bool even = true;
  unrolled<run>([&](auto j) {
    if (j >= 2 && j < place.count) even = even && whole_position(positions, axis, place.batch, place.token + j) == first + j * apart;
  });
  return even;
}

/// A pair of a source, its axis and its tokens.
struct Walk {
  const job::RowSource& rows;
  math::Step step;
  int64_t axis;
  WalkPlace place;
};

/// each(j, value) with the value at token j where it is proven. Returns bits of the other tokens, which are done apart: what is called out
/// of line would take the registers of those that are on their way.
template <int run, class Each>
PHASOR_HD inline std::uint32_t walk_pair(const Walk& walk, const Each& each) {
  const math::FloatPair amplitude = math::pair_of(walk.rows.amplitude);
  const auto sign = static_cast<float>(walk.rows.sine_sign);
  const int64_t first = whole_position(walk.rows.positions, walk.axis, walk.place.batch, walk.place.token);
  if constexpr (run == 1) {
    CosSin<float> value{};
    if (math::sincos_by_pairs(math::phase128_of(walk.step, first), first, amplitude, value.cos, value.sin)) return 1;
    value.sin *= sign;
    each(std::integral_constant<int, 0>(), value);
    return 0;
  } else {
    int64_t apart = 0;
    math::WalkedPair point{};
    math::WalkedPair by{};
    const bool walks = is_even<run>(walk.rows.positions, walk.axis, walk.place, first, apart) &&
                       math::point_of(math::phase128_of(walk.step, first), first, point) &&
                       math::point_of(math::phase128_of(walk.step, apart), apart, by);
    if (!walks) return (1U << walk.place.count) - 1;
    if (amplitude.high != 1 || amplitude.low != 0) point = math::times(point, amplitude);
    std::uint32_t rest = 0;
    unrolled<run>([&](auto j) {
      if (j >= walk.place.count) return;
      const float error = math::walk_error(j) * amplitude.high;
      if (math::is_rounded_within(point.cos, error) && math::is_rounded_within(point.sin, error)) {
        each(j, CosSin<float>{point.cos.high, point.sin.high * sign});
      } else {
        rest |= 1U << j;
      }
      if (j + 1 < run) point = math::turned(point, by);
    });
    return rest;
  }
}

/// body(j) for each bit.
template <class Body>
PHASOR_HD inline void each_bit(std::uint32_t bits, const Body& body) {
  for (; bits != 0; bits &= bits - 1) body(31 - math::detail::leading_zeros(bits & (0U - bits)));
}

/// Level 1, then the definition, of one pair at one token: what the rest of a walk is made by, out of line.
template <class ByDefinition>
PHASOR_HD inline CosSin<float> surely(const job::RowSource& rows, const math::Step& step, int64_t position,
                                      const ByDefinition& by_definition) {
  CosSin<float> value{};
  if (math::sincos_by_pairs(math::phase128_of(step, position), position, math::pair_of(rows.amplitude), value.cos, value.sin)) {
    return by_definition();
  }
  value.sin *= static_cast<float>(rows.sine_sign);
  return value;
}

}  // namespace phasor::cuda
