// SPDX-License-Identifier: Apache-2.0
// cos_sin by level 1 in float64: a thread has one pair of some tokens. For devices whose float64 is fast; whatever is not proven is made by
// the definition.
#pragma once

#include "cuda/rotary/rows.hpp"
#include "math/sincos_doubles.hpp"

namespace phasor::cuda {

/// A thread's pair and tokens.
struct RowsPlace {
  int64_t pair;
  WalkPlace tokens;
  float* cos;  // of the first token
  float* sin;
};
template <int run>
PHASOR_HD inline RowsPlace rows_place(const job::RowsJob& job, const WalkShape& shape, int64_t index) {
  int64_t pair = 0;
  const WalkPlace at = walk_at<run>(shape, index, pair);
  return {pair, at, reinterpret_cast<float*>(job.cos) + at.batch * job.cos_strides[0] + at.token * job.cos_strides[1] + pair,
          reinterpret_cast<float*>(job.sin) + at.batch * job.sin_strides[0] + at.token * job.sin_strides[1] + pair};
}

/// The values at a thread's tokens. Bits of those in doubt, which are for when everything else is done.
template <int run>
PHASOR_HD inline math::u32 write_by_doubles(const job::RowsJob& job, const Rows& rows, const WalkShape& shape, int64_t index) {
  const RowsPlace place = rows_place<run>(job, shape, index);
  const math::Step* const step = rows.steps() + place.pair;
  const math::u64 high = step->fraction[2];
  const math::u64 low = step->fraction[1];
  const RowOfPositions positions = row_of(job.rows.positions, axis_of(rows, place.pair, {}), place.tokens.batch);
  const double amplitude = job.rows.amplitude;
  const auto sign = static_cast<float>(job.rows.sine_sign);
  int64_t at[run] = {};
  unrolled<run>([&](auto j) {
    if (j < place.tokens.count) at[j] = positions.at(place.tokens.token + j);
  });
  math::u32 doubts = 0;
  unrolled<run>([&](auto j) {
    if (j >= place.tokens.count) return;
    const auto narrow = static_cast<math::u32>(at[j]);
    const math::Phase128 phase =
        at[j] == int64_t{narrow} ? math::phase128_of_short(high, low, narrow) : math::phase128_of({{0, low, high}, 0}, at[j]);
    CosSin<float> value{};
    if (math::sincos_by_doubles(phase, at[j], amplitude, value.cos, value.sin)) doubts |= 1U << j;
    place.cos[j * job.cos_strides[1]] = value.cos;
    place.sin[j * job.sin_strides[1]] = value.sin * sign;
  });
  return doubts;
}

/// The value at a thread's token j by the definition. Kernels call it out of line, with few numbers: the thread's place is found again.
template <int run>
PHASOR_HD inline void settle_row(const job::RowsJob& job, const Rows& rows, const WalkShape& shape, int64_t index, int j) {
  const RowsPlace place = rows_place<run>(job, shape, index);
  const CosSin<float> value = lane_value<float>(rows, {place.tokens.batch, place.tokens.token + j}, place.pair, 0);
  place.cos[j * job.cos_strides[1]] = value.cos;
  place.sin[j * job.sin_strides[1]] = value.sin;
}

}  // namespace phasor::cuda
