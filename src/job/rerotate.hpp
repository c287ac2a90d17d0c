// SPDX-License-Identifier: Apache-2.0
// Jobs of rerotation: a rotation whose rows are differences of two sources' phases.
#pragma once

#include <span>

#include "job/rotary.hpp"

namespace phasor::job {

/// `rotate.rows.from` is null until the job stays where it is: whoever runs it calls `link`.
struct RerotateJob {
  Device device;
  RotateJob rotate;
  RowSource from;

  const RotateJob& link() {
    rotate.rows.from = &from;
    return rotate;
  }
};

PHASOR_MEMBERS(RerotateJob, device, rotate, from)

/// A side of a rerotation: what keys are rotated by, and where.
struct RotationSide {
  const plan::RotaryPlan& plan;
  const Positions& positions;
};

/// The keys of a call. `slots` of a paged cache (blocks, page_size, H, D), which is moved in place; null: not paged.
struct RerotateOperands {
  const InOut& keys;
  const Slots* slots = nullptr;
};

Result<RerotateJob> make_rerotate_job(const RerotateOperands& operands, const RotationSide& from, const RotationSide& to,
                                      Direction direction);

}  // namespace phasor::job
