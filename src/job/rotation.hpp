// SPDX-License-Identifier: Apache-2.0
// A rotation without operands, for jobs that turn heads by themselves.
#pragma once

#include "job/check.hpp"
#include "job/rotary.hpp"

namespace phasor::job {

/// Checks of the positions, then the rows, pairings and numerics of a rotation of tensors of `dtype`.
Result<RotateJob> make_rotation(const char* where, const plan::RotaryPlan& plan, const Positions& positions, const PositionShape& shape,
                                DType dtype, Direction direction);

}  // namespace phasor::job
