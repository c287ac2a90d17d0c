// SPDX-License-Identifier: Apache-2.0
// Loops of the gradients of learned rotations: plain float64, one order of additions whatever the tasks, the same bits on every machine.
#pragma once

#include "job/phase_gradient.hpp"

namespace phasor::cpu {

void phase_gradient(const job::PhaseGradientJob& job, std::int64_t task);
void frequency_gradient(const job::FrequencyGradientJob& job, std::int64_t task);
void position_gradient(const job::PositionGradientJob& job, std::int64_t task);

}  // namespace phasor::cpu
