// SPDX-License-Identifier: Apache-2.0
// Loops of the gradients of learned rotations: plain float64, one order of additions whatever the tasks, the same bits on every machine.
#pragma once

#include "cpu/common/task_grid.hpp"

namespace phasor::cpu {

void phase_gradient(const Running<job::PhaseGradientJob>& run, std::int64_t task);
/// Adds the tokens of one partial sum to `sums`, one for each frequency.
void frequency_gradient(const job::FrequencyGradientJob& job, std::int64_t part, double* sums);
void position_gradient(const Running<job::PositionGradientJob>& run, std::int64_t task);

}  // namespace phasor::cpu
