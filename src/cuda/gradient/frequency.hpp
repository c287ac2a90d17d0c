// SPDX-License-Identifier: Apache-2.0
// The gradient by frequencies: a block sums some of them. Its threads make partial sums of kGradientTokens tokens, many at a time, which
// are then added in their order: the additions of the job, whatever the block.
#pragma once

#include "cuda/gradient/phase.hpp"
#include "cuda/position.hpp"

namespace phasor::cuda {

/// A sector of memory has eight float32.
constexpr int kFrequencies = 8;
constexpr int kParts = 32;
constexpr int kFrequencyThreads = kFrequencies * kParts;

struct FrequencyRoom {
  double partial[kParts][kFrequencies];
  double sums[kFrequencies];
};

PHASOR_HD inline int64_t frequency_blocks(const job::FrequencyGradientJob& job) {
  return (job.ladder.count + kFrequencies - 1) / kFrequencies;
}

/// Which pair, axis and heads a frequency of a ladder, (axes, heads, P) or one per pair, belongs to.
struct FrequencyAt {
  int64_t pair;
  int64_t axis;
  int64_t first_head;
  int64_t end_head;
};
PHASOR_HD inline FrequencyAt frequency_at(const job::FrequencyGradientJob& job, int64_t index) {
  const job::LadderSource& ladder = job.ladder;
  const int64_t pairs = job.gradient.shape[3];
  const int64_t heads = job.gradient.shape[2];
  if (ladder.axis_of_pair != nullptr) return {index, ladder.axis_of_pair[index], 0, heads};
  const int64_t head = index / pairs % ladder.heads;
  const bool own = ladder.heads != 1;
  return {index % pairs, index / pairs / ladder.heads, own ? head : 0, own ? head + 1 : heads};
}

PHASOR_HD inline double frequency_part(const job::FrequencyGradientJob& job, const FrequencyAt& at, int64_t part) {
  const Extents& shape = job.gradient.shape;
  const int64_t tokens = shape[0] * shape[1];
  const int64_t end = (part + 1) * job::kGradientTokens < tokens ? (part + 1) * job::kGradientTokens : tokens;
  double sum = 0;
  for (int64_t row = part * job::kGradientTokens; row < end; ++row) {
    const int64_t batch = row / shape[1];
    const int64_t token = row % shape[1];
    const double position = position_as_double(job.positions, at.axis, batch, token);
    for (int64_t head = at.first_head; head < at.end_head; ++head) {
      const int64_t index = index_of(job.gradient, batch, token, head) + at.pair;
      sum += math::chained(position, job::load_element(job.gradient.data, job.gradient.dtype, index));
    }
  }
  return sum;
}

template <class Block>
PHASOR_HD inline void frequency_gradient_block(const job::FrequencyGradientJob& job, int64_t index, FrequencyRoom& room, Block& block) {
  const int64_t first = index * kFrequencies;
  const int64_t tokens = job.gradient.shape[0] * job.gradient.shape[1];
  const int64_t parts = (tokens + job::kGradientTokens - 1) / job::kGradientTokens;
  const auto is_there = [&](int frequency) { return frequency < kFrequencies && first + frequency < job.ladder.count; };
  block.each([&](int thread, int) {
    if (is_there(thread)) room.sums[thread] = job::load_element(job.sum.data, job.sum.dtype, first + thread);
  });
  for (int64_t part = 0; part < parts; part += kParts) {
    block.each([&](int thread, int) {
      const int64_t own = part + thread / kFrequencies;
      const int frequency = thread % kFrequencies;
      if (own >= parts || !is_there(frequency)) return;
      room.partial[thread / kFrequencies][frequency] = frequency_part(job, frequency_at(job, first + frequency), own);
    });
    block.each([&](int thread, int) {
      if (!is_there(thread)) return;
      for (int p = 0; p < kParts && part + p < parts; ++p) room.sums[thread] += room.partial[p][thread];
    });
  }
  block.each([&](int thread, int) {
    if (is_there(thread)) job::store_element(job.sum.data, job.sum.dtype, first + thread, room.sums[thread]);
  });
}

}  // namespace phasor::cuda
