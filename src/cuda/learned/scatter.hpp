// SPDX-License-Identifier: Apache-2.0
// The gradient of a learned table: a block sums some channels of one row, over its tokens in their order. It looks at every token's row
// itself, which needs no memory beside the tensors; the time is that of rows times tokens.
#pragma once

#include "cuda/bits.hpp"
#include "cuda/divided.hpp"
#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"
#include "job/element.hpp"
#include "job/learned.hpp"

namespace phasor::cuda {

constexpr int kScatterThreads = 128;
/// Channels of a thread, as far apart as a block has threads.
constexpr int kScatterChannels = 8;
/// Tokens that a thread looks at, a bit for each, and those that a block looks at together.
constexpr int kTokensOfThread = 32;
constexpr int kScatterTokens = kTokensOfThread * kScatterThreads;
/// Tokens whose gradients a thread asks for before it adds the first.
constexpr int kScatterAhead = 4;

struct ScatterRoom {
  alignas(8) std::uint32_t bits[kScatterThreads];  // tokens of the row
  std::uint16_t found[kScatterTokens];             // the same as a list, in their order
  int count;
  double sums[kScatterChannels][kScatterThreads];
  bool any;
};

/// Which part of the table a block has.
PHASOR_HD inline int64_t scatter_parts(const job::ScatterJob& job) {
  constexpr int64_t kEach = kScatterThreads * kScatterChannels;
  return (job.table.shape[3] + kEach - 1) / kEach;
}
PHASOR_HD inline int64_t scatter_blocks(const job::ScatterJob& job) { return job.table.shape[1] * scatter_parts(job); }

/// Tokens that a thread asks for together.
constexpr int kLooksAhead = 16;

/// Bits of the tokens from `first` on that are of a row.
PHASOR_HD inline std::uint32_t tokens_of_row(const job::ScatterJob& job, int64_t first, int64_t row) {
  const int64_t in_batch = job.gradient.shape[1];
  const int64_t left = job.gradient.shape[0] * in_batch - first;
  return with_whole_positions(job.positions, 0, [&](const auto& positions) {
    int64_t batch = divided(first, in_batch);
    int64_t token = first - batch * in_batch;
    std::uint32_t bits = 0;
    for (int n = 0; n < kTokensOfThread && n < left; n += kLooksAhead) {
      int64_t at[kLooksAhead];
      unrolled<kLooksAhead>([&](auto i) {
        if (n + i >= left) return;
        at[i] = positions.at(batch, token);
        if (++token < in_batch) return;
        token = 0;
        ++batch;
      });
      unrolled<kLooksAhead>([&](auto i) {
        if (n + i < left && at[i] + job.offset == row) bits |= 1U << (n + i);
      });
    }
    return bits;
  });
}

/// Puts a thread's tokens behind those of the threads before it.
PHASOR_HD inline void list_found(int thread, ScatterRoom& room) {
  const bool last = thread + 1 == kScatterThreads;
  if (room.bits[thread] == 0 && !last) return;
  int at = 0;
  for (int before = 0; before < thread; ++before) at += bit_count(room.bits[before]);
  each_bit(room.bits[thread], [&](int i) { room.found[at++] = static_cast<std::uint16_t>(thread * kTokensOfThread + i); });
  if (last) room.count = at;
}

/// Adds the tokens found to the sum of each channel of a thread.
template <DType dtype>
PHASOR_HD inline void add_found(const job::ScatterJob& job, int64_t first_token, int64_t channel, int thread, ScatterRoom& room) {
  using E = Element<dtype>;
  using Storage = typename E::Storage;
  const int64_t in_batch = job.gradient.shape[1];
  const int64_t width = job.gradient.shape[3];
  for (int n = 0; n < room.count; n += kScatterAhead) {
    Storage values[kScatterAhead][kScatterChannels] = {};
    unrolled<kScatterAhead>([&](auto i) {
      if (n + i >= room.count) return;
      const int64_t token = first_token + room.found[n + i];
      const int64_t batch = divided(token, in_batch);
      const auto* const from =
          static_cast<const Storage*>(job.gradient.data) + job::index_of(job.gradient, batch, token - batch * in_batch, channel);
      unrolled<kScatterChannels>([&](auto c) {
        if (channel + c * kScatterThreads < width) values[i][c] = from[c * kScatterThreads];
      });
    });
    unrolled<kScatterChannels>([&](auto c) {
      double sum = room.sums[c][thread];
      unrolled<kScatterAhead>([&](auto i) {
        if (n + i < room.count) sum += static_cast<double>(E::widen(values[i][c]));
      });
      room.sums[c][thread] = sum;
    });
  }
}
PHASOR_HD inline void add_found(const job::ScatterJob& job, int64_t first_token, int64_t channel, int thread, ScatterRoom& room) {
  if (job.gradient.dtype == DType::f64) return add_found<DType::f64>(job, first_token, channel, thread, room);
  if (job.gradient.dtype == DType::f32) return add_found<DType::f32>(job, first_token, channel, thread, room);
  if (job.gradient.dtype == DType::f16) return add_found<DType::f16>(job, first_token, channel, thread, room);
  add_found<DType::bf16>(job, first_token, channel, thread, room);
}

template <class Block>
PHASOR_HD inline void scatter_block(const job::ScatterJob& job, int64_t index, ScatterRoom& room, Block& block) {
  const int64_t row = index / scatter_parts(job);
  const int64_t first_channel = index % scatter_parts(job) * (kScatterThreads * kScatterChannels);
  const int64_t tokens = job.gradient.shape[0] * job.gradient.shape[1];
  if (row == job.padding_row) return;
  const auto each_channel = [&](int thread, const auto& body) {
    for (int c = 0; c < kScatterChannels; ++c) {
      const int64_t channel = first_channel + c * kScatterThreads + thread;
      if (channel < job.table.shape[3]) body(channel, room.sums[c][thread]);
    }
  };
  block.each([&](int thread, int) {
    for (auto& sums : room.sums) sums[thread] = 0;
    if (thread == 0) room.any = false;
  });
  for (int64_t first = 0; first < tokens; first += kScatterTokens) {
    block.each([&](int thread, int) { room.bits[thread] = tokens_of_row(job, first + thread * kTokensOfThread, row); });
    block.each([&](int thread, int) { list_found(thread, room); });
    block.each([&](int thread, int) {
      if (room.count == 0) return;
      if (thread == 0) room.any = true;
      add_found(job, first, first_channel + thread, thread, room);
    });
  }
  block.each([&](int thread, int) {
    if (!room.any) return;
    each_channel(thread, [&](int64_t channel, double& sum) {
      const int64_t at = row * job.table.strides[1] + channel;
      job::store_element(job.table.data, job.table.dtype, at, job::load_element(job.table.data, job.table.dtype, at) + sum);
    });
  });
}

}  // namespace phasor::cuda
