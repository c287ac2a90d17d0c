// SPDX-License-Identifier: Apache-2.0
// The CPU's side of the table of backends: each runs a checked job to its end, by the kernels of the active target where it has any.
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

namespace phasor::cpu {

Status run_rotate(job::RotateJob& job, const Execution& execution);
Status run_rotate_specs(job::RotateSpecsJob& job, const Execution& execution);
Status run_rerotate(job::RerotateJob& job, const Execution& execution);
Status run_rows(job::RowsJob& job, const Execution& execution);
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

}  // namespace phasor::cpu
