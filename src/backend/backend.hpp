// SPDX-License-Identifier: Apache-2.0
// What a device can do, as one table of functions, and the one place where it is chosen. Jobs come checked; what runs after this fails only
// where a device does.
#pragma once

#include "job/additive.hpp"
#include "job/attention/cached_job.hpp"
#include "job/attention/job.hpp"
#include "job/bias.hpp"
#include "job/learned.hpp"
#include "job/phase_gradient.hpp"
#include "job/positions/build.hpp"
#include "job/positions/temperature.hpp"
#include "job/prepare/backward.hpp"
#include "job/prepare/job.hpp"
#include "job/rerotate.hpp"
#include "job/rotary.hpp"
#include "job/specs/job.hpp"
#include "phasor/attention.hpp"
#include "phasor/execution.hpp"

namespace phasor::backend {

/// A job can be sent to a device as it is: pointers and numbers only, none of them to state of the host but for the tables that
/// backend/host_tables.hpp names.
template <class Job>
concept PlainData = job::is_plain<Job>();

/// The job of an operation, run.
template <PlainData Job>
using Run = Status (*)(Job& job, const Execution& execution);

/// The same, in memory that the caller gives: bytes of the device.
template <PlainData Job>
using RunIn = Status (*)(Job& job, const Workspace& workspace, const Execution& execution);

/// An operation that a backend does not have yet is null.
struct Backend {
  const char* name;
  Run<job::RotateJob> rotate = nullptr;
  Run<job::RotateSpecsJob> rotate_specs = nullptr;
  Run<job::RerotateJob> rerotate = nullptr;
  Run<job::RowsJob> rows = nullptr;
  Run<job::AddJob> add = nullptr;
  Run<job::LookupJob> lookup = nullptr;
  Run<job::ScatterJob> scatter = nullptr;
  Run<job::PhaseGradientJob> phase_gradient = nullptr;
  Run<job::FrequencyGradientJob> frequency_gradient = nullptr;
  Run<job::PositionGradientJob> position_gradient = nullptr;
  Run<job::DiagonalJob> bias_diagonal = nullptr;
  Run<job::DiagonalGradientJob> bias_gradient = nullptr;
  Run<job::BlockJob> bias_fill = nullptr;
  Run<job::PrepareJob> prepare = nullptr;
  Run<job::PrepareBackwardJob> prepare_backward = nullptr;
  Run<job::BuildJob> build_positions = nullptr;
  Run<job::TemperatureJob> temperature = nullptr;
  Result<std::int64_t> (*attention_workspace)(const job::AttentionJob& job) = nullptr;
  RunIn<job::AttentionJob> attention = nullptr;
  Result<std::int64_t> (*attention_backward_workspace)(const job::AttentionBackwardJob& job) = nullptr;
  RunIn<job::AttentionBackwardJob> attention_backward = nullptr;
  Result<std::int64_t> (*attention_weights_workspace)(const job::AttentionWeightsJob& job) = nullptr;
  RunIn<job::AttentionWeightsJob> attention_weights = nullptr;
  Result<std::int64_t> (*cached_attention_workspace)(const job::CachedAttentionJob& job) = nullptr;
  RunIn<job::CachedAttentionJob> cached_attention = nullptr;
  Run<job::MergeJob> merge = nullptr;
  Result<AttentionReport> (*explain_attention)(const job::AttentionJob& job) = nullptr;
};

/// The backend of a device; an error where this build has none.
Result<const Backend*> choose(Device device);

/// What a call of an operation that a backend does not have says.
Status not_there(const Backend& backend);

/// The backend that takes a call to `operation`, which has passed its checks.
template <typename Operation>
Result<const Backend*> choose_for(Operation Backend::* operation, const Status& checked, Device device) {
  if (!checked) return checked;
  Result<const Backend*> chosen = choose(device);
  if (chosen.ok() && (*chosen)->*operation == nullptr) return not_there(**chosen);
  return chosen;
}

/// Puts another backend in the place of a kind of device's, null for none, and returns the one before: for tests, which watch it.
const Backend* replace(DeviceKind kind, const Backend* by);

}  // namespace phasor::backend
