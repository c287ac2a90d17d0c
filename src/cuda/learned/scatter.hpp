// SPDX-License-Identifier: Apache-2.0
// The gradient of a learned table: a block has some rows of it and as many channels as a warp reads at once, a warp one of the rows. The
// block looks at every token's row itself, which needs no memory beside the tensors, and writes down which tokens are of which of its rows;
// then each warp adds up those of its own in their order. The time of looking is that of rows times tokens.
#pragma once

#include "cuda/bits.hpp"
#include "cuda/divided.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"
#include "cuda/tuning.hpp"
#include "job/element.hpp"
#include "job/learned.hpp"

namespace phasor::cuda {

constexpr int kScatterLanes = 32;
constexpr int kScatterRows = 8;
constexpr int kScatterThreads = kScatterRows * kScatterLanes;
/// Tokens that a block looks at before it adds: a bit for each, in words, and a bit for each word that is not 0.
constexpr int kScatterTokens = 16384;
constexpr int kScatterWords = kScatterTokens / 32;
/// Tokens that a thread asks for together, to look at them, and those whose gradients it asks for before it adds the first.
constexpr int kLooksAhead = 16;
constexpr int kScatterAhead = 8;

/// Of each word, one for every row of the block beside each other.
struct ScatterRoom {
  std::uint32_t words[kScatterWords * kScatterRows];
  std::uint32_t tops[kScatterWords / 32 * kScatterRows];
};

/// A job with what its launch has decided.
struct ScatterWork {
  job::ScatterJob job;
  Divisor in_batch;         // tokens of a batch row
  int64_t tokens = 0;       // of all
  int64_t parts = 0;        // of a row's channels, each that of a warp
  bool vectors = false;     // gradients by 16 bytes
  bool wide_table = false;  // and the table, which is float32, by vectors
};

template <DType dtype>
constexpr int kScatterWidth = static_cast<int>(kVectorBytes / bytes_of(dtype));  // channels of a thread

inline ScatterWork work_of(const job::ScatterJob& job) {
  const auto whole = [](const void* data, int64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0 && bytes % kVectorBytes == 0;
  };
  const ConstTensorView& gradient = job.gradient;
  const int64_t size = bytes_of(gradient.dtype);
  const int64_t width = job.table.shape[3];
  const int64_t channels = kScatterLanes * (kVectorBytes / size);
  ScatterWork work = {job, divisor_of(gradient.shape[1]), gradient.shape[0] * gradient.shape[1], (width + channels - 1) / channels};
  work.vectors = whole(gradient.data, width * size) && (gradient.shape[0] == 1 || gradient.strides[0] * size % kVectorBytes == 0) &&
                 (gradient.shape[1] == 1 || gradient.strides[1] * size % kVectorBytes == 0);
  work.wide_table = work.vectors && job.table.dtype == DType::f32 && whole(job.table.data, job.table.strides[1] * 4);
  return work;
}
PHASOR_HD inline int64_t scatter_blocks(const ScatterWork& work) {
  return (work.job.table.shape[1] + kScatterRows - 1) / kScatterRows * work.parts;
}

/// Other threads may set other bits of the word meanwhile.
PHASOR_HD inline void set_bits(std::uint32_t& word, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr(&word, bits);
#else
  word |= bits;
#endif
}

struct TokenAt {
  int64_t batch;
  int64_t token;
};
PHASOR_HD inline TokenAt token_at(const ScatterWork& work, int64_t index) {
  if (work.tokens == static_cast<int64_t>(work.in_batch.by)) return {0, index};
  const int64_t batch = divided(index, work.in_batch);
  return {batch, index - batch * static_cast<int64_t>(work.in_batch.by)};
}

/// Tokens that a block looks at before it adds.
struct TokenRun {
  int64_t first;
  int count;
};
/// Writes down which of some tokens are of the rows from `first_row` on. Neighbouring threads have neighbouring tokens.
PHASOR_HD inline void look_at_tokens(const ScatterWork& work, const TokenRun& run, int64_t first_row, int thread, ScatterRoom& room) {
  with_whole_positions(work.job.positions, 0, [&](const auto& positions) {
    for (int n = thread; n < run.count; n += kLooksAhead * kScatterThreads) {
      int64_t at[kLooksAhead];
      unrolled<kLooksAhead>([&](auto i) {
        const int token = n + i * kScatterThreads;
        if (token >= run.count) return;
        const TokenAt where = token_at(work, run.first + token);
        at[i] = positions.at(where.batch, where.token);
      });
      unrolled<kLooksAhead>([&](auto i) {
        const int token = n + i * kScatterThreads;
        if (token >= run.count) return;
        const auto row = static_cast<math::u64>(at[i] + work.job.offset - first_row);
        if (row >= kScatterRows) return;
        const int word = token / 32;
        set_bits(room.words[word * kScatterRows + static_cast<int>(row)], 1U << (token % 32));
        set_bits(room.tops[word / 32 * kScatterRows + static_cast<int>(row)], 1U << (word % 32));
      });
    }
    return true;
  });
}

/// The tokens of a row, one after the other.
struct FoundTokens {
  const ScatterRoom& room;
  int row;
  int tops;  // how many words of them there are
  int top = -1;
  std::uint32_t top_bits = 0;
  std::uint32_t bits = 0;
  int word = 0;

  PHASOR_HD static int take_lowest(std::uint32_t& bits) {
    const int lowest = 31 - math::detail::leading_zeros(bits & (0U - bits));
    bits &= bits - 1;
    return lowest;
  }
  /// The next, or -1.
  PHASOR_HD int next() {
    if (bits == 0) {
      while (top_bits == 0) {
        if (top + 1 >= tops) return -1;
        top_bits = room.tops[++top * kScatterRows + row];
      }
      word = top * 32 + take_lowest(top_bits);
      bits = room.words[word * kScatterRows + row];
    }
    return word * 32 + take_lowest(bits);
  }
};

/// The channels of one thread: neighbours, or as far apart as a warp has threads.
template <DType dtype, bool vectors>
struct ScatterLane {
  using E = Element<dtype>;
  using Storage = typename E::Storage;
  static constexpr int kWidth = kScatterWidth<dtype>;
  using Lanes = Vector<Storage, kWidth>;
  struct State {
    double sums[kWidth];
    bool any;
  };
  const ScatterWork& work;
  int64_t first;  // channel

  PHASOR_HD int64_t channel(int c) const { return first + (vectors ? c : c * kScatterLanes); }
  PHASOR_HD bool has(int c) const { return channel(c) < work.job.table.shape[3]; }

  PHASOR_HD Lanes load(int64_t index) const {
    const TokenAt at = token_at(work, index);
    const auto* const from = static_cast<const Storage*>(work.job.gradient.data) + job::index_of(work.job.gradient, at.batch, at.token, 0);
    if constexpr (vectors) return *reinterpret_cast<const Lanes*>(from + first);
    Lanes lanes = {};
    unrolled<kWidth>([&](auto c) {
      if (has(c)) lanes.at[c] = from[channel(c)];
    });
    return lanes;
  }
  PHASOR_HD void add(FoundTokens found, int64_t first_token, State& state) const {
    if (!has(0)) return;
    int token[kScatterAhead];
    do {
      Lanes values[kScatterAhead];
      unrolled<kScatterAhead>([&](auto i) {
        token[i] = found.next();
        if (token[i] >= 0) values[i] = load(first_token + token[i]);
      });
      state.any = state.any || token[0] >= 0;
      unrolled<kScatterAhead>([&](auto i) {
        if (token[i] < 0) return;
        unrolled<kWidth>([&](auto c) { state.sums[c] += static_cast<double>(E::widen(values[i].at[c])); });
      });
    } while (token[kScatterAhead - 1] >= 0);
  }
  PHASOR_HD void store(int64_t row, const State& state) const {
    if (!state.any) return;
    const TensorView& table = work.job.table;
    const int64_t at = row * table.strides[1];
    if constexpr (vectors) {
      if (work.wide_table) return store_vectors(static_cast<float*>(table.data) + at + first, state);
    }
    unrolled<kWidth>([&](auto c) {
      if (!has(c)) return;
      const int64_t element = at + channel(c);
      job::store_element(table.data, table.dtype, element, job::load_element(table.data, table.dtype, element) + state.sums[c]);
    });
  }
  PHASOR_HD void store_vectors(float* to, const State& state) const {
    constexpr int kEach = kWidth < 4 ? kWidth : 4;
    using Floats = Vector<float, kEach>;
    unrolled<kWidth / kEach>([&](auto v) {
      Floats floats = reinterpret_cast<const Floats*>(to)[v];
      unrolled<kEach>([&](auto i) { floats.at[i] = static_cast<float>(static_cast<double>(floats.at[i]) + state.sums[v * kEach + i]); });
      reinterpret_cast<Floats*>(to)[v] = floats;
    });
  }
};

template <DType dtype, bool vectors, class Block>
PHASOR_HD inline void scatter_block(const ScatterWork& work, int64_t index, ScatterRoom& room, Block& block) {
  using Lane = ScatterLane<dtype, vectors>;
  const int64_t group = divided(index, work.parts);
  const int64_t first_row = group * kScatterRows;
  const int64_t first_channel = (index - group * work.parts) * kScatterLanes * Lane::kWidth;
  const auto lane_of = [&](int thread) -> Lane {
    const int lane = thread % kScatterLanes;
    return {work, first_channel + (vectors ? lane * Lane::kWidth : lane)};
  };
  const auto adds = [&](int thread) {
    const int64_t row = first_row + thread / kScatterLanes;
    return row < work.job.table.shape[1] && row != work.job.padding_row;
  };
  typename Block::template PerThread<typename Lane::State> states;
  block.each([&](int thread, int) { states.of(thread) = {}; });
  for (int64_t first = 0; first < work.tokens; first += kScatterTokens) {
    const int count = static_cast<int>(work.tokens - first < kScatterTokens ? work.tokens - first : kScatterTokens);
    const int words = (count + 31) / 32;
    const int tops = (words + 31) / 32;
    block.each([&](int thread, int threads) {
      for (int n = thread; n < words * kScatterRows; n += threads) room.words[n] = 0;
      for (int n = thread; n < tops * kScatterRows; n += threads) room.tops[n] = 0;
    });
    block.each([&](int thread, int) { look_at_tokens(work, {first, count}, first_row, thread, room); });
    block.each([&](int thread, int) {
      if (adds(thread)) lane_of(thread).add({room, thread / kScatterLanes, tops}, first, states.of(thread));
    });
  }
  block.each([&](int thread, int) {
    if (adds(thread)) lane_of(thread).store(first_row + thread / kScatterLanes, states.of(thread));
  });
}

}  // namespace phasor::cuda
