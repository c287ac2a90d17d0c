// SPDX-License-Identifier: Apache-2.0
// The gradient of a learned table: a block sums some channels of one row, over its tokens in their order. It looks at every token's row
// itself, which needs no memory beside the tensors; the time is that of rows times tokens.
#pragma once

#include "cuda/position.hpp"
#include "cuda/rotary/element.hpp"
#include "cuda/rotary/rotate.hpp"
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

PHASOR_HD inline int bit_count(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

/// Bits of the tokens from `first` on that are of a row.
PHASOR_HD inline std::uint32_t tokens_of_row(const job::ScatterJob& job, int64_t first, int64_t row) {
  const int64_t in_batch = job.gradient.shape[1];
  const int64_t left = job.gradient.shape[0] * in_batch - first;
  int64_t batch = divided(first, in_batch);
  int64_t token = first - batch * in_batch;
  std::uint32_t bits = 0;
  for (int i = 0; i < kTokensOfThread && i < left; ++i) {
    if (whole_position(job.positions, 0, batch, token) + job.offset == row) bits |= 1U << i;
    if (++token == in_batch) {
      token = 0;
      ++batch;
    }
  }
  return bits;
}

/// Puts a thread's tokens behind those of the threads before it.
PHASOR_HD inline void list_found(int thread, ScatterRoom& room) {
  int at = 0;
  for (int before = 0; before < thread; ++before) at += bit_count(room.bits[before]);
  for (int i = 0; i < kTokensOfThread; ++i) {
    if ((room.bits[thread] >> i & 1) != 0) room.found[at++] = static_cast<std::uint16_t>(thread * kTokensOfThread + i);
  }
  if (thread + 1 == kScatterThreads) room.count = at;
}

/// Adds the tokens found to the sum of one channel.
PHASOR_HD inline double add_found(const job::ScatterJob& job, int64_t first_token, int64_t channel, const ScatterRoom& room, double sum) {
  const int64_t in_batch = job.gradient.shape[1];
  for (int n = 0; n < room.count; n += kScatterAhead) {
    double values[kScatterAhead];
    unrolled<kScatterAhead>([&](auto i) {
      if (n + i >= room.count) return;
      const int64_t token = first_token + room.found[n + i];
      const int64_t batch = divided(token, in_batch);
      values[i] = job::value_at(job.gradient, batch, token - batch * in_batch, channel);
    });
    unrolled<kScatterAhead>([&](auto i) {
      if (n + i < room.count) sum += values[i];
    });
  }
  return sum;
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
    each_channel(thread, [](int64_t, double& sum) { sum = 0; });
    if (thread == 0) room.any = false;
  });
  for (int64_t first = 0; first < tokens; first += kScatterTokens) {
    block.each([&](int thread, int) { room.bits[thread] = tokens_of_row(job, first + thread * kTokensOfThread, row); });
    block.each([&](int thread, int) { list_found(thread, room); });
    block.each([&](int thread, int) {
      if (room.count == 0) return;
      if (thread == 0) room.any = true;
      each_channel(thread, [&](int64_t channel, double& sum) { sum = add_found(job, first, channel, room, sum); });
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
