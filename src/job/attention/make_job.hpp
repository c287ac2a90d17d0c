// SPDX-License-Identifier: Apache-2.0
// From a checked call to its job.
#pragma once

#include <vector>

#include "job/attention/call.hpp"
#include "job/attention/job.hpp"
#include "job/attention/weights_call.hpp"

namespace phasor::job {

/// Makes the job of a checked call in place; `terms` stay as long as it, and point to plans of the call's spec.
/// Positions that say no more than where tokens are (numbers of the host, as generation gives them) are not in it.
void make_attention_job(const AttentionCall& call, std::vector<AttentionTermJob>& terms, AttentionJob& job);
/// The same with positions as they are given: a cache has fewer keys than its stand-in.
void make_attention_job_as_given(const AttentionCall& call, std::vector<AttentionTermJob>& terms, AttentionJob& job);
void make_backward_job(const AttentionCall& call, std::vector<AttentionTermJob>& terms, AttentionBackwardJob& job);
void make_weights_job(const WeightsCall& of, std::vector<AttentionTermJob>& terms, AttentionWeightsJob& job);

/// The map again, of a job that has one.
PositionMap position_map_of(const MapJob& map);

/// A rotation of a content with what it turns, and where.
RotateJob rotation_of(const RotateJob& rotation, const InOut& x, const Positions& at);
/// Two rotations of one plan as one, of two operands; false, and `job` as it was: they go by other positions, or heads lie apart otherwise,
/// which the fastest kernels do not take together.
bool join(const RotateJob& other, RotateJob& job);

}  // namespace phasor::job
