// SPDX-License-Identifier: Apache-2.0
// Rows of learned tables added to tokens: one channel of one token, which is what a thread does.
#pragma once

#include "cuda/additive/channel.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/row_value.hpp"
#include "job/learned.hpp"

namespace phasor::cuda {

PHASOR_HD inline int64_t lookup_items(const job::LookupJob& job) { return job.batch * job.tokens * job.target.width; }

template <DType dtype>
PHASOR_HD inline void lookup_channel(const job::LookupJob& job, int64_t item) {
  using T = typename Element<dtype>::Value;
  const int64_t channel = item % job.target.width;
  const int64_t token = item / job.target.width % job.tokens;
  const int64_t batch = item / job.target.width / job.tokens;
  int64_t c = channel;
  int64_t axis = 0;
  for (; c >= job.tables[axis].width; ++axis) c -= job.tables[axis].width;
  const job::LookupTable& table = job.tables[axis];
  const int64_t row = whole_position(job.positions, axis, batch, token) + job.offset;
  channels_of<dtype>(job.target, batch, token).add(channel, table_value<T>(table.data, table.dtype, row * table.row_stride + c));
}

}  // namespace phasor::cuda
