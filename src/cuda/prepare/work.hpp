// SPDX-License-Identifier: Apache-2.0
// What a launch decides about prepare_attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job/prepare/job.hpp"

namespace phasor::cuda {

/// A job with what its launch has decided.
struct PrepareWork {
  job::PrepareJob job;
  int teams = 1;                 // warps of a block: each makes heads ready by itself
  std::int64_t team_floats = 0;  // of a team's memory: a head, its rotated part, weights, partial sums
  std::int64_t channels = 0;     // of the widest head
  bool by_head = false;          // every head has a row of its own
  bool differ = false;           // and so has every lane of a pair
};

struct PrepareLaunch {
  std::int64_t blocks;
  int threads;
  std::size_t shared_bytes;
};

PrepareWork work_of(const job::PrepareJob& job);
PrepareLaunch launch_shape(const PrepareWork& work);

}  // namespace phasor::cuda
