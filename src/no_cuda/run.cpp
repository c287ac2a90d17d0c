// SPDX-License-Identifier: Apache-2.0
// Where nvcc is not: the backend that is not there. Nothing calls these but by mistake, since is_built says no.
#include "cuda/run.hpp"

#include "cuda/attention/run.hpp"
#include "cuda/prepare/run.hpp"

namespace phasor::cuda {
namespace {

Status not_built() { return Status::unsupported("this build has no CUDA"); }

}  // namespace

bool is_built() { return false; }

Status run_rotate(job::RotateJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_rotate_specs(job::RotateSpecsJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_rerotate(job::RerotateJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_rows(job::RowsJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_add(job::AddJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_lookup(job::LookupJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_scatter(job::ScatterJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_phase_gradient(job::PhaseGradientJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_frequency_gradient(job::FrequencyGradientJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_position_gradient(job::PositionGradientJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_bias_diagonal(job::DiagonalJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_bias_gradient(job::DiagonalGradientJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_bias_fill(job::BlockJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_prepare(job::PrepareJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_prepare_backward(job::PrepareBackwardJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Result<std::int64_t> attention_workspace(const job::AttentionJob& /*job*/) { return not_built(); }
Status run_attention(job::AttentionJob& /*job*/, const Workspace& /*workspace*/, const Execution& /*execution*/) { return not_built(); }
Result<std::int64_t> attention_backward_workspace(const job::AttentionBackwardJob& /*job*/) { return not_built(); }
Status run_attention_backward(job::AttentionBackwardJob& /*job*/, const Workspace& /*workspace*/, const Execution& /*execution*/) {
  return not_built();
}
Result<std::int64_t> attention_weights_workspace(const job::AttentionWeightsJob& /*job*/) { return not_built(); }
Status run_attention_weights(job::AttentionWeightsJob& /*job*/, const Workspace& /*workspace*/, const Execution& /*execution*/) {
  return not_built();
}
Result<std::int64_t> cached_attention_workspace(const job::CachedAttentionJob& /*job*/) { return not_built(); }
Status run_cached_attention(job::CachedAttentionJob& /*job*/, const Workspace& /*workspace*/, const Execution& /*execution*/) {
  return not_built();
}
Status run_merge(job::MergeJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Result<AttentionReport> explain_attention(const job::AttentionJob& /*job*/) { return not_built(); }
Status run_build_positions(job::BuildJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_temperature(job::TemperatureJob& /*job*/, const Execution& /*execution*/) { return not_built(); }

}  // namespace phasor::cuda
