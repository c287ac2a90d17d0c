// SPDX-License-Identifier: Apache-2.0
// The gradient by phases: one pair of one head of `out`, which is what a thread does.
#pragma once

#include "job/element.hpp"
#include "job/phase_gradient.hpp"
#include "math/phase/gradient.hpp"

namespace phasor::cuda {

using std::int64_t;

PHASOR_HD inline int64_t phase_items(const job::PhaseGradientJob& job) { return job.batch * job.tokens * job.out.shape[2] * job.pairs; }

template <class View>
PHASOR_HD inline int64_t index_of(const View& v, int64_t batch, int64_t token, int64_t head) {
  return batch * v.strides[0] + token * v.strides[1] + head * v.strides[2];
}

/// The two channels of a pair, from the first of its head on.
struct PairAt {
  int64_t first;
  int64_t second;
};
PHASOR_HD inline PairAt pair_channels(const job::PhaseGradientJob& job, int64_t pair) {
  if (job.interleaved) return {job.offset + 2 * pair, job.offset + 2 * pair + 1};
  const int64_t first = job.offset + pair + pair / job.segment_pairs * job.segment_pairs;  // the segments before have both lanes
  return {first, first + job.segment_pairs};
}

PHASOR_HD inline double pair_gradient(const job::PhaseGradientJob& job, int64_t batch, int64_t token, int64_t head, const PairAt& at) {
  const auto value = [](const ConstTensorView& v, int64_t index) { return job::load_element(v.data, v.dtype, index); };
  const int64_t y = index_of(job.rotated, batch, token, head);
  const int64_t g = index_of(job.gradient, batch, token, head);
  return math::phase_gradient(value(job.rotated, y + at.first), value(job.rotated, y + at.second), value(job.gradient, g + at.first),
                              value(job.gradient, g + at.second));
}

/// A sum over heads, at its element of `out`.
PHASOR_HD inline void put_phase_gradient(const job::PhaseGradientJob& job, int64_t to, double sum) {
  sum = job.clockwise ? -sum : sum;
  job::store_element(job.out.data, job.out.dtype, to, job.add ? job::load_element(job.out.data, job.out.dtype, to) + sum : sum);
}

PHASOR_HD inline void phase_gradient_item(const job::PhaseGradientJob& job, int64_t item) {
  const int64_t pair = item % job.pairs;
  const int64_t out_head = item / job.pairs % job.out.shape[2];
  const int64_t row = item / job.pairs / job.out.shape[2];
  const int64_t batch = row / job.tokens;
  const int64_t token = row % job.tokens;
  const bool own = job.out.shape[2] != 1;
  const int64_t end = own ? out_head + 1 : job.rotated.shape[2];
  const PairAt at = pair_channels(job, pair);
  double sum = 0;
  for (int64_t head = own ? out_head : 0; head < end; ++head) sum += pair_gradient(job, batch, token, head, at);
  put_phase_gradient(job, index_of(job.out, batch, token, out_head) + pair, sum);
}

}  // namespace phasor::cuda
