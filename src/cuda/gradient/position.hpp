// SPDX-License-Identifier: Apache-2.0
// The gradient by positions: one token of `out`, every axis of it, which is what a thread does.
#pragma once

#include "cuda/gradient/phase.hpp"

namespace phasor::cuda {

PHASOR_HD inline int64_t position_items(const job::PositionGradientJob& job) { return job.batch * job.tokens; }

/// sums[axis] += what one head of one token gives.
template <class T>
PHASOR_HD inline void add_position_head(const job::PositionGradientJob& job, const T* row, int64_t head, double* sums) {
  const job::LadderSource& ladder = job.ladder;
  const int64_t pairs = job.gradient.shape[3];
  const bool one = job.out.shape[0] == 1;  // one position is that of every axis
  if (ladder.axis_of_pair != nullptr && !one) {
    for (int64_t i = 0; i < pairs; ++i) sums[ladder.axis_of_pair[i]] += math::chained(ladder.frequencies[i], row[i]);
    return;
  }
  const int64_t ladders = ladder.axis_of_pair == nullptr ? ladder.axes : 1;
  for (int64_t axis = 0; axis < ladders; ++axis) {  // (axes, heads, P)
    const double* const frequencies = ladder.frequencies + (axis * ladder.heads + (ladder.heads == 1 ? 0 : head)) * pairs;
    sums[one ? 0 : axis] += math::position_gradient(frequencies, row, pairs);
  }
}

template <class T>
PHASOR_HD inline void position_gradient_item(const job::PositionGradientJob& job, int64_t item) {
  const int64_t batch = item / job.tokens;
  const int64_t token = item % job.tokens;
  const bool shared = job.out.shape[1] == 1;
  const int64_t end = shared ? job.gradient.shape[0] : batch + 1;
  double sums[job::kMaxAxes] = {};
  for (int64_t from = shared ? 0 : batch; from < end; ++from) {
    for (int64_t head = 0; head < job.gradient.shape[2]; ++head) {
      add_position_head(job, static_cast<const T*>(job.gradient.data) + index_of(job.gradient, from, token, head), head, sums);
    }
  }
  double* const out = static_cast<double*>(job.out.data) + batch * job.out.strides[1] + token * job.out.strides[2];
  for (int64_t axis = 0; axis < job.out.shape[0]; ++axis) out[axis * job.out.strides[0]] = sums[axis];
}

}  // namespace phasor::cuda
