// SPDX-License-Identifier: Apache-2.0
// The CPU's side of attention in the table of backends.
#pragma once

#include "job/attention/cached_job.hpp"
#include "job/attention/job.hpp"
#include "phasor/attention.hpp"

namespace phasor::cpu {

Result<std::int64_t> attention_workspace(const job::AttentionJob& asked);
Status run_attention(job::AttentionJob& asked, const Workspace& workspace, const Execution& execution);
Result<std::int64_t> attention_backward_workspace(const job::AttentionBackwardJob& asked);
Status run_attention_backward(job::AttentionBackwardJob& asked, const Workspace& workspace, const Execution& execution);
Result<std::int64_t> attention_weights_workspace(const job::AttentionWeightsJob& asked);
Status run_attention_weights(job::AttentionWeightsJob& asked, const Workspace& workspace, const Execution& execution);
Result<std::int64_t> cached_attention_workspace(const job::CachedAttentionJob& asked);
Status run_cached_attention(job::CachedAttentionJob& asked, const Workspace& workspace, const Execution& execution);
Status run_merge(job::MergeJob& merge, const Execution& execution);
Result<AttentionReport> explain_attention(const job::AttentionJob& asked);

}  // namespace phasor::cpu
