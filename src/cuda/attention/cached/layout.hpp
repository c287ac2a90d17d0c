// SPDX-License-Identifier: Apache-2.0
// A call over a cache as a call of attention: keys and values gathered, as sequences one behind another where nothing keeps them from it
// (then queries stand where varlen attention has them anyway, and work goes by lengths; ragged calls always), else with as much room each,
// absent keys masked and queries at their positions.
#pragma once

#include <vector>

#include "cuda/attention/cached/by_key.hpp"
#include "job/attention/cached_job.hpp"
#include "job/memory/arena.hpp"

namespace phasor::cuda::attention {

struct CachedLayout {
  GatherWork gather;
  std::vector<KeyedWork> keyed;  // after the lists of `gather`
  job::AttentionJob job;
  std::vector<job::AttentionTermJob> terms;  // the job's
  int64_t most_keys = 0;                     // of a sequence, where they lie one behind another; 0: they do not
  std::span<std::byte> workspace;            // of attention
};
/// Of a ragged call that is packed: what all of its sequences share by key, for each of them (cached/by_key.cpp).
void lay_out_by_key(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out);
Status lay_out_cached(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out);
/// Bytes that a call works in, wherever its outputs will lie.
Result<int64_t> gathered_workspace(const job::CachedAttentionJob& asked);

}  // namespace phasor::cuda::attention
