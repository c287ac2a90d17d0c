// SPDX-License-Identifier: Apache-2.0
// cos_sin: one value of a row written out, or one pair of some rows, which is what a thread does.
#pragma once

#include "cuda/rotary/row_value.hpp"
#include "cuda/rotary/walk.hpp"

namespace phasor::cuda {

/// Values per row and head.
PHASOR_HD inline int64_t row_values(const job::RowsJob& job) { return job.tile != 0 ? 2 * job.pairs : job.pairs; }

/// The pair whose value is written at `index`: with per-channel frequencies each segment's ladder is there twice.
PHASOR_HD inline int64_t pair_at(const job::RowsJob& job, int64_t index) {
  return job.tile == 0 ? index : index / (2 * job.tile) * job.tile + index % job.tile;
}

template <class T>
PHASOR_HD inline void write_row_value(const job::RowsJob& job, const std::byte* tables, int64_t thread) {
  const int64_t width = row_values(job);
  const int64_t index = thread % width;
  const int64_t head = thread / width % job.heads;
  const int64_t token = thread / width / job.heads % job.tokens;
  const int64_t batch = thread / width / job.heads / job.tokens;
  const RowPlace place = {batch, token, head, 0};
  const CosSin<T> value = lane_value<T>({&job.rows, tables}, place, pair_at(job, index), 0);
  T* const cos = reinterpret_cast<T*>(job.cos) + batch * job.cos_strides[0] + token * job.cos_strides[1] + head * job.cos_strides[2];
  T* const sin = reinterpret_cast<T*>(job.sin) + batch * job.sin_strides[0] + token * job.sin_strides[1] + head * job.sin_strides[2];
  cos[index] = value.cos;
  // The transpose of per-channel frequencies takes the sine of the other channel.
  sin[job.tile != 0 && job.rows.swap_sines ? index ^ 1 : index] = value.sin;
}

// ---- By walks: one pair of some tokens ----

inline bool walks(const job::RowsJob& job) { return job.dtype == DType::f32 && job.tile == 0 && job.heads == 1 && can_walk(job.rows); }

/// Sines::of is lane_value<float> of lane 0, out of line.
template <int run, class Sines>
PHASOR_HD inline void write_walk(const job::RowsJob& job, const Rows& rows, const WalkShape& shape, int64_t index) {
  int64_t pair = 0;
  const WalkPlace place = walk_at<run>(shape, index, pair);
  const int64_t axis = axis_of(rows, pair, {});
  float* const cos = reinterpret_cast<float*>(job.cos) + place.batch * job.cos_strides[0] + place.token * job.cos_strides[1] + pair;
  float* const sin = reinterpret_cast<float*>(job.sin) + place.batch * job.sin_strides[0] + place.token * job.sin_strides[1] + pair;
  const Walk walk = {job.rows, rows.steps()[pair], axis, place};
  const int64_t cos_stride = job.cos_strides[1];
  const int64_t sin_stride = job.sin_strides[1];
  const auto write = [&](int j, const CosSin<float>& value) {
    cos[j * cos_stride] = value.cos;
    sin[j * sin_stride] = value.sin;
  };
  const std::uint32_t rest = walk_pair<run>(walk, write);
  each_bit(rest, [&](int j) {
    const RowPlace row = {place.batch, place.token + j};
    write(j, value_apart(walk, j, [&] { return Sines::of(rows, row, pair); }));
  });
}

}  // namespace phasor::cuda
