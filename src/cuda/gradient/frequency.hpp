// SPDX-License-Identifier: Apache-2.0
// The gradient by frequencies: a block sums some of them. Its threads make partial sums of kGradientTokens tokens, many at a time, which
// are then added in their order: the additions of the job, whatever the block.
#pragma once

#include "cuda/gradient/phase.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"

namespace phasor::cuda {

constexpr int kFrequencies = 4;
constexpr int kParts = 64;
/// Terms that a thread asks for before it adds the first: additions wait for each other, memory need not.
constexpr int kTermsAhead = 16;
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

/// A token and a head of a partial sum, in the order of its additions.
struct TermAt {
  int64_t batch;
  int64_t token;
  int64_t head;
};
PHASOR_HD inline void step_to_next(const FrequencyAt& at, int64_t tokens, TermAt& term) {
  if (++term.head < at.end_head) return;
  term.head = at.first_head;
  if (++term.token < tokens) return;
  term.token = 0;
  ++term.batch;
}

/// The terms of a partial sum. T is the gradient's element, `positions` those of the frequency's axis: with types known, a thread asks for
/// many of each before it waits.
template <class T, class PositionsAt>
PHASOR_HD inline double sum_of_part(const job::FrequencyGradientJob& job, const FrequencyAt& at, int64_t part,
                                    const PositionsAt& positions) {
  const Extents& shape = job.gradient.shape;
  const int64_t tokens = shape[0] * shape[1];
  const int64_t first = part * job::kGradientTokens;
  const int64_t left = tokens - first < job::kGradientTokens ? tokens - first : job::kGradientTokens;
  const int64_t count = left * (at.end_head - at.first_head);
  const T* const gradient = static_cast<const T*>(job.gradient.data) + at.pair;
  TermAt term = {first / shape[1], first % shape[1], at.first_head};
  double sum = 0;
  for (int64_t n = 0; n < count; n += kTermsAhead) {
    decltype(positions.at(0, 0)) position[kTermsAhead];
    T value[kTermsAhead];
    unrolled<kTermsAhead>([&](auto i) {
      if (n + i >= count) return;
      position[i] = positions.at(term.batch, term.token);
      value[i] = gradient[index_of(job.gradient, term.batch, term.token, term.head)];
      step_to_next(at, shape[1], term);
    });
    unrolled<kTermsAhead>([&](auto i) {
      if (n + i < count) sum += math::chained(static_cast<double>(position[i]), job::number_of(value[i]));
    });
  }
  return sum;
}
PHASOR_HD inline double frequency_part(const job::FrequencyGradientJob& job, const FrequencyAt& at, int64_t part) {
  return with_positions(job.positions, at.axis, [&](const auto& positions) {
    return job.gradient.dtype == DType::f64 ? sum_of_part<double>(job, at, part, positions) : sum_of_part<float>(job, at, part, positions);
  });
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
