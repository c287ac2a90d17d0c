// SPDX-License-Identifier: Apache-2.0
// The gradient of a learned table: a block sums some channels of one row, over its tokens in their order. It looks at every token's row
// itself, which needs no memory beside the tensors; the time is that of rows times tokens.
#pragma once

#include "cuda/position.hpp"
#include "job/element.hpp"
#include "job/learned.hpp"

namespace phasor::cuda {

constexpr int kScatterThreads = 128;
/// Tokens that a block looks at together, eight to a word.
constexpr int kScatterTokens = 1024;

struct ScatterRoom {
  alignas(8) std::uint8_t is_of_row[kScatterTokens];
  double sums[kScatterThreads];
  bool any[kScatterThreads];
};

/// Which part of the table a block has.
PHASOR_HD inline int64_t scatter_parts(const job::ScatterJob& job) { return (job.table.shape[3] + kScatterThreads - 1) / kScatterThreads; }
PHASOR_HD inline int64_t scatter_blocks(const job::ScatterJob& job) { return job.table.shape[1] * scatter_parts(job); }

/// Adds the tokens found to the sum of one thread's channel.
PHASOR_HD inline void add_found(const job::ScatterJob& job, int64_t first_token, int64_t channel, int thread, ScatterRoom& room) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(room.is_of_row);
  double sum = room.sums[thread];
  for (int word = 0; word < kScatterTokens / 8; ++word) {
    if (words[word] == 0) continue;
    for (int i = 8 * word; i < 8 * word + 8; ++i) {
      if (room.is_of_row[i] == 0) continue;
      const int64_t token = first_token + i;
      sum += job::value_at(job.gradient, token / job.gradient.shape[1], token % job.gradient.shape[1], channel);
      room.any[thread] = true;
    }
  }
  room.sums[thread] = sum;
}

template <class Block>
PHASOR_HD inline void scatter_block(const job::ScatterJob& job, int64_t index, ScatterRoom& room, Block& block) {
  const int64_t row = index / scatter_parts(job);
  const int64_t first_channel = index % scatter_parts(job) * kScatterThreads;
  const int64_t tokens = job.gradient.shape[0] * job.gradient.shape[1];
  if (row == job.padding_row) return;
  block.each([&](int thread, int) {
    room.sums[thread] = 0;
    room.any[thread] = false;
  });
  for (int64_t first = 0; first < tokens; first += kScatterTokens) {
    block.each([&](int thread, int threads) {
      for (int i = thread; i < kScatterTokens; i += threads) {
        const int64_t token = first + i;
        const bool is = token < tokens &&
                        whole_position(job.positions, 0, token / job.gradient.shape[1], token % job.gradient.shape[1]) + job.offset == row;
        room.is_of_row[i] = is ? 1 : 0;
      }
    });
    block.each([&](int thread, int) {
      if (first_channel + thread >= job.table.shape[3]) return;
      add_found(job, first, first_channel + thread, thread, room);
    });
  }
  block.each([&](int thread, int) {
    if (!room.any[thread]) return;
    const int64_t at = row * job.table.strides[1] + first_channel + thread;
    job::store_element(job.table.data, job.table.dtype, at, job::load_element(job.table.data, job.table.dtype, at) + room.sums[thread]);
  });
}

}  // namespace phasor::cuda
