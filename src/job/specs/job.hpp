// SPDX-License-Identifier: Apache-2.0
// The job of apply_rotaries: a rotation whose rows are of several specs.
#pragma once

#include <span>

#include "job/specs/list.hpp"
#include "phasor/rotaries.hpp"

namespace phasor::job {

struct RotateSpecsJob {
  Device device;
  RotateJob rotate;  // its rows are the first spec's: what every spec has in common is known by them
  SpecList specs;
};

PHASOR_MEMBERS(RotateSpecsJob, device, rotate, specs)

/// A call of apply_rotaries.
struct RotateSpecsCall {
  const RotaryList& list;
  RotateOperands operands;
  const Positions& positions;
  Direction direction;
};
/// `rows` has room for the rotaries of the call, and is to live until the job has run.
Result<RotateSpecsJob> make_rotate_specs_job(const RotateSpecsCall& call, std::span<RowSource> rows);

}  // namespace phasor::job
