// SPDX-License-Identifier: Apache-2.0
// cos_sin by level 1 in float64: a thread has one pair of some tokens. For devices whose float64 is fast; whatever is not proven is made by
// the definition.
#pragma once

#include "cuda/rotary/rows.hpp"
#include "math/sincos_doubles.hpp"

namespace phasor::cuda {

/// Pairs of a warp, one a lane; the warps of a block have as many runs of tokens. So nothing is divided.
constexpr int kDoublesLanes = 32;

/// What a grid of x * y * z blocks is of: runs of tokens by blocks of `warps`, pairs by lanes, batch rows.
struct DoublesGrid {
  int64_t x;
  int64_t y;
  int64_t z;
};
inline DoublesGrid doubles_grid(const job::RowsJob& job, int run, int warps) {
  const int64_t tokens = int64_t{run} * warps;
  return {(job.tokens + tokens - 1) / tokens, (job.pairs + kDoublesLanes - 1) / kDoublesLanes, job.batch};
}
/// Whether CUDA has such grids.
inline bool fits(const DoublesGrid& grid) { return grid.x < int64_t{1} << 31 && grid.y < 65536 && grid.z < 65536; }

/// A thread's pair, and which run of which batch row.
struct DoublesThread {
  int64_t pair;
  int64_t run;
  int64_t batch;
};

/// A thread's tokens, and where their values are.
struct RowsPlace {
  int64_t token;  // first
  int count;
  float* cos;  // of the first
  float* sin;
};
template <int run>
PHASOR_HD inline RowsPlace rows_place(const job::RowsJob& job, const DoublesThread& thread) {
  const int64_t token = thread.run * run;
  const int64_t left = job.tokens - token;
  return {token, left < run ? static_cast<int>(left) : run,
          reinterpret_cast<float*>(job.cos) + thread.batch * job.cos_strides[0] + token * job.cos_strides[1] + thread.pair,
          reinterpret_cast<float*>(job.sin) + thread.batch * job.sin_strides[0] + token * job.sin_strides[1] + thread.pair};
}

/// The values at a thread's tokens. Bits of those in doubt, which are for when everything else is done.
template <int run>
PHASOR_HD inline math::u32 write_by_doubles(const job::RowsJob& job, const Rows& rows, const DoublesThread& thread) {
  const RowsPlace place = rows_place<run>(job, thread);
  const math::Step* const step = rows.steps() + thread.pair;
  const math::u64 high = step->fraction[2];
  const math::u64 low = step->fraction[1];
  const RowOfPositions positions = row_of(job.rows.positions, axis_of(rows, thread.pair, {}), thread.batch);
  const auto sign = static_cast<float>(job.rows.sine_sign);
  int64_t at[run];
  read_positions(positions, place.token, place.count, at);
  math::PhaseNear near[run];
  unrolled<run>([&](auto j) {
    const auto narrow = static_cast<math::u32>(at[j]);
    near[j] = at[j] == int64_t{narrow} ? math::phase_near(high, low, narrow) : math::phase_near(high, low, at[j]);
  });
  float cos[run];
  float sin[run];
  const math::u32 doubts = math::sincos_by_doubles(near, job.rows.amplitude, cos, sin);
  unrolled<run>([&](auto j) {
    if (j >= place.count) return;
    place.cos[j * job.cos_strides[1]] = cos[j];
    place.sin[j * job.sin_strides[1]] = sin[j] * sign;
  });
  return doubts & ((1U << place.count) - 1);
}

/// The value at a thread's token j by the definition. Kernels call it out of line, with few numbers: the thread's place is found again.
template <int run>
PHASOR_HD inline void settle_row(const job::RowsJob& job, const Rows& rows, const DoublesThread& thread, int j) {
  const RowsPlace place = rows_place<run>(job, thread);
  const CosSin<float> value = lane_value<float>(rows, {thread.batch, place.token + j}, thread.pair, 0);
  place.cos[j * job.cos_strides[1]] = value.cos;
  place.sin[j * job.sin_strides[1]] = value.sin;
}

}  // namespace phasor::cuda
