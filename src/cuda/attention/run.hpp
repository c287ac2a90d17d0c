// SPDX-License-Identifier: Apache-2.0
// CUDA's side of attention in the table of backends.
#pragma once

#include "job/attention/cached_job.hpp"
#include "job/attention/job.hpp"
#include "phasor/attention.hpp"

namespace phasor::cuda {

Result<std::int64_t> attention_workspace(const job::AttentionJob& job);
Status run_attention(job::AttentionJob& job, const Workspace& workspace, const Execution& execution);
/// Of sequences by key_starts with at most so many keys each; 0: as many as there are.
Status run_attention(std::int64_t most_keys, job::AttentionJob& job, const Workspace& workspace, const Execution& execution);
Result<std::int64_t> attention_backward_workspace(const job::AttentionBackwardJob& job);
Status run_attention_backward(job::AttentionBackwardJob& job, const Workspace& workspace, const Execution& execution);
Result<std::int64_t> attention_weights_workspace(const job::AttentionWeightsJob& job);
Status run_attention_weights(job::AttentionWeightsJob& job, const Workspace& workspace, const Execution& execution);
Result<std::int64_t> cached_attention_workspace(const job::CachedAttentionJob& job);
Status run_cached_attention(job::CachedAttentionJob& job, const Workspace& workspace, const Execution& execution);
Status run_merge(job::MergeJob& job, const Execution& execution);
Result<AttentionReport> explain_attention(const job::AttentionJob& job);

}  // namespace phasor::cuda
