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
/// Blocks that keep a large GPU busy, two of a multiprocessor, and bytes that sums kept apart for them may take.
constexpr int64_t kBlocks = 256;
constexpr int64_t kMostBytes = int64_t{512} << 20;

/// nullptr: a call that has been laid out is taken; else what of it is not, in words.
const char* why_not(const AttentionWork& work, const job::AttentionBackwardJob& job);
/// Of a call that is taken: 64 or 128.
int width_of(const AttentionWork& work);
/// Queries of a tile.
int queries_of(const AttentionWork& work);

/// Puts it on a stream: one kernel, which neither allocates nor waits, between those that clear the sums and those that end them.
Status run(const char* where, const AttentionWork& work, void* stream);

}  // namespace phasor::cuda::attention::mma::backward
