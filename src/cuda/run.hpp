// SPDX-License-Identifier: Apache-2.0
// CUDA's side of the table of backends: each puts a checked job on the caller's stream and returns. Nothing waits; nothing is allocated but
// by the first call of a spec whose lists do not fit into a kernel's parameter (cuda/copies.hpp).
#pragma once

#include "job/additive.hpp"
#include "job/bias.hpp"
#include "job/learned.hpp"
#include "job/phase_gradient.hpp"
#include "job/positions/build.hpp"
#include "job/positions/temperature.hpp"
#include "job/rerotate.hpp"
#include "job/rotary.hpp"
#include "job/specs/job.hpp"
#include "phasor/execution.hpp"

namespace phasor::cuda {

/// Whether this build has it; where not, the functions below say so.
bool is_built();

Status run_rotate(job::RotateJob& job, const Execution& execution);
Status run_rotate_specs(job::RotateSpecsJob& job, const Execution& execution);
Status run_rerotate(job::RerotateJob& job, const Execution& execution);
Status run_rows(job::RowsJob& job, const Execution& execution);
/// run_rows as on devices whose float64 is slow, for tests.
Status run_rows_by_pairs(job::RowsJob& job, const Execution& execution);
Status run_add(job::AddJob& job, const Execution& execution);
Status run_lookup(job::LookupJob& job, const Execution& execution);
Status run_scatter(job::ScatterJob& job, const Execution& execution);
Status run_phase_gradient(job::PhaseGradientJob& job, const Execution& execution);
Status run_frequency_gradient(job::FrequencyGradientJob& job, const Execution& execution);
Status run_position_gradient(job::PositionGradientJob& job, const Execution& execution);
Status run_bias_diagonal(job::DiagonalJob& job, const Execution& execution);
Status run_bias_gradient(job::DiagonalGradientJob& job, const Execution& execution);
Status run_bias_fill(job::BlockJob& job, const Execution& execution);
Status run_build_positions(job::BuildJob& job, const Execution& execution);
Status run_temperature(job::TemperatureJob& job, const Execution& execution);

}  // namespace phasor::cuda
