// SPDX-License-Identifier: Apache-2.0
// cos_sin: one value of a row written out, which is what a thread does.
#pragma once

#include "cuda/rotary/row_value.hpp"

namespace phasor::cuda {

/// Values per row and head.
PHASOR_HD inline int64_t row_values(const job::RowsJob& job) { return job.tile != 0 ? 2 * job.pairs : job.pairs; }

/// The pair whose value is written at `index`: with tiled lanes each segment's ladder is there twice.
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
  // The transpose of tiled lanes takes the sine of the other channel.
  sin[job.tile != 0 && job.rows.swap_sines ? index ^ 1 : index] = value.sin;
}

}  // namespace phasor::cuda
