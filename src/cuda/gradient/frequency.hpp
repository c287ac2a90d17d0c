// SPDX-License-Identifier: Apache-2.0
// The gradient by frequencies: a block sums some of them. Its threads make terms side by side, many tokens at a time, whoever will add
// them; then one thread each adds the terms of a partial sum of kGradientTokens tokens, and one those sums, in their order: the additions
// of the job, whatever the block.
#pragma once

#include <type_traits>

#include "cuda/divided.hpp"
#include "cuda/gradient/phase.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"

namespace phasor::cuda {

constexpr int kFrequencyThreads = 256;
/// Terms that a thread makes at a time, all of whose numbers are on their way together, and those of a block.
constexpr int kTermsAhead = 16;
constexpr int kTermBits = 12;
static_assert(kTermsAhead * kFrequencyThreads == 1 << kTermBits);
/// Partial sums that a block has at a time, at most.
constexpr int kPartBits = 6;
/// A block has one frequency of few, so that there are many blocks, and four of many, which lie in one sector of memory.
constexpr int64_t kFewFrequencies = 128;
constexpr int kFrequencyBits = 2;

/// How a block's terms are cut: so many frequencies, parts and terms of each, all powers of two.
struct FrequencyShape {
  int frequency_bits;
  int part_bits;
  int term_bits;

  PHASOR_HD int frequencies() const { return 1 << frequency_bits; }
  PHASOR_HD int parts() const { return 1 << part_bits; }
  PHASOR_HD int terms() const { return 1 << term_bits; }
  /// Where a part's terms are; one row more than they need, so that threads that add read from different banks.
  PHASOR_HD int term(int part, int term, int frequency) const {
    return (((part << term_bits) + part + term) << frequency_bits) + frequency;
  }
};
PHASOR_HD inline int64_t frequency_parts(const job::FrequencyGradientJob& job) {
  return (job.gradient.shape[0] * job.gradient.shape[1] + job::kGradientTokens - 1) / job::kGradientTokens;
}
PHASOR_HD inline FrequencyShape frequency_shape(const job::FrequencyGradientJob& job) {
  const int frequency_bits = job.ladder.count <= kFewFrequencies ? 0 : kFrequencyBits;
  const int64_t parts = frequency_parts(job);
  int part_bits = 0;
  while (part_bits < kPartBits && int64_t{1} << part_bits < parts) ++part_bits;
  return {frequency_bits, part_bits, kTermBits - frequency_bits - part_bits};
}

struct FrequencyRoom {
  double terms[(1 << kTermBits) + (1 << (kPartBits + kFrequencyBits))];
  double partial[1 << (kPartBits + kFrequencyBits)];
};

PHASOR_HD inline int64_t frequency_blocks(const job::FrequencyGradientJob& job) {
  const FrequencyShape shape = frequency_shape(job);
  return (job.ladder.count + shape.frequencies() - 1) >> shape.frequency_bits;
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
  const int64_t row = divided(index, pairs);
  const int64_t axis = divided(row, ladder.heads);
  const int64_t head = row - axis * ladder.heads;
  const bool own = ladder.heads != 1;
  return {index - row * pairs, axis, own ? head : 0, own ? head + 1 : heads};
}

/// A position that is counted, not read.
struct Counted {
  int64_t position;
  PHASOR_HD explicit operator double() const { return static_cast<double>(position); }
};

/// What a thread holds: numbers that it has asked for, and its own sums.
template <class T, class Position>
struct FrequencyState {
  T value[kTermsAhead];
  Position position[kTermsAhead];
  unsigned asked;  // a bit for each of these that is there
  double sum;      // of a part
  double total;    // of a frequency
};

/// The work of one block. T is the gradient's element, PositionsAt those of any axis: with types known, a thread asks for many of each
/// before it waits.
template <class T, class Position>
struct FrequencySummer {
  using State = FrequencyState<T, Position>;
  const job::FrequencyGradientJob& job;
  FrequencyShape shape;
  int64_t first;  // frequency of the block
  FrequencyRoom& room;

  PHASOR_HD bool is_there(int frequency) const { return frequency < shape.frequencies() && first + frequency < job.ladder.count; }
  /// Terms of a part: heads of each of its tokens.
  PHASOR_HD int64_t terms_of(int64_t part, int64_t heads) const {
    const int64_t left = job.gradient.shape[0] * job.gradient.shape[1] - part * job::kGradientTokens;
    return (left < 0 ? 0 : left < job::kGradientTokens ? left : job::kGradientTokens) * heads;
  }
  PHASOR_HD int64_t most_terms() const {
    const FrequencyAt at = frequency_at(job, first);
    return terms_of(0, at.end_head - at.first_head);
  }

  /// Asks for the numbers of the terms from `from` on of the parts from `first_part` on.
  PHASOR_HD void ask(int64_t first_part, int64_t from, int thread, State& state) const {
    const int frequency = thread & (shape.frequencies() - 1);  // the same of all terms of a thread
    state.asked = 0;
    if (!is_there(frequency)) return;
    const FrequencyAt at = frequency_at(job, first + frequency);
    const int64_t heads = at.end_head - at.first_head;
    const int64_t in_batch = job.gradient.shape[1];
    const auto* const gradient = static_cast<const T*>(job.gradient.data) + at.pair;
    const bool one_row = job.gradient.shape[0] == 1;
    const int64_t left = terms_of(first_part, heads) - from;  // of the part that has most
    if (left <= 0) return;
    const auto ask_one = [&](auto k) {
      const int place = (k * kFrequencyThreads + thread) >> shape.frequency_bits;
      const int64_t term = from + (place & (shape.terms() - 1));
      const int64_t part = first_part + (place >> shape.term_bits);
      if (term >= terms_of(part, heads)) return;
      const int64_t row = heads == 1 ? term : divided(term, heads);
      const int64_t index = part * job::kGradientTokens + row;
      const int64_t batch = one_row ? 0 : divided(index, in_batch);
      const int64_t token = index - batch * in_batch;
      state.asked |= 1U << k;
      state.value[k] = gradient[index_of(job.gradient, batch, token, at.first_head + term - row * heads)];
      state.position[k] = position_at(at.axis, batch, token);
    };
    ask_one(std::integral_constant<int, 0>{});
    // Few tokens: code that is not run is not fetched either, which would take longer than all the rest.
    if (shape.part_bits == 0 && left << shape.frequency_bits <= kFrequencyThreads) return;
    unrolled<kTermsAhead - 1>([&](auto k) { ask_one(std::integral_constant<int, k + 1>{}); });
  }
  PHASOR_HD Position position_at(int64_t axis, int64_t batch, int64_t token) const {
    const job::PositionSource& p = job.positions;
    if constexpr (std::is_same_v<Position, Counted>) {
      return {CountedPositions{p.offset}.at(batch, token)};
    } else {
      return static_cast<const Position*>(p.data)[axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride];
    }
  }
  /// Makes them.
  PHASOR_HD void make(int thread, const State& state) const {
    const auto make_one = [&](auto k) {
      if ((state.asked >> k & 1) == 0) return;
      const int element = k * kFrequencyThreads + thread;
      const int place = element >> shape.frequency_bits;
      room.terms[shape.term(place >> shape.term_bits, place & (shape.terms() - 1), element & (shape.frequencies() - 1))] =
          math::chained(static_cast<double>(state.position[k]), job::number_of(state.value[k]));
    };
    make_one(std::integral_constant<int, 0>{});
    if (state.asked <= 1) return;
    unrolled<kTermsAhead - 1>([&](auto k) { make_one(std::integral_constant<int, k + 1>{}); });
  }
  /// Adds those of one part and frequency.
  PHASOR_HD void add(int64_t first_part, int64_t from, int thread, State& state) const {
    const int frequency = thread & (shape.frequencies() - 1);
    const int part = thread >> shape.frequency_bits;
    if (part >= shape.parts() || !is_there(frequency)) return;
    const FrequencyAt at = frequency_at(job, first + frequency);
    const int64_t left = terms_of(first_part + part, at.end_head - at.first_head) - from;
    const int count = static_cast<int>(left < shape.terms() ? left : shape.terms());
    for (int term = 0; term < count; ++term) state.sum += room.terms[shape.term(part, term, frequency)];
    room.partial[thread] = state.sum;
  }
  /// Adds the parts of one frequency.
  PHASOR_HD void add_parts(int64_t first_part, int thread, State& state) const {
    if (!is_there(thread)) return;
    const int64_t left = frequency_parts(job) - first_part;
    const int count = static_cast<int>(left < shape.parts() ? left : shape.parts());
    for (int part = 0; part < count; ++part) state.total += room.partial[(part << shape.frequency_bits) + thread];
  }
};

template <class T, class Position, class Block>
PHASOR_HD inline void sum_frequencies(const FrequencySummer<T, Position>& summer, Block& block) {
  using State = FrequencyState<T, Position>;
  const job::FrequencyGradientJob& job = summer.job;
  const int64_t most = summer.most_terms();
  typename Block::template PerThread<State> states;
  block.each([&](int thread, int) {
    State& state = states.of(thread);
    state = {};
    if (summer.is_there(thread)) state.total = job::load_element(job.sum.data, job.sum.dtype, summer.first + thread);
    summer.ask(0, 0, thread, state);
  });
  for (int64_t part = 0; part < frequency_parts(job); part += summer.shape.parts()) {
    for (int64_t from = 0; from < most; from += summer.shape.terms()) {
      block.each([&](int thread, int) { summer.make(thread, states.of(thread)); });
      block.each([&](int thread, int) {  // the next are on their way while these are added
        State& state = states.of(thread);
        const bool goes_on = from + summer.shape.terms() < most;
        summer.ask(goes_on ? part : part + summer.shape.parts(), goes_on ? from + summer.shape.terms() : 0, thread, state);
        if (from == 0) state.sum = 0;
        summer.add(part, from, thread, state);
      });
    }
    block.each([&](int thread, int) { summer.add_parts(part, thread, states.of(thread)); });
  }
  block.each([&](int thread, int) {
    if (summer.is_there(thread)) job::store_element(job.sum.data, job.sum.dtype, summer.first + thread, states.of(thread).total);
  });
}

template <class Position, class Block>
PHASOR_HD inline void sum_frequencies_at(const job::FrequencyGradientJob& job, int64_t index, FrequencyRoom& room, Block& block) {
  const FrequencyShape shape = frequency_shape(job);
  const int64_t first = index << shape.frequency_bits;
  if (job.gradient.dtype == DType::f64) {
    sum_frequencies(FrequencySummer<double, Position>{job, shape, first, room}, block);
  } else {
    sum_frequencies(FrequencySummer<float, Position>{job, shape, first, room}, block);
  }
}
template <class Block>
PHASOR_HD inline void frequency_gradient_block(const job::FrequencyGradientJob& job, int64_t index, FrequencyRoom& room, Block& block) {
  const job::PositionSource& p = job.positions;
  if (p.data == nullptr) return sum_frequencies_at<Counted>(job, index, room, block);
  if (p.type == PositionType::f64) return sum_frequencies_at<double>(job, index, room, block);
  if (p.type == PositionType::i32) return sum_frequencies_at<std::int32_t>(job, index, room, block);
  sum_frequencies_at<int64_t>(job, index, room, block);
}

}  // namespace phasor::cuda
