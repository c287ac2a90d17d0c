// SPDX-License-Identifier: Apache-2.0
// Which backward passes of attention the kernels of mma.sync take, and the launch: 16-bit tensors at the positions of tokens on compute
// capability 8 and newer, every term but those that why_not names. Sums, slots and what is done with them are the general backward's.
#pragma once

#include <cstddef>

#include "cuda/attention/work.hpp"
#include "job/attention/job.hpp"
#include "phasor/result.hpp"

namespace phasor::cuda::attention::mma::backward {

/// Channels of a row in shared memory, and of a row's sums in registers: more do not fit there.
constexpr int kWidths[] = {64, 128};
constexpr int kMostWidth = 128;
/// Threads of a block: two warps for 16 keys, so that one works while the other waits.
constexpr int kBackwardThreads = 256;
/// A block stays with so many keys while tiles of queries pass.
constexpr int kKeys = 64;
constexpr int queries_for(int width) { return width > 64 ? 32 : 64; }
/// Channels of features of the call's own, as a row of their table has them in shared memory: Inkling's are 16.
constexpr int kMostFeatures = 64;
/// Tables whose features are shifted: each has sums of its own in shared memory.
constexpr int kMostShifted = 2;
/// Blocks that keep a large GPU busy, two of a multiprocessor.
constexpr int64_t kBlocks = 256;
/// What bounds the sums of keys and what blocks have for themselves; tests have less. Where that leaves too few blocks for all keys at
/// once, keys go by chunks, a launch each: beside the rows of the call, which are there in any case, parts have half of the bytes, or all
/// that those leave. Chunks are not short, since at the end of each blocks wait for the last one: 16 tiles of keys, which are half of the
/// bytes for kBlocks blocks with 128 channels of keys and of values.
struct Limits {
  int64_t most_bytes = int64_t{512} << 20;
  int64_t least_keys = 1024;  // of a chunk, before all are made as long; kKeys at least
};

/// nullptr: a call that has been laid out is taken; else what of it is not, in words.
const char* why_not(const AttentionWork& work, const job::AttentionBackwardJob& job);
/// Of a call that is taken: 64 or 128.
int width_of(const AttentionWork& work);
/// Queries of a tile.
int queries_of(const AttentionWork& work);

/// Puts a chunk of keys on a stream: one kernel, which neither allocates nor waits, between those that clear the sums and those that add up
/// its parts.
Status run(const char* where, const AttentionWork& work, void* stream);

}  // namespace phasor::cuda::attention::mma::backward
