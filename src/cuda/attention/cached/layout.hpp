// SPDX-License-Identifier: Apache-2.0
// A call over a cache as a call of the general kernels: keys and values gathered, absent keys masked, queries at their positions.
#pragma once

#include "cuda/attention/cached/gather.hpp"
#include "job/attention/cached_job.hpp"
#include "job/memory/arena.hpp"

namespace phasor::cuda::attention {

struct CachedLayout {
  GatherWork gather;
  job::AttentionJob job;
  std::span<std::byte> workspace;  // of attention
};
Status lay_out_cached(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out);

}  // namespace phasor::cuda::attention
